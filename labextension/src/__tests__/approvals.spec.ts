import type { Approval } from '../api/approval';
import { RequestError } from '../api/requests';
import { FeedSocket } from '../api/socket';
import { ApprovalBook, STAYS_MS } from '../model/approvals';
import { TaskBoard } from '../model/board';
import {
  anApproval,
  anEvent,
  asking,
  at,
  aTask,
  FakePage,
  FakeServer,
  FakeSocket,
  FakeWebSocket,
  frame,
  Refused,
  SILENT
} from './rig';

const ID = anApproval().approval_id;
const ANSWERED = { approval_id: ID, by: 'Ana', way: 'browser' } as const;
const GRANTED = { ...ANSWERED, extent: 'once' } as const;
const other = (last: string, given: Partial<Approval> = {}): Partial<Approval> => ({
  approval_id: ID.slice(0, -1) + last,
  call_id: anApproval().call_id.slice(0, -1) + last,
  ...given
});

let server: FakeServer;
let socket: FeedSocket;
let board: TaskBoard;
let book: ApprovalBook;

/** A page over a server with these approvals that wait, and one task that waits for them. */
async function begin(...approvals: Partial<Approval>[]): Promise<void> {
  server = new FakeServer(aTask({ status: 'WAITING_APPROVAL' }));
  wait(...approvals);
  socket = new FeedSocket({ url: 'ws://127.0.0.1/', WebSocket: FakeWebSocket, random: () => 1 });
  board = new TaskBoard(server.api, socket, Date.now, new FakePage());
  book = new ApprovalBook(server.api, socket, board);
  await board.load();
  FakeSocket.last.accept();
  await settle();
}

function wait(...approvals: Partial<Approval>[]): void {
  const all = approvals.map(anApproval);
  server.answers.set('approvals?status=pending', { items: all, next: null });
  all.forEach(approval => server.answers.set(`approvals/${approval.approval_id}`, approval));
}

const settle = (): Promise<unknown> => jest.advanceTimersByTimeAsync(0);
const hear = (...events: Parameters<typeof frame>[0][]): void => FakeSocket.last.say(...events.map(frame));
const ids = (): string[] => book.pending.map(row => row.approval_id.slice(-1));

beforeEach(() => {
  jest.useFakeTimers();
  FakeSocket.made = [];
});

afterEach(() => {
  socket.close();
  jest.useRealTimers();
});

test('what waits at the start is there, the oldest first', async () => {
  await begin(other('C'), other('A'), other('B'));
  expect(ids()).toEqual(['A', 'B', 'C']);
});

test('what is asked later comes by the feed, whole', async () => {
  await begin();
  const heard: string[] = [];
  book.requested.connect((_, row) => heard.push(row.sentence));
  hear(asking(11));
  const { in_force_until, notebook, run_id, step, ...told } = anApproval({ requested_at: at(11) });
  expect([in_force_until, notebook, run_id, step]).toEqual([null, 'notes.ipynb', '', '']);
  expect(book.get(ID)).toEqual(told);
  expect(heard).toEqual([told.sentence]);
});

test('what was asked and answered while the page was cut off, nobody is asked any more', async () => {
  await begin();
  const heard: string[] = [];
  book.requested.connect((_, row) => heard.push(row.sentence));
  hear(asking(11), anEvent('approval.granted', 12, GRANTED));
  expect(heard).toEqual([]);
  expect(book.get(ID)?.status).toBe('granted');
});

test('what a second model is asked nobody else is', async () => {
  await begin();
  const heard: string[] = [];
  book.requested.connect((_, row) => heard.push(row.sentence));
  hear(asking(11, { needs: 'model' }));
  hear(anEvent('approval.granted', 12, { ...GRANTED, by: 'cheap (model)', way: 'model' }));
  expect([heard, book.get(ID), book.shown]).toEqual([[], undefined, []]);
});

test('the first answer counts, and who gave it, by which way and when', async () => {
  await begin({});
  hear(anEvent('approval.granted', 11, { ...GRANTED, extent: 'session' }));
  hear(anEvent('approval.rejected', 12, { ...ANSWERED, by: 'Ben', comment: 'No.' }));
  expect(book.get(ID)).toMatchObject({
    status: 'granted',
    extent: 'session',
    by: 'Ana',
    way: 'browser',
    answered_at: at(11)
  });
  expect(book.pending).toEqual([]);
});

test.each(['task.cancelled', 'task.failed', 'task.succeeded'] as const)(
  'behind %s nobody may answer any more',
  async end => {
    await begin({});
    hear(anEvent(end, 11));
    expect(book.get(ID)).toMatchObject({ status: 'expired', why: 'task', answered_at: at(11) });
  }
);

test('a yes that is void says why, and stays a yes', async () => {
  await begin({});
  hear(anEvent('approval.granted', 11, GRANTED), anEvent('approval.expired', 12, { approval_id: ID, why: 'changed' }));
  expect(book.get(ID)).toMatchObject({ status: 'granted', why: 'changed', by: 'Ana' });
});

test('a request that would do something else is known as the same call', async () => {
  await begin({});
  const again = { ...anApproval(other('Z')), call_id: anApproval().call_id };
  hear(anEvent('approval.expired', 11, { approval_id: ID, why: 'changed' }), asking(12, again));
  expect(book.isChanged(book.get(again.approval_id)!)).toBe(true);
  expect(book.isChanged(book.get(ID)!)).toBe(false);
  expect(ids()).toEqual(['Z']);
});

