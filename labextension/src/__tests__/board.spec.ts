import { FeedSocket } from '../api/socket';
import { TaskBoard } from '../model/board';
import { aTask, anEvent, at, FakeServer, FakeSocket, FakeWebSocket, frame, HEALTH } from './rig';

let server: FakeServer;
let socket: FeedSocket;
let board: TaskBoard;

function begin(...tasks: Parameters<typeof aTask>[0][]): Promise<void> {
  server = new FakeServer(...tasks.map(aTask));
  socket = new FeedSocket({ url: 'ws://127.0.0.1/', WebSocket: FakeWebSocket, random: () => 1 });
  board = new TaskBoard(server.api, socket);
  return board.load();
}

/** Let what was asked be answered. */
const settle = (): Promise<unknown> => jest.advanceTimersByTimeAsync(0);

beforeEach(() => {
  jest.useFakeTimers();
  FakeSocket.made = [];
});

afterEach(() => {
  socket.close();
  jest.useRealTimers();
});

test('the first look is REST, and the feed follows from before it', async () => {
  await begin({});
  FakeSocket.last.accept();

  expect(board.state).toBe('ready');
  expect(board.rows.map(row => row.title)).toEqual(['Which region slipped most?']);
  expect(FakeSocket.last.sent[0]!.params.from_position).toBe(HEALTH.position);
  expect(server.asked.every(line => line.startsWith('GET '))).toBe(true);
});

test('what happens is seen at once, and summed up by the server soon after', async () => {
  await begin({});
  FakeSocket.last.accept();
  server.answers.set(
    `tasks/${aTask().task_id}`,
    aTask({ status: 'SUCCEEDED', cost: 34_000_000, updated_at: at(12), finished_at: at(12) })
  );
  FakeSocket.last.say(frame(anEvent('task.succeeded', 12)));

  expect(board.rows[0]).toMatchObject({ status: 'SUCCEEDED', cost: 21_000_000 });
  await jest.advanceTimersByTimeAsync(400);
  expect(board.rows[0]).toMatchObject({ status: 'SUCCEEDED', cost: 34_000_000 });
});

test('many events of one task are one question', async () => {
  await begin({});
  FakeSocket.last.accept();
  await settle();
  server.asked.length = 0;
  for (let position = 11; position < 40; position += 1) {
    FakeSocket.last.say(frame(anEvent('model.call.completed', position)));
  }
  await jest.advanceTimersByTimeAsync(400);

  expect(server.asked.filter(line => line.includes('tasks/'))).toHaveLength(1);
});

test('a task that only the server knows is asked for', async () => {
  await begin();
  FakeSocket.last.accept();
  const old = aTask({ task_id: '01M700000000000000000000AA', title: 'an old one', status: 'QUEUED' });
  server.answers.set(`tasks/${old.task_id}`, old);
  FakeSocket.last.say(frame(anEvent('task.retried', 11, {}, { taskId: old.task_id })));
  await jest.advanceTimersByTimeAsync(400);

  expect(board.rows.map(row => row.title)).toEqual(['an old one']);
});

test('while the connection is lost, what is known stays; then it goes on', async () => {
  await begin({});
  FakeSocket.last.accept();
  FakeSocket.last.onclose?.();
  expect(board.state).toBe('reconnecting');
  expect(board.rows).toHaveLength(1);

  await jest.advanceTimersByTimeAsync(500);
  FakeSocket.last.accept();
  await settle();
  expect(board.state).toBe('ready');
});

test('a server that was updated meanwhile asks for a reload of the page', async () => {
  await begin({});
  FakeSocket.last.accept();
  FakeSocket.last.onclose?.();
  server.answers.set('health', { ...HEALTH, version: '0.2.0' });
  await jest.advanceTimersByTimeAsync(500);
  FakeSocket.last.accept();
  await settle();

  expect(board.state).toBe('updated');
});

test('another home behind the same address is looked at anew', async () => {
  await begin({});
  FakeSocket.last.accept();
  FakeSocket.last.onclose?.();
  server.answers.set('health', { ...HEALTH, home: '/home/ben/.ozzie', position: 3 });
  server.answers.set('tasks?', { items: [], next: null });
  await jest.advanceTimersByTimeAsync(500);
  FakeSocket.last.accept();
  await settle();

  expect(board.rows).toEqual([]);
  expect(FakeSocket.made).toHaveLength(3);
});

test('a server without Ozzie is told from one that refuses, and from none', async () => {
  await begin();
  server.answers.clear();
  await board.load();
  expect(board.state).toBe('absent');

  server.answers.set('health', { code: 'home.owned', message: 'Another server owns it.', hint: 'Stop that one.' });
  server.status = 503;
  await board.load();
  expect(board.state).toBe('refused');
  expect(board.problem?.hint).toBe('Stop that one.');

  server.status = 0;
  await board.load();
  expect(board.state).toBe('reconnecting');
});

test('what keeps Ozzie away may end by itself', async () => {
  await begin({});
  server.status = 503;
  server.answers.set('health', { code: 'x', message: 'x', hint: '' });
  await board.load();
  expect(board.state).toBe('refused');

  server.status = 200;
  server.answers.set('health', HEALTH);
  await jest.advanceTimersByTimeAsync(5000);
  expect(board.state).toBe('ready');
});

test('it counts what runs, what needs a person, and what today cost', async () => {
  await begin(
    { task_id: '01M800000000000000000000AA' },
    { task_id: '01M800000000000000000000AB', status: 'WAITING_APPROVAL' },
    { task_id: '01M800000000000000000000AC', status: 'SUCCEEDED' }
  );
  await settle();

  expect([board.running, board.needYou, board.costToday]).toEqual([1, 1, 1_140_000_000]);
});
