import type { RecordedEvent } from '../api/frames';
import { FeedSocket } from '../api/socket';
import { MAX_KEPT, TaskBoard } from '../model/board';
import { RunGraph } from '../model/runGraph';
import { aGraph, ENDED, RUN } from './graphRig';
import { anEvent, aTask, AT, FakePage, FakeServer, FakeSocket, FakeWebSocket, frame, Refused } from './rig';

const STEP = '01M800000000000000000000BB';
const PATH = `tasks/${RUN}/graph`;

let server: FakeServer;
let board: TaskBoard;
let page: FakePage;
let socket: FeedSocket;

const hear = (...events: Parameters<typeof frame>[0][]): void => FakeSocket.last.say(...events.map(frame));
const pass = (milliseconds: number): Promise<void> => jest.advanceTimersByTimeAsync(milliseconds);
const asked = (): string[] => server.asked.filter(path => path.includes('/graph'));
/** What `task_id`, or the run itself, is told to have done. */
const event = (
  canonical: RecordedEvent['canonical'],
  position: number,
  { task_id = RUN, payload = {} }: { task_id?: string; payload?: object } = {}
): RecordedEvent => anEvent(canonical, position, payload, { taskId: task_id });
const created = event('task.created', 11, {
  task_id: STEP,
  payload: { title: 'review: read', parent: RUN, step: 'read', mode: 'FREE', channel: 'notebook', model: '' }
});

beforeEach(async () => {
  jest.useFakeTimers({ now: Date.parse(AT) });
  FakeSocket.made = [];
  server = new FakeServer(aTask({ mode: 'GRAPH', title: '%run review' }));
  server.answers.set(PATH, aGraph());
  socket = new FeedSocket({ url: 'ws://127.0.0.1/', WebSocket: FakeWebSocket, random: () => 1 });
  page = new FakePage();
  board = new TaskBoard(server.api, socket, Date.now, page);
  await board.load();
  FakeSocket.last.accept();
});

afterEach(() => {
  socket.close();
  jest.useRealTimers();
});

test('nothing is asked before there is a width, then once, and again for another width', async () => {
  const run = new RunGraph(RUN, server.api, board, page);
  await pass(2_000);
  expect(asked()).toEqual([]);

  run.setWidth(846);
  await pass(300);
  run.setWidth(843);
  await pass(300);
  expect(asked()).toEqual([`GET ${PATH}?width=840`]);
  expect(run.graph?.name).toBe('review');

  run.setWidth(500);
  await pass(300);
  expect(asked().at(-1)).toBe(`GET ${PATH}?width=500&known=1`);
  run.dispose();
});

test('events of the run and of its steps have it asked for, together and not one by one; those of others do not', async () => {
  const run = new RunGraph(RUN, server.api, board, page);
  run.setWidth(840);
  await pass(1_000);
  expect(asked()).toHaveLength(1);

  hear(created);
  for (let position = 12; position < 30; position += 1) {
    hear(event('step.started', position, { payload: { step_id: 'read', visit: 1, attempt: 1, task: STEP } }));
  }
  hear(event('task.started', 31, { task_id: STEP, payload: { attempt: 1 } }));
  await pass(200);
  expect(asked().length).toBeLessThanOrEqual(3);

  await pass(2_000);
  const before = asked().length;
  hear(
    event('task.created', 40, { task_id: '01M800000000000000000000CC', payload: { ...created.payload, parent: null } })
  );
  await pass(2_000);
  expect(asked()).toHaveLength(before);

  run.dispose();
  hear(event('task.succeeded', 41, { task_id: STEP, payload: { rounds: 1 } }));
  await pass(2_000);
  expect(asked()).toHaveLength(before);
});

test('while the run is held, the end of a step has it asked for', async () => {
  const run = new RunGraph(RUN, server.api, board, page);
  run.setWidth(840);
  hear(created, event('task.queued', 12, { task_id: STEP, payload: { reason: 'created' } }));
  hear(event('task.paused', 13, { payload: { reason: 'by you', by: 'ana' } }));
  await pass(2_000);
  const before = asked().length;
  server.answers.set(PATH, aGraph({ read: ENDED }, { status: 'PAUSED', version: '2' }));
  hear(event('task.succeeded', 14, { task_id: STEP, payload: { rounds: 1 } }));
  await pass(300);

  expect(asked()).toHaveLength(before + 1);
  expect(run.graph?.steps[1]?.state).toBe('Done');
  run.dispose();
});