test('an answer that the feed tells while all are looked at is not undone by the look', async () => {
  await begin();
  wait({});
  const told = server.answers.get('approvals?status=pending');
  server.answers.set('approvals?status=pending', () => {
    hear(asking(11), anEvent('approval.granted', 12, GRANTED));
    return told;
  });
  await board.load();
  await settle();
  expect(book.get(ID)?.status).toBe('granted');
});

test('after a cut, what waits no more is looked at', async () => {
  await begin({});
  server.answers.set('approvals?status=pending', { items: [], next: null });
  server.answers.set(`approvals/${ID}`, anApproval({ status: 'rejected', by: 'Ben', way: 'cli', answered_at: at(20) }));
  await board.load();
  await settle();
  expect(book.get(ID)).toMatchObject({ status: 'rejected', by: 'Ben' });
});

test('one of another home goes', async () => {
  await begin({});
  server.answers.set('approvals?status=pending', { items: [], next: null });
  server.answers.set(`approvals/${ID}`, new Refused(404, 'not_found', 'There is no such approval.'));
  await board.load();
  await settle();
  expect(book.get(ID)).toBeUndefined();
});

test('one whose time was up before the page came can be asked anew', async () => {
  await begin();
  const late = anApproval({ status: 'expired', why: 'time', answered_at: at(3600) });
  server.answers.set('approvals?task_id=', { items: [late], next: null });
  await board.load();
  await settle();
  expect(book.shown.map(row => row.approval_id)).toEqual([ID]);
  expect(book.isRenewable(book.get(ID)!)).toBe(true);

  hear(anEvent('task.resumed', 12));
  expect(book.isRenewable(book.get(ID)!)).toBe(false);
  expect(book.shown).toEqual([]);
});

test('while another one of its task waits, nothing is asked anew', async () => {
  await begin({}, other('Z'));
  hear(anEvent('approval.expired', 11, { approval_id: ID, why: 'time' }));
  expect(book.isRenewable(book.get(ID)!)).toBe(false);
  hear(anEvent('approval.expired', 12, { approval_id: other('Z').approval_id!, why: 'time' }));
  expect(book.isRenewable(book.get(ID)!)).toBe(true);
});

test('each approval needs a person, and a task that waits for nothing known needs one too', async () => {
  await begin({}, other('Z'));
  expect(book.needYou).toBe(2);
  hear(anEvent('approval.expired', 11, { approval_id: ID, why: 'time' }));
  hear(anEvent('approval.expired', 12, { approval_id: other('Z').approval_id!, why: 'time' }));
  expect(book.needYou).toBe(1);
});

test('what was answered is listed for a moment, and then known all the same', async () => {
  await begin({});
  hear(anEvent('approval.granted', 11, GRANTED));
  expect(book.shown).toHaveLength(1);
  await jest.advanceTimersByTimeAsync(STAYS_MS);
  expect(book.shown).toEqual([]);
  expect(book.get(ID)?.status).toBe('granted');
});

test('a yes goes out with what was shown, and what became of it is known at once', async () => {
  await begin({});
  server.answers.set(`approvals/${ID}/approve`, {});
  server.answers.set(`approvals/${ID}`, anApproval({ status: 'granted', ...GRANTED, answered_at: at(12) }));
  await book.answer(ID, { act: 'approve', extent: 'once', binds: anApproval().binds });
  expect(server.sent).toEqual([{ extent: 'once', binds: anApproval().binds }]);
  expect(book.get(ID)?.status).toBe('granted');
});

test('a no goes out with its comment, and one whose time is up is asked for anew', async () => {
  await begin({});
  await book.answer(ID, { act: 'reject', comment: 'Not this file.' });
  await book.answer(ID, { act: 'renew' });
  expect(server.sent).toEqual([{ comment: 'Not this file.' }, {}]);
  expect(server.asked.filter(line => line.startsWith('POST'))).toEqual([
    `POST approvals/${ID}/reject`,
    `POST approvals/${ID}/renew`
  ]);
});

test('who comes too late is told so, and sees what the first one said', async () => {
  await begin({});
  const late = new Refused(409, 'approval.late', 'Already answered: Ben rejected it at 10:00. Your click did nothing.');
  server.answers.set(`approvals/${ID}/approve`, late);
  server.answers.set(`approvals/${ID}`, anApproval({ status: 'rejected', by: 'Ben', way: 'cli', answered_at: at(1) }));
  const answer = book.answer(ID, { act: 'approve', extent: 'once', binds: '' });
  await expect(answer).rejects.toThrow(late.message);
  expect(book.get(ID)?.by).toBe('Ben');
});

test('an answer that nobody takes is given up after five seconds, so that it can not arrive later', async () => {
  await begin({});
  server.status = SILENT;
  let error: unknown;
  book.answer(ID, { act: 'renew' }).catch((problem: unknown) => (error = problem));
  await jest.advanceTimersByTimeAsync(4_900);
  expect(error).toBeUndefined();
  await jest.advanceTimersByTimeAsync(200);
  expect(error).toBeInstanceOf(RequestError);
  expect((error as RequestError).status).toBe(0);
});
