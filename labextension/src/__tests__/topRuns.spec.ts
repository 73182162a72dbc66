import { rowOf, type TaskRow } from '../model/fold';
import { ancestors, totalsWith, openRuns, topRun, shownIn } from '../model/topRuns';
import { aTask, at } from './rig';

type Given = Parameters<typeof aTask>[0] & { task_id: string };

function known(...given: Given[]): Map<string, TaskRow> {
  return new Map(given.map(each => [each.task_id, rowOf(aTask(each))]));
}

/** A turn, a skill that is one agent and works for it, a run that this hands over to, its step, and a run within. */
const CHAIN: Given[] = [
  { task_id: 'turn' },
  { task_id: 'agent', parent_id: 'turn' },
  { task_id: 'run', parent_id: 'agent', mode: 'GRAPH' },
  { task_id: 'step', parent_id: 'run' },
  { task_id: 'inner', parent_id: 'step', mode: 'GRAPH' },
  { task_id: 'deep', parent_id: 'inner' }
];
const ALL = known(...CHAIN);
const of = (taskId: string): TaskRow => ALL.get(taskId)!;
const ids = (rows: readonly TaskRow[]): string[] => rows.map(row => row.taskId);

test('the tasks above one are told, the nearest first', () => {
  expect(ancestors(of('deep'), ALL)).toEqual(['inner', 'step', 'run', 'agent', 'turn']);
  expect(ancestors(of('turn'), ALL)).toEqual([]);
});

test('above what is not known, REST has told of the last', () => {
  const some = known({ task_id: 'step', parent_id: 'run', run_id: 'turn' }, { task_id: 'last', parent_id: 'turn' });

  expect(ancestors(some.get('step')!, some)).toEqual(['run', 'turn']);
  expect(ancestors({ ...some.get('last')!, runId: '' }, some)).toEqual(['turn']);
});

test('the run that a turn has handed over to, however deep, is one of its own; one within it is not', () => {
  expect(topRun(of('run'), ALL)?.turn.taskId).toBe('turn');
  for (const taskId of ['turn', 'agent', 'step', 'inner', 'deep']) {
    expect(topRun(of(taskId), ALL)).toBeUndefined();
  }
});

test('a run that nobody delegated is itself what its cell says', () => {
  const rows = known(
    { task_id: 'run', mode: 'GRAPH' },
    { task_id: 'step', parent_id: 'run' },
    { task_id: 'inner', parent_id: 'step', mode: 'GRAPH' }
  );

  expect(openRuns(rows).map(({ row, turn }) => [row.taskId, turn.taskId])).toEqual([['run', 'run']]);
});

test('a run from nobody knows where is shown nowhere', () => {
  expect(openRuns(known({ task_id: 'run', parent_id: 'turn', mode: 'GRAPH' }))).toEqual([]);
});

test('of several runs of a turn, those that go on are told, the oldest first', () => {
  const rows = known(
    { task_id: 'turn' },
    { task_id: 'a', parent_id: 'turn', mode: 'GRAPH', created_at: at(3) },
    { task_id: 'b', parent_id: 'turn', mode: 'GRAPH', created_at: at(1) },
    { task_id: 'c', parent_id: 'turn', mode: 'GRAPH', created_at: at(1) },
    { task_id: 'd', parent_id: 'turn', mode: 'GRAPH', created_at: at(0), status: 'SUCCEEDED' }
  );

  expect(openRuns(rows).map(({ row }) => row.taskId)).toEqual(['b', 'c', 'a']);
});

test('what a step uses counts for the run that is shown, and for the turn', () => {
  expect(ids(totalsWith(of('deep'), ALL))).toEqual(['run', 'turn']);
  expect(ids(totalsWith(of('run'), ALL))).toEqual(['run', 'turn']);
  expect(ids(totalsWith(of('agent'), ALL))).toEqual(['turn']);
});

test('what is asked is shown with the run that is drawn, or with the turn where an agent alone asks', () => {
  const places = Object.fromEntries([...ALL.keys()].map(taskId => [taskId, shownIn(of(taskId), ALL)]));

  expect(places).toEqual({ turn: 'turn', agent: 'turn', run: 'turn', step: 'run', inner: 'run', deep: 'run' });
});
