import type { FeedEvent } from '../api/frames';
import { FOLLOWED_TYPES } from '../api/frames';
import { type ConnectionState, FeedSocket } from '../api/socket';
import { anEvent, FakeSocket, FakeWebSocket, frame } from './rig';

let socket: FeedSocket;
let states: ConnectionState[];
let received: FeedEvent[];

beforeEach(() => {
  jest.useFakeTimers();
  FakeSocket.made = [];
  socket = new FeedSocket({ url: 'ws://127.0.0.1/ozzie/api/ws', WebSocket: FakeWebSocket, random: () => 1 });
  states = [];
  received = [];
  socket.stateChanged.connect((_, state) => states.push(state));
  socket.received.connect((_, events) => received.push(...events));
});

afterEach(() => {
  socket.close();
  jest.useRealTimers();
});

const positions = (): (number | null)[] => received.map(event => event.position);

test('it follows from the position that it is told, and nothing but what a page needs', () => {
  socket.follow(7);
  FakeSocket.last.accept();

  expect(FakeSocket.last.sent).toEqual([
    { type: 'req', id: 'follow', method: 'feed.subscribe', params: { from_position: 7, types: FOLLOWED_TYPES } }
  ]);
  expect(states).toEqual(['connecting', 'connected']);
  expect(FakeSocket.last.url).not.toContain('token');
});

test('a message may hold one frame or many', () => {
  socket.follow(0);
  FakeSocket.last.accept();
  FakeSocket.last.say(frame(anEvent('task.queued', 1)));
  FakeSocket.last.say(frame(anEvent('task.started', 2)), frame(anEvent('task.succeeded', 3)));

  expect(positions()).toEqual([1, 2, 3]);
});

test('after a cut it goes on behind the last event, and none comes twice', () => {
  socket.follow(0);
  FakeSocket.last.accept();
  FakeSocket.last.say(frame(anEvent('task.queued', 4)));
  FakeSocket.last.onclose?.();
  expect(socket.state).toBe('reconnecting');

  jest.advanceTimersByTime(500);
  expect(FakeSocket.made).toHaveLength(2);
  FakeSocket.last.accept();
  expect(FakeSocket.last.sent[0]!.params.from_position).toBe(4);
  FakeSocket.last.say(frame(anEvent('task.queued', 4)), frame(anEvent('task.started', 5)));

  expect(positions()).toEqual([4, 5]);
  expect(states).toEqual(['connecting', 'connected', 'reconnecting', 'connected']);
});

test('it waits longer after each failure, and begins anew after a success', () => {
  socket.follow(0);
  const waits: number[] = [];
  for (let round = 0; round < 8; round += 1) {
    const made = FakeSocket.made.length;
    FakeSocket.last.onclose?.();
    let waited = 0;
    while (FakeSocket.made.length === made) {
      jest.advanceTimersByTime(500);
      waited += 500;
    }
    waits.push(waited);
  }
  expect(waits).toEqual([500, 1000, 2000, 4000, 8000, 15_000, 15_000, 15_000]);

  FakeSocket.last.accept();
  FakeSocket.last.onclose?.();
  jest.advanceTimersByTime(500);
  expect(FakeSocket.made).toHaveLength(10);
});

test('a network that is back is used at once', () => {
  socket.follow(0);
  FakeSocket.last.accept();
  socket.cut();
  expect(socket.state).toBe('reconnecting');
  expect(FakeSocket.made[0]!.closed).toBe(true);

  socket.retry();
  FakeSocket.last.accept();
  expect(FakeSocket.made).toHaveLength(2);
  expect(socket.state).toBe('connected');
});

test('a connection that says nothing any more is given up', () => {
  socket.follow(0);
  FakeSocket.last.accept();
  jest.advanceTimersByTime(20_000);
  expect(FakeSocket.last.sent.at(-1)!.id).toBe('still there');
  FakeSocket.last.say({ type: 'res', id: 'still there', ok: true });
  expect(socket.state).toBe('connected');

  jest.advanceTimersByTime(30_000);
  expect(socket.state).toBe('reconnecting');
});

test('a log that does not reach so far any more is said, not followed', () => {
  let outdated = 0;
  socket.outdated.connect(() => (outdated += 1));
  socket.follow(900);
  FakeSocket.last.onopen?.();
  FakeSocket.last.say({ type: 'res', id: 'follow', ok: false, error: { code: 'input', message: 'Position 900 …' } });

  expect(outdated).toBe(1);
  expect(socket.state).toBe('closed');
});

test('what was erased is said once', () => {
  let erased = 0;
  socket.erased.connect(() => (erased += 1));
  socket.follow(7);
  FakeSocket.last.accept();
  const said = { type: 'event', canonical: 'session.erased', session_id: 'sess_1', payload: {} };
  for (const position of [7, 8, 8]) {
    FakeSocket.last.say({ ...said, position });
  }

  expect(FakeSocket.last.sent[0]!.params.types).toEqual(expect.arrayContaining(['session.erased', 'message.erased']));
  expect(erased).toBe(1);
});

test.each([
  ['no JSON'],
  ['[1, null, "x"]'],
  ['{"type":"event"}'],
  ['{"type":"event","canonical":"toString","task_id":"x"}']
])('what is no frame is passed over: %s', data => {
  socket.follow(0);
  FakeSocket.last.accept();
  FakeSocket.last.onmessage?.({ data });

  expect(received).toEqual([]);
  expect(socket.state).toBe('connected');
});

test('what came of a connection before the last one means nothing', () => {
  socket.follow(0);
  const first = FakeSocket.last;
  first.accept();
  socket.follow(5);

  expect(first.onmessage).toBeNull();
  expect(first.closed).toBe(true);
});

test('a request gets its own answer, and none where the connection goes', async () => {
  expect(await socket.request('notebook.opened', {})).toBeNull();
  socket.follow(0);
  FakeSocket.last.accept();
  const [first, second] = [socket.request('notebook.opened', { path: 'a' }), socket.request('notebook.closed', {})];
  const third = socket.request('notebook.opened', {});
  const ids = FakeSocket.last.sent.slice(1).map(({ id }) => id);
  expect(new Set(ids).size).toBe(3);
  FakeSocket.last.say(
    { type: 'res', id: ids[1], ok: false, error: { code: 'input', message: 'No.' } },
    { type: 'res', id: ids[0], ok: true, payload: { x: 1 } }
  );
  FakeSocket.last.onclose?.();

  expect((await first)?.payload).toEqual({ x: 1 });
  expect((await second)?.ok).toBe(false);
  expect(await third).toBeNull();
});

test('what is asked of a notebook is told, and moves the feed nowhere', () => {
  const asked: unknown[] = [];
  socket.notebookRequested.connect((_, each) => asked.push(each));
  socket.follow(7);
  FakeSocket.last.accept();
  const event = { type: 'event', event: 'notebook.asked', canonical: 'notebook.asked', position: null };
  FakeSocket.last.say(
    { ...event, payload: { request_id: '1', path: 'a.ipynb', ask: 'read', first: 3 } },
    { ...event, payload: { path: 'a.ipynb', ask: 'state' } },
    { ...event }
  );
  FakeSocket.last.onclose?.();
  jest.advanceTimersByTime(500);
  FakeSocket.last.accept();

  expect(asked).toEqual([{ requestId: '1', path: 'a.ipynb', ask: 'read', first: 3 }]);
  expect(received).toEqual([]);
  expect(FakeSocket.last.sent[0]!.params.from_position).toBe(7);
});
