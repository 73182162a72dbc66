import { Signal } from '@lumino/signaling';
import { act } from 'react';

import type { Task } from '../api/protocol.gen';
import { FeedSocket } from '../api/socket';
import { ApprovalBook } from '../model/approvals';
import { TaskBoard } from '../model/board';
import { drawPrompts, hasPrompts } from '../widgets/cellPrompts';
import { drawRuns, hasRuns, type IRunParts, STAYS_MS } from '../widgets/cellRun';
import { aDetail, aGraph, ENDED, RUN, RUNS } from './graphRig';
import {
  anEvent,
  asking,
  AT,
  at,
  aTask,
  FakePage,
  FakeServer,
  FakeSocket,
  FakeWebSocket,
  frame,
  Refused,
  TRANS
} from './rig';

(globalThis as { IS_REACT_ACT_ENVIRONMENT?: boolean }).IS_REACT_ACT_ENVIRONMENT = true;

const STEP = '01M800000000000000000000BB';
const WIDTH = 600;

let server: FakeServer;
let socket: FeedSocket;
let board: TaskBoard;
let parts: IRunParts;
let area: HTMLElement;
let notebook: { widgets: { model: { id: string }; node: HTMLElement }[] };
const stopped: string[] = [];
const acted: [string, string][] = [];

beforeEach(async () => {
  jest.useFakeTimers({ now: Date.parse(AT) });
  // jsdom lays nothing out.
  globalThis.ResizeObserver = class {
    observe = (): void => undefined;
    unobserve = (): void => undefined;
    disconnect = (): void => undefined;
  };
  jest.spyOn(HTMLElement.prototype, 'clientWidth', 'get').mockReturnValue(WIDTH);
  FakeSocket.made = [];
  stopped.length = acted.length = 0;
  server = new FakeServer(aTask({ mode: 'GRAPH', title: '%run review' }));
  server.answers.set(`tasks/${RUN}/graph`, aGraph({ plan: ENDED, read: RUNS }, { running: 1, settled: 1 }));
  server.answers.set(`tasks/${RUN}/steps/read`, aDetail('read'));
  socket = new FeedSocket({ url: 'ws://127.0.0.1/', WebSocket: FakeWebSocket, random: () => 1 });
  board = new TaskBoard(server.api, socket, Date.now, new FakePage());
  const approvals = new ApprovalBook(server.api, socket, board);
  await board.load();
  FakeSocket.last.accept();
  parts = {
    api: server.api,
    board,
    approvals,
    trans: TRANS,
    onLeave: () => undefined,
    onStop: taskId => stopped.push(taskId),
    onAct: (act, taskId) => acted.push([act, taskId]),
    onTask: () => undefined,
    onOutputs: () => undefined
  };
  const cell = document.body.appendChild(document.createElement('div'));
  area = cell.appendChild(document.createElement('div'));
  area.className = 'jp-Cell-outputArea';
  notebook = { widgets: [{ model: { id: 'cell-1' }, node: cell }] };
});

afterEach(() => {
  document.body.replaceChildren();
  socket.close();
  jest.restoreAllMocks();
  jest.useRealTimers();
  Signal.clearData(board);
});

const pass = (milliseconds: number): Promise<void> =>
  act(async () => {
    await jest.advanceTimersByTimeAsync(milliseconds);
  });
const hear = (...events: Parameters<typeof frame>[0][]): void => act(() => FakeSocket.last.say(...events.map(frame)));
const draw = (isOver = false): void => act(() => drawRuns(notebook, board.openRuns, parts, () => isOver));

test('a run that goes on is drawn once in its cell, in place of what the kernel shows', async () => {
  draw();
  await pass(300);
  draw();

  expect(area.querySelectorAll('.jp-Ozzie-cellRun')).toHaveLength(1);
  expect(area.classList).toContain('jp-Ozzie-mod-graphed');
  expect(area.querySelector('.jp-Ozzie-stateLine')?.textContent).toBe('Working0 s1 running120 tokens$0.021PauseStop');
  expect(server.asked).toContain(`GET tasks/${RUN}/graph?width=600`);
  act(() => area.querySelector<HTMLElement>('.jp-Ozzie-stopRun')?.click());
  expect(stopped).toEqual([RUN]);
});

