import type { IOutput } from '@jupyterlab/nbformat';

import type { TaskOutput } from '../api/protocol.gen';
import { rowOf, type TaskRow, type TaskState } from '../model/fold';
import { isFinished, nextAction, sessionOf, shownTurn, taskOf, withEnd } from '../model/outputs';
import { aTask, AT } from './rig';

const TASK = aTask().task_id;
const OTHER = '01M800000000000000000000ZZ';
const SAVED = Date.parse(AT);

const NOTE: IOutput = { output_type: 'display_data', data: { 'text/markdown': 'Ran before.' }, metadata: {} };
const PROBLEM: IOutput = { output_type: 'display_data', data: { 'text/plain': 'The connection ended.' }, metadata: {} };

function turn(status: string, task = TASK): IOutput {
  return {
    output_type: 'display_data',
    data: { 'application/vnd.ozzie.turn+json': { task, status }, 'text/markdown': status, 'text/plain': status },
    metadata: { ozzie: { session: 'sess_1', task, turn: task } }
  };
}

function live(task = TASK): IOutput {
  const where = task && ` (task ${task})`;
  const text = `This turn was still running when the notebook was saved. Open it with Ozzie to see the rest${where}.`;
  return {
    output_type: 'display_data',
    data: {
      'application/vnd.jupyter.widget-view+json': { model_id: 'x' },
      'text/markdown': `*${text}*`,
      'text/plain': text
    },
    metadata: {}
  };
}

function row(status: TaskState, given: Partial<TaskRow> = {}): TaskRow {
  const open = !['SUCCEEDED', 'FAILED', 'CANCELLED'].includes(status);
  return { ...rowOf(aTask({ status })), finishedAt: open ? null : SAVED + 1000, ...given };
}

const END = { task_id: TASK, status: 'SUCCEEDED', html: '', graph: {}, ...turn('Done') } as unknown as TaskOutput;

test.each([
  ['nothing', [], null],
  ['no turn', [NOTE], null],
  ['a turn that goes on', [live()], { at: 0, taskId: TASK, isFinal: false }],
  ['one of which the task was not known yet', [live('')], { at: 0, taskId: '', isFinal: false }],
  ['its end', [turn('Done')], { at: 0, taskId: TASK, isFinal: true }],
  ['what a kernel gave up on', [turn('Working'), PROBLEM], { at: 0, taskId: TASK, isFinal: false }],
  ['a note before it', [NOTE, turn('Failed')], { at: 1, taskId: TASK, isFinal: true }]
])('a cell shows %s', (_, outputs, shown) => {
  expect(shownTurn(outputs)).toEqual(shown);
});

const GRAPH: IOutput = { output_type: 'display_data', data: { 'image/svg+xml': '<svg/>' }, metadata: {} };

test('the picture of a run stands below its end, and is part of it', () => {
  const ended = withEnd([NOTE, live()], { ...END, graph: GRAPH.data } as TaskOutput);

  expect(ended).toEqual([NOTE, turn('Done'), GRAPH]);
  expect(isFinished(ended, TASK)).toBe(true);
  expect(sessionOf(ended)).toBe('sess_1');
  expect(isFinished([turn('Done'), PROBLEM], TASK)).toBe(false);
});

test.each<[string, IOutput[], TaskRow, string]>([
  ['goes on', [], row('RUNNING'), 'follow'],
  ['goes on, and is shown as it was', [live()], row('WAITING_APPROVAL'), 'follow'],
  ['ended after the file was saved', [], row('SUCCEEDED'), 'finish'],
  ['ended after the file was saved, which shows an older one', [turn('Done', OTHER)], row('FAILED'), 'finish'],
  ['ended, and is shown as unfinished', [live()], row('SUCCEEDED', { finishedAt: SAVED - 5000 }), 'finish'],
  ['ended, and was given up on', [turn('Working'), PROBLEM], row('SUCCEEDED', { finishedAt: SAVED - 5000 }), 'finish'],
  ['ended, and is shown', [turn('Done')], row('SUCCEEDED'), 'nothing'],
  ['was seen, and then cleared', [], row('SUCCEEDED', { finishedAt: SAVED - 5000 }), 'nothing'],
  ['was seen, and then replaced', [turn('Done', OTHER)], row('SUCCEEDED', { finishedAt: SAVED - 5000 }), 'nothing']
])('of a turn that %s', (_, outputs, task, todo) => {
  expect(nextAction(shownTurn(outputs), task, SAVED)).toBe(todo);
});

test('the end takes the place of what was shown of the turn, and keeps what was said before', () => {
  expect(withEnd([NOTE, live(), PROBLEM], END)).toEqual([NOTE, turn('Done')]);
  expect(withEnd([NOTE, turn('Working'), turn('Done')], END)).toEqual([NOTE, turn('Done')]);
  expect(withEnd([turn('Done', OTHER)], END)).toEqual([turn('Done')]);
});

test('the end is there once, or it is not as it should be', () => {
  expect(isFinished([NOTE, turn('Done')], TASK)).toBe(true);
  expect(isFinished([turn('Done'), turn('Done')], TASK)).toBe(false);
  expect(isFinished([turn('Done', OTHER)], TASK)).toBe(false);
  expect(isFinished([turn('Working')], TASK)).toBe(false);
});

test('the task of a cell is its newest, one that goes on first, else the one that it shows', () => {
  const newest = row('SUCCEEDED', { taskId: 'C' });
  const open = row('RUNNING', { taskId: 'B' });
  const elsewhere = row('SUCCEEDED', { taskId: 'A', cellId: 'another' });

  expect(taskOf('cell-1', null, [newest, open])?.taskId).toBe('B');
  expect(taskOf('cell-1', null, [newest, elsewhere])?.taskId).toBe('C');
  expect(taskOf('cell-2', { at: 0, taskId: 'A', isFinal: false }, [newest, elsewhere])?.taskId).toBe('A');
  expect(taskOf('cell-2', null, [newest, elsewhere])).toBeUndefined();
});

test('the session stands with the last output', () => {
  expect(sessionOf([NOTE, turn('Done')])).toBe('sess_1');
  expect(sessionOf([NOTE])).toBe('');
  expect(sessionOf([])).toBe('');
});
