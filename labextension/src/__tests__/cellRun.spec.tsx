import { Signal } from '@lumino/signaling';
import { act } from 'react';

import { FeedSocket } from '../api/socket';
import { ApprovalBook } from '../model/approvals';
import { TaskBoard } from '../model/board';
import { drawRuns, hasRuns, type IRunParts, STAYS_MS } from '../widgets/cellRun';
import { aDetail, aGraph, ENDED, RUN, RUNS } from './graphRig';
import {
  anEvent,
  asking,
  aTask,
  AT,
  at,
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