test('a run is held and let go on by the button beside Stop, which says what it does next', async () => {
  draw();
  await pass(300);
  const button = (): HTMLElement => area.querySelector<HTMLElement>('.jp-Ozzie-actRun')!;
  const line = (): string => area.querySelector('.jp-Ozzie-stateLine')?.textContent ?? '';
  const pressed = button();
  act(() => pressed.click());
  hear(anEvent('task.pausing', 20, { wanted: true, by: 'ana', reason: '' }));
  await pass(300);
  expect(line()).toContain('Workingpausing');

  hear(anEvent('task.paused', 21, { reason: 'by you' }));
  await pass(300);
  expect(line()).toContain('Pausedby you');
  expect(button()).toBe(pressed);
  expect(button().textContent).toBe('Resume');
  act(() => button().click());
  expect(acted).toEqual([
    ['pause', RUN],
    ['resume', RUN]
  ]);
});

test('a page that is loaded while a run is about to pause says so', async () => {
  const task = aTask({ mode: 'GRAPH', title: '%run review', pausing: true });
  server.answers.set('tasks?', { items: [task], next: null });
  await act(() => board.load());
  draw();
  await pass(300);

  expect(area.querySelector('.jp-Ozzie-stateLine')?.textContent).toContain('Workingpausing');
  expect(area.querySelector('.jp-Ozzie-actRun')?.textContent).toBe('Resume');
});

test('where there is no graph, the kernel goes on to show the run', async () => {
  server.answers.set(`tasks/${RUN}/graph`, new Refused(404, 'task.no_graph', ''));
  draw();
  await pass(300);

  expect(area.classList).not.toContain('jp-Ozzie-mod-graphed');
  expect(area.querySelector('.jp-Ozzie-stateLine')).toBeNull();
});

test('what a step asks is a card in the cell of its run, and the run waits for you', async () => {
  draw();
  await pass(300);
  const payload = {
    title: 'review: publish',
    parent: RUN,
    step: 'publish',
    mode: 'FREE',
    channel: '',
    model: ''
  } as const;
  const asked = asking(12, { task_id: STEP });
  hear(anEvent('task.created', 11, payload, { taskId: STEP }), { ...asked, taskId: STEP });
  hear(anEvent('task.waiting_approval', 13, {}, { taskId: STEP }));
  await pass(300);

  expect(area.querySelector('.jp-Ozzie-kicker')?.textContent).toContain('Approval needed by step “publish”');
  expect(area.querySelector('.jp-Ozzie-approval')?.textContent).toContain('The other steps go on meanwhile.');
  expect(area.querySelector('.jp-Ozzie-stateLine b')?.textContent).toBe('Waiting for you');
});

test('it goes once the saved picture is there, or after a while', async () => {
  draw();
  await pass(300);
  hear(anEvent('task.succeeded', 20, { rounds: 1 }, { ts: at(20) }));
  draw();
  expect(hasRuns(notebook)).toBe(true);
  draw(true);
  expect(hasRuns(notebook)).toBe(false);
  expect(area.className).toBe('jp-Cell-outputArea');
});

test('it does not stay where nobody puts the end there', async () => {
  draw();
  await pass(300);
  hear(anEvent('task.cancelled', 20, { by: 'Ana', reason: '' }, { ts: at(20) }));
  draw();
  await pass(STAYS_MS + 1);
  draw();

  expect(area.querySelector('.jp-Ozzie-cellRun')).toBeNull();
});

