import { act } from 'react';
import * as React from 'react';
import { createRoot, type Root } from 'react-dom/client';

import type { Approval } from '../api/approval';
import { FeedSocket } from '../api/socket';
import { ApprovalBook, STAYS_MS } from '../model/approvals';
import { TaskBoard } from '../model/board';
import { ApprovalAnnouncer } from '../widgets/approvalAnnouncer';
import { NeedsYou } from '../widgets/needsYou';
import {
  anApproval,
  anEvent,
  asking,
  at,
  AT,
  aTask,
  FakePage,
  FakeServer,
  FakeSocket,
  FakeWebSocket,
  frame,
  TRANS
} from './rig';

(globalThis as { IS_REACT_ACT_ENVIRONMENT?: boolean }).IS_REACT_ACT_ENVIRONMENT = true;

const ID = anApproval().approval_id;
const idOf = (last: string): string => ID.slice(0, -1) + last;

let node: HTMLElement;
let root: Root;
let server: FakeServer;
let socket: FeedSocket;
let board: TaskBoard;
let book: ApprovalBook;

beforeEach(async () => {
  jest.useFakeTimers({ now: Date.parse(AT) });
  FakeSocket.made = [];
  node = document.body.appendChild(document.createElement('div'));
  root = createRoot(node);
  server = new FakeServer(aTask({ status: 'WAITING_APPROVAL', title: 'Tidy the notes' }));
  socket = new FeedSocket({ url: 'ws://127.0.0.1/', WebSocket: FakeWebSocket, random: () => 1 });
  board = new TaskBoard(server.api, socket, Date.now, new FakePage());
  book = new ApprovalBook(server.api, socket, board);
  await board.load();
  FakeSocket.last.accept();
});

afterEach(() => {
  act(() => root.unmount());
  node.remove();
  socket.close();
  jest.useRealTimers();
});

const pass = (milliseconds: number): Promise<void> =>
  act(async () => {
    await jest.advanceTimersByTimeAsync(milliseconds);
  });
const hear = (...events: Parameters<typeof frame>[0][]): void => act(() => FakeSocket.last.say(...events.map(frame)));
const ask = (position: number, last: string, given: Partial<Approval> = {}): Parameters<typeof frame>[0] =>
  asking(position, { approval_id: idOf(last), call_id: idOf(last), sentence: `Change \`${last}.md\`?`, ...given });
const texts = (selector: string): (string | null)[] =>
  [...node.querySelectorAll(selector)].map(each => each.textContent);
const click = (selector: string): void => act(() => node.querySelector<HTMLElement>(selector)?.click());
const draw = (element: React.ReactElement): void => act(() => root.render(element));

const shown: string[] = [];
const needsYou = (): void =>
  draw(
    <NeedsYou
      approvals={book}
      board={board}
      api={server.api}
      trans={TRANS}
      now={Date.now()}
      showNotebook={id => shown.push(id)}
    />
  );

test('where nothing is asked there is nothing', () => {
  needsYou();
  expect(node.textContent).toBe('');
});

test('the first that is asked is open, the others are rows that open in place, each with its own buttons', () => {
  needsYou();
  hear(ask(11, 'A'), ask(12, 'B', { side_effect: 'irreversible' }));
  expect(node.querySelector('h3')?.textContent).toBe('Needs you 2');
  expect(texts('.jp-Ozzie-sentence')).toEqual(['Change A.md?']);
  expect(texts('.jp-Ozzie-need')).toEqual(['Change B.md?Tidy the notes · cannot be undone60:00']);

  click('.jp-Ozzie-need');
  expect(texts('.jp-Ozzie-sentence')).toEqual(['Change A.md?', 'Change B.md?']);
  expect(texts('.jp-Ozzie-answers').map(text => text?.startsWith('Approve once'))).toEqual([true, true]);
  expect(node.textContent?.toLowerCase()).not.toContain('approve all');
});

test('an answer is one row for a moment, and what is below it opens only by a click', async () => {
  needsYou();
  hear(ask(11, 'A'), ask(12, 'B'));
  hear(anEvent('approval.rejected', 13, { approval_id: idOf('A'), by: 'Ana', way: 'cli', comment: 'No.' }));
  expect(texts('.jp-Ozzie-mod-ended')).toEqual(['Change A.md?Rejected by Ana: "No."']);
  await pass(STAYS_MS);
  expect(texts('.jp-Ozzie-mod-ended')).toEqual([]);
  expect(texts('.jp-Ozzie-need')).toHaveLength(1);
  expect(texts('.jp-Ozzie-sentence')).toEqual([]);
});

test('a card is folded by where it comes from, and leads to its notebook', () => {
  needsYou();
  hear(ask(11, 'A'));
  click('.jp-Ozzie-link');
  expect(shown).toEqual([idOf('A')]);
  click('.jp-Ozzie-origin');
  expect(texts('.jp-Ozzie-need')).toHaveLength(1);
});

test('while the connection is lost nothing can be answered', async () => {
  needsYou();
  hear(ask(11, 'A'));
  await pass(700);
  act(() => FakeSocket.last.onclose?.());
  needsYou();
  click('.jp-Ozzie-mod-accept');
  expect(server.sent).toEqual([]);
  expect(node.textContent).toContain('when reconnected');
});

test('what is asked is said to a screen reader, and once more when a minute is left', async () => {
  draw(<ApprovalAnnouncer approvals={book} trans={TRANS} />);
  hear(ask(11, 'A', { expires_at: at(120) }));
  expect(node.querySelector('[aria-live=assertive]')?.textContent).toBe(
    'Approval needed: Change A.md? Alt Shift A to go there.'
  );
  await pass(61_000);
  expect(node.querySelector('[aria-live=assertive]')?.textContent).toBe('1 minute left: Change A.md?');
});
