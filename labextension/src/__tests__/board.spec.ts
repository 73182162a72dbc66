import { FeedSocket } from '../api/socket';
import { MAX_KEPT, MAX_OPEN, TaskBoard } from '../model/board';
import { aTask, anEvent, asked, at, FakePage, FakeServer, FakeSocket, FakeWebSocket, frame, HEALTH } from './rig';

let server: FakeServer;
let socket: FeedSocket;
let board: TaskBoard;
let page: FakePage;

function begin(...tasks: Parameters<typeof aTask>[0][]): Promise<void> {
  server = new FakeServer(...tasks.map(aTask));
  socket = new FeedSocket({ url: 'ws://127.0.0.1/', WebSocket: FakeWebSocket, random: () => 1 });
  page = new FakePage();
  board = new TaskBoard(server.api, socket, Date.now, page);
  return board.load();
}

const idOf = (number: number): string => `01M9${String(number).padStart(22, '0')}`;

/** The server has so many tasks, and gives them page by page. */
function serveMany(count: number, given: Parameters<typeof aTask>[0]): void {
  server.answers.set('tasks?', (path: string) => {
    const [limit, cursor] = [Number(asked(path, 'limit')), asked(path, 'cursor')];
    const first = cursor === null ? count - 1 : Number(cursor.slice(4)) - 1;
    const numbers = Array.from({ length: Math.min(limit, first + 1) }, (_, index) => first - index);
    const items = numbers.map(number => aTask({ ...given, task_id: idOf(number) }));
    return { items, next: (numbers.at(-1) ?? 0) > 0 ? items.at(-1)?.task_id : null };
  });
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

test('all tasks that are open are there, however many', async () => {
  await begin();
  serveMany(1_450, { status: 'QUEUED' });
  server.asked.length = 0;
  await board.load();

  expect(board.rows).toHaveLength(1_450);
  expect(new Set(board.rows.map(row => row.taskId)).size).toBe(1_450);
  expect(server.asked.filter(line => line.includes('status='))).toHaveLength(3);
  expect([board.isWhole, board.hasAllOpen]).toEqual([false, true]);
});

test('of more open tasks than a page can show, it knows that there are others', async () => {
  await begin();
  serveMany(MAX_OPEN + 450, { status: 'QUEUED' });
  await board.load();

  expect(board.rows).toHaveLength(MAX_OPEN);
  expect([board.isWhole, board.hasAllOpen]).toEqual([false, false]);
});

test.each([
  [200, true],
  [450, false]
])('of %d tasks that have ended the newest are there, and it knows whether that is all', async (count, isWhole) => {
  await begin();
  serveMany(count, { status: 'SUCCEEDED' });
  const all = server.answers.get('tasks?') as (path: string) => unknown;
  server.answers.set('tasks?', (path: string) => (asked(path, 'status') ? { items: [], next: null } : all(path)));
  await board.load();

  expect(board.rows).toHaveLength(200);
  expect(board.isWhole).toBe(isWhole);
});

test('a page that nobody sees asks for no figures, and for all of them when it is seen', async () => {
  await begin({});
  FakeSocket.last.accept();
  await settle();
  server.asked.length = 0;
  page.hide(true);
  FakeSocket.last.say(frame(anEvent('task.succeeded', 12)));
  await jest.advanceTimersByTimeAsync(10_000);
  expect(board.rows[0]).toMatchObject({ status: 'SUCCEEDED' });
  expect(server.asked).toEqual([]);

  page.hide(false);
  await jest.advanceTimersByTimeAsync(400);
  expect(server.asked).toContain(`GET tasks/${aTask().task_id}`);
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

test('an event of a shape that the page does not know is asked about, and the others are folded', async () => {
  await begin({});
  FakeSocket.last.accept();
  const other = aTask({ task_id: '01M800000000000000000000AB', title: 'another', status: 'QUEUED' });
  server.answers.set(`tasks/${other.task_id}`, other);
  FakeSocket.last.say(
    frame(anEvent('message.received', 11, {}, { taskId: other.task_id })),
    { ...frame(anEvent('task.failed', 12, {}, { taskId: other.task_id })), payload: null },
    frame(anEvent('task.succeeded', 13))
  );

  expect(board.row(aTask().task_id)?.status).toBe('SUCCEEDED');
  await jest.advanceTimersByTimeAsync(400);
  expect(board.row(other.task_id)?.title).toBe('another');
});

test('what was erased is not shown any more', async () => {
  await begin({});
  FakeSocket.last.accept();
  server.answers.set('tasks?', () => ({ items: [], next: null }));
  FakeSocket.last.say({ type: 'event', canonical: 'session.erased', position: 12, session_id: 'sess_1', payload: {} });
  await settle();

  expect(board.rows).toEqual([]);
});

test('a page that is open for weeks keeps the newest tasks, and all that are open', async () => {
  await begin({});
  FakeSocket.last.accept();
  for (let number = 0; number < 3 * MAX_KEPT; number += 1) {
    const taskId = idOf(number);
    FakeSocket.last.say(
      frame(anEvent('task.created', 11 + 2 * number, { title: taskId }, { taskId })),
      frame(anEvent('task.succeeded', 12 + 2 * number, {}, { taskId }))
    );
  }

  expect(board.rows.length).toBeLessThanOrEqual(MAX_KEPT * 1.1);
  expect(board.row(idOf(3 * MAX_KEPT - 1))?.status).toBe('SUCCEEDED');
  expect(board.row(idOf(0))).toBeUndefined();
  expect(board.isWhole).toBe(false);
  expect(board.row(aTask().task_id)?.status).toBe('RUNNING');
});

test('a server that goes on refusing to be followed is not asked without a pause', async () => {
  await begin({});
  const refuse = async (): Promise<void> => {
    FakeSocket.last.onopen?.();
    FakeSocket.last.say({ type: 'res', id: 'follow', ok: false, error: { code: 'x', message: 'x', hint: '' } });
    await settle();
  };
  await refuse();
  expect(FakeSocket.made).toHaveLength(2); // another log behind the same address: looked at at once
  await refuse();
  expect(FakeSocket.made).toHaveLength(2);
  expect(board.state).toBe('reconnecting');

  await jest.advanceTimersByTimeAsync(5000);
  expect(FakeSocket.made).toHaveLength(3);
  FakeSocket.last.accept();
  expect(board.state).toBe('ready');
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

test('it counts what runs, what waits, what needs a person, and what today cost', async () => {
  await begin(
    { task_id: '01M800000000000000000000AA' },
    { task_id: '01M800000000000000000000AB', status: 'WAITING_APPROVAL' },
    { task_id: '01M800000000000000000000AC', status: 'SUCCEEDED' },
    { task_id: '01M800000000000000000000AD', status: 'QUEUED' },
    { task_id: '01M800000000000000000000AE', status: 'CREATED' }
  );
  await settle();

  expect([board.running, board.queued, board.needYou, board.costToday]).toEqual([1, 2, 1, 1_140_000_000]);
});