test('where Lab took the cell out of the page and made it anew, it is drawn there', async () => {
  draw();
  await pass(300);
  const other = document.createElement('div');
  other.className = 'jp-Cell-outputArea';
  notebook.widgets[0]!.node.replaceChildren(other);
  draw();
  await pass(300);

  expect(other.querySelectorAll('.jp-Ozzie-cellRun')).toHaveLength(1);
});

const TURN = '01M800000000000000000000TT';
const LETTER = '01M800000000000000000000LL';

/** Instead of a run there is a turn that has handed work over to two skills, to `review` first. */
async function handOver(...more: Task[]): Promise<void> {
  const handed = (task_id: string, title: string, second: number): Task =>
    aTask({ task_id, title, mode: 'GRAPH', cell_id: '', parent_id: TURN, run_id: TURN, created_at: at(second) });
  const tasks = [handed(LETTER, 'letter', 2), aTask({ task_id: TURN }), handed(RUN, 'review', 1), ...more];
  server.answers.set('tasks?', { items: tasks, next: null });
  server.answers.set(`tasks/${LETTER}/graph`, aGraph({}, { name: 'letter', task_id: LETTER }));
  await act(() => board.load());
  draw();
  await pass(300);
}

const lines = (): (string | null)[] =>
  [...area.querySelectorAll('.jp-Ozzie-stateLine')].map(line => line.querySelector('.jp-Ozzie-runName')!.textContent);
const roots = (): Element[] => [...area.querySelectorAll(':scope > .jp-Ozzie-cellRun')];

test('what a turn has handed over stands below what the kernel shows of it, by name, the oldest first', async () => {
  await handOver();

  expect(lines()).toEqual(['review', 'letter']);
  expect(area.classList).not.toContain('jp-Ozzie-mod-graphed');
  expect(roots()[0]?.querySelector('.jp-Ozzie-stateLine')?.textContent).toMatch(/^reviewWorking/);
  expect(roots()[0]?.querySelector('.jp-Ozzie-graphName')?.textContent).toBe('');
  act(() => roots()[0]?.querySelector<HTMLElement>('.jp-Ozzie-stopRun')?.click());
  expect(stopped).toEqual([RUN]);
});

test('one that is heard of late stands above those begun after it, and what the turn asks below', async () => {
  const asks = area.appendChild(document.createElement('div'));
  asks.className = 'jp-Ozzie-inCell';
  await handOver();
  const [, letter] = roots();
  const first = aTask({
    task_id: '01M800000000000000000000ZZ',
    title: 'first',
    mode: 'GRAPH',
    parent_id: TURN,
    created_at: at(0)
  });
  server.answers.set(`tasks/${first.task_id}/graph`, aGraph());
  server.answers.set(`tasks/${first.task_id}`, first);
  hear(anEvent('task.started', 30, { attempt: 1 }, { taskId: first.task_id }));
  await pass(500);
  draw();
  await pass(300);

  expect(lines()).toEqual(['first', 'review', 'letter']);
  expect(roots()[2]).toBe(letter);
  expect(area.lastElementChild).toBe(asks);
});

test('what a step asks is in its own run, however deep, and only that one waits', async () => {
  const step = aTask({ task_id: '01M8000000000000000000STEP', title: 'review: read', parent_id: RUN });
  const inner = aTask({
    task_id: '01M800000000000000000INNER',
    mode: 'GRAPH',
    title: 'inner',
    parent_id: step.task_id
  });
  const deep = aTask({
    task_id: '01M8000000000000000000DEEP',
    title: 'inner: publish',
    parent_id: inner.task_id,
    status: 'WAITING_APPROVAL'
  });
  await handOver(step, inner, deep);
  hear({ ...asking(12, { task_id: deep.task_id }), taskId: deep.task_id });
  await pass(300);

  expect(lines()).toEqual(['review', 'letter']);
  const [review, letter] = roots();
  expect(area.querySelectorAll('.jp-Ozzie-approval')).toHaveLength(1);
  expect(review?.querySelector('.jp-Ozzie-kicker')?.textContent).toContain(
    'Approval needed by step “publish” of inner'
  );
  expect(review?.querySelector('.jp-Ozzie-stateLine b')?.textContent).toBe('Waiting for you');
  expect(letter?.querySelector('.jp-Ozzie-stateLine b')?.textContent).toBe('Working');
});