test('a task without a graph is not asked about again', async () => {
  server.answers.set(PATH, new Refused(404, 'task.no_graph', ''));
  const run = new RunGraph(RUN, server.api, board, page);
  run.setWidth(840);
  await pass(500);
  hear(event('task.started', 12, { payload: { attempt: 1 } }));
  await pass(5_000);

  expect(run.isAbsent).toBe(true);
  expect(asked()).toHaveLength(1);
  run.dispose();
});

test('where nobody answers it is tried again', async () => {
  const run = new RunGraph(RUN, server.api, board, page);
  server.status = 0;
  run.setWidth(840);
  await pass(500);
  expect(run.graph).toBeNull();

  server.status = 200;
  await pass(3_000);
  expect(run.graph?.name).toBe('review');
  run.dispose();
});

test('a step is in no list, and its run waits where it does', () => {
  hear(created, event('task.queued', 12, { task_id: STEP, payload: { reason: 'created' } }));
  expect(board.rows.map(row => row.taskId)).toEqual([RUN]);
  expect(board.all.map(row => row.taskId)).toEqual([RUN, STEP]);
  expect([board.running, board.queued, board.needYou]).toEqual([1, 0, 0]);

  hear(event('task.waiting_approval', 13, { task_id: STEP, payload: { reason: '' } }));
  expect(board.rows[0]?.waiting.map(row => row.title)).toEqual(['review: read']);
  expect(board.row(RUN)?.waiting).toHaveLength(1);
  expect([board.running, board.needYou]).toEqual([1, 1]);
  expect(board.runOf(board.row(STEP)!)).toBe(RUN);

  hear(event('task.queued', 14, { task_id: STEP, payload: { reason: 'answered' } }));
  expect(board.row(RUN)?.waiting).toEqual([]);
});

test('what a step uses has its run summed up, and not the step', async () => {
  hear(created);
  server.asked.length = 0;
  hear(event('task.succeeded', 15, { task_id: STEP, payload: { rounds: 1 } }));
  await pass(1_000);

  expect(server.asked.filter(path => path.startsWith('GET tasks/'))).toEqual([`GET tasks/${RUN}`]);
});

test('a run that a turn handed over to waits for what is below it, and is summed up as the turn is', async () => {
  const [turn, of] = ['01M8000000000000000000TURN', { channel: 'notebook', model: '' } as const];
  const handed = aTask({ mode: 'GRAPH', title: 'review', parent_id: turn, run_id: turn });
  server.answers.set('tasks?', { items: [aTask({ task_id: turn }), handed], next: null });
  await board.load();
  hear(
    event('task.created', 11, { task_id: STEP, payload: { title: 'review: read', parent: RUN, mode: 'FREE', ...of } })
  );
  hear(event('task.waiting_approval', 12, { task_id: STEP, payload: { reason: '' } }));
  expect([RUN, turn].map(taskId => board.row(taskId)?.waiting.map(row => row.title))).toEqual([
    ['review: read'],
    ['review: read']
  ]);
  expect(board.row(STEP)?.waiting).toEqual([]);
  expect([turn, RUN, STEP].map(taskId => board.isPartOf(board.row(STEP)!, taskId))).toEqual([true, true, false]);
  expect(board.runOf(board.row(STEP)!)).toBe(turn);

  const graph = new RunGraph(RUN, server.api, board, page);
  graph.setWidth(840);
  await pass(2_000);
  server.asked.length = 0;
  hear(event('task.succeeded', 15, { task_id: STEP, payload: { rounds: 1 } }));
  await pass(1_000);
  expect(asked()).not.toEqual([]);
  const summed = server.asked.filter(path => /^GET tasks\/\w+$/.test(path));
  expect(new Set(summed)).toEqual(new Set([`GET tasks/${RUN}`, `GET tasks/${turn}`]));
  graph.dispose();
});

test('of many that have ended, steps are forgotten first', () => {
  for (let at = 0; at <= MAX_KEPT * 1.1; at += 1) {
    const task_id = `01M8${String(at).padStart(22, '0')}`;
    hear(
      event('task.created', 100 + 2 * at, { task_id, payload: created.payload }),
      event('task.succeeded', 101 + 2 * at, { task_id, payload: { rounds: 1 } })
    );
  }

  expect(board.row(RUN)).toBeDefined();
  expect(board.isWhole).toBe(true);
  expect(board.all.length).toBeLessThanOrEqual(MAX_KEPT * 1.1);
});