test('what an agent asks that the turn has handed over to stands below the runs, once', async () => {
  const scout = aTask({
    task_id: '01M800000000000000000SCOUT',
    title: 'scout',
    parent_id: TURN,
    status: 'WAITING_APPROVAL'
  });
  await handOver(scout);
  hear({ ...asking(12, { task_id: scout.task_id }), taskId: scout.task_id });
  const drawTurn = (): void => {
    const turn = board.row(TURN)!;
    act(() => drawPrompts(notebook, hasPrompts(turn, board) ? turn : undefined, parts));
  };
  drawTurn();
  await pass(300);
  drawTurn();

  expect(area.querySelectorAll('.jp-Ozzie-approval')).toHaveLength(1);
  expect(area.lastElementChild?.querySelector('.jp-Ozzie-kicker')?.textContent).toContain('Approval needed by “scout”');
  expect(roots().some(each => each.querySelector('.jp-Ozzie-approval'))).toBe(false);
  hear(anEvent('task.queued', 22, { reason: 'answered' }, { taskId: scout.task_id, ts: at(22) }));
  drawTurn();
  expect(area.querySelector(':scope > .jp-Ozzie-inCell:not(.jp-Ozzie-cellRun)')).toBeNull();
});

test('what waits in a run is not asked once more by the turn, nor by the cell of a run itself', async () => {
  const step = aTask({ task_id: STEP, title: 'review: read', parent_id: RUN, status: 'WAITING_APPROVAL' });
  server.answers.set('tasks?', { items: [aTask({ mode: 'GRAPH' }), step], next: null });
  await act(() => board.load());
  expect(hasPrompts(board.row(RUN)!, board)).toBe(false);

  await handOver(step);
  expect(board.row(TURN)?.waiting).toHaveLength(1);
  expect(hasPrompts(board.row(TURN)!, board)).toBe(false);
});

test('one that has ended stays for a moment, and goes without the others', async () => {
  await handOver();
  hear(anEvent('task.succeeded', 20, { rounds: 1 }, { ts: at(20) }));
  draw();
  await pass(300);
  expect(roots()[0]?.querySelector('.jp-Ozzie-stateLine')?.textContent).toMatch(/^reviewDone/);
  await pass(STAYS_MS + 1);
  draw();

  expect(lines()).toEqual(['letter']);
});

test('as long as the turn asks something below it, one that has ended stays where it is', async () => {
  await handOver();
  hear(anEvent('task.succeeded', 20, { rounds: 1 }, { ts: at(20) }));
  hear(anEvent('task.waiting_approval', 21, {}, { taskId: TURN, ts: at(21) }));
  draw();
  await pass(10 * STAYS_MS);
  draw();
  expect(lines()).toEqual(['review', 'letter']);

  hear(anEvent('task.queued', 22, { reason: 'answered' }, { taskId: TURN, ts: at(22) }));
  draw();
  expect(lines()).toEqual(['letter']);
});

test('as long as the cell is a run itself, what the kernel shows stays hidden, whatever else goes', async () => {
  const own = aTask({ task_id: TURN, mode: 'GRAPH', title: '%run again', created_at: at(3) });
  draw();
  await pass(300);
  server.answers.set('tasks?', { items: [own, aTask({ mode: 'GRAPH', title: '%run review' })], next: null });
  server.answers.set(`tasks/${TURN}/graph`, aGraph());
  await act(() => board.load());
  draw();
  await pass(300);
  hear(anEvent('task.succeeded', 20, { rounds: 1 }, { ts: at(20) }));
  draw(true);

  expect(roots()).toHaveLength(1);
  expect(area.classList).toContain('jp-Ozzie-mod-graphed');
});
