import { act } from 'react';
import * as React from 'react';
import { createRoot, type Root } from 'react-dom/client';

import { FeedSocket } from '../api/socket';
import { ApprovalBook } from '../model/approvals';
import type { BoardState } from '../model/board';
import { rowOf, type TaskRow } from '../model/fold';
import { statusText } from '../model/wording';
import { drawLive, type ILiveOptions } from '../widgets/liveTurn';
import { type ISidebarProps, Sidebar } from '../widgets/sidebar';
import { TaskList } from '../widgets/taskList';
import { aTask, AT, FakeServer, FakeWebSocket, HEALTH, TRANS } from './rig';
import { Signal } from '@lumino/signaling';

const NOW = Date.parse(AT) + 12_000;
(globalThis as { IS_REACT_ACT_ENVIRONMENT?: boolean }).IS_REACT_ACT_ENVIRONMENT = true;

let node: HTMLElement;
let root: Root;

beforeEach(() => {
  node = document.body.appendChild(document.createElement('div'));
  root = createRoot(node);
});

afterEach(() => {
  act(() => root.unmount());
  node.remove();
});

const show = (element: React.ReactElement): void => act(() => root.render(element));
const find = (selector: string): HTMLElement => node.querySelector<HTMLElement>(selector)!;
const press = (target: Element, key: string): void => {
  act(() => {
    target.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
  });
};
const click = (target: Element): void => {
  act(() => {
    target.dispatchEvent(new MouseEvent('click', { bubbles: true }));
  });
};

const ROWS: TaskRow[] = ['a', 'b', 'c'].map((name, index) =>
  rowOf(aTask({ task_id: `01M8000000000000000000000${index}`, title: `Task ${name}` }))
);

function list(given: Partial<React.ComponentProps<typeof TaskList>> = {}): React.ReactElement {
  const nothing = (): void => undefined;
  return (
    <TaskList
      rows={ROWS}
      approvalCounts={new Map()}
      total={3}
      now={NOW}
      trans={TRANS}
      canStop
      onOpen={nothing}
      onStop={nothing}
      {...given}
    />
  );
}

const focused = (): string | null => document.activeElement?.querySelector('.jp-Ozzie-title')?.textContent ?? null;

test('the list is one tab stop, and arrows move in it', () => {
  show(list());
  const stops = (): number[] => [...node.querySelectorAll<HTMLElement>('[role=treeitem]')].map(item => item.tabIndex);
  expect(stops()).toEqual([0, -1, -1]);
  act(() => find('[role=treeitem]').focus());

  press(document.activeElement!, 'ArrowDown');
  expect(focused()).toBe('Task b');
  expect(stops()).toEqual([-1, 0, -1]);
  press(document.activeElement!, 'End');
  press(document.activeElement!, 'ArrowDown');
  expect(focused()).toBe('Task c');
  press(document.activeElement!, 'Home');
  press(document.activeElement!, 'ArrowUp');
  expect(focused()).toBe('Task a');
});

test('Enter opens a task, and the stop button only stops it', () => {
  const opened: string[] = [];
  const stopped: string[] = [];
  show(list({ onOpen: id => opened.push(id), onStop: id => stopped.push(id) }));

  press(find('[role=treeitem]'), 'Enter');
  click(find('.jp-Ozzie-stop'));
  expect([opened, stopped]).toEqual([[ROWS[0]!.taskId], [ROWS[0]!.taskId]]);
});

test('a row says all in words, and its place', () => {
  show(list());
  const item = find('[role=treeitem]');

  expect(item.getAttribute('aria-label')).toBe('Task a, Working · 12 s, $0.021');
  expect([item.getAttribute('aria-posinset'), item.getAttribute('aria-setsize')]).toEqual(['1', '3']);
  expect(find('svg').getAttribute('aria-hidden')).toBe('true');
});

test('a row says for how many approvals its task waits', () => {
  const row: TaskRow = { ...ROWS[0]!, status: 'WAITING_APPROVAL' };
  show(list({ rows: [row], approvalCounts: new Map([[row.taskId, 2]]) }));
  expect(find('[role=treeitem] .jp-Ozzie-sub').textContent).toBe('Waiting for you · 2 approvals · just now');
});

test('a task that has used nothing yet has no cost, and one that ended without a price an unknown one', () => {
  const early = { ...ROWS[0]!, cost: 0 };
  show(list({ rows: [early] }));
  expect(find('.jp-Ozzie-figure').textContent).toBe('');
  expect(find('.jp-Ozzie-figure').title).toBe('');

  show(list({ rows: [{ ...early, status: 'SUCCEEDED', cost: null }] }));
  expect(find('.jp-Ozzie-figure').textContent).toBe('—');
  expect(find('.jp-Ozzie-figure').title).toBe('cost unknown');
});

test('a title is text, whatever stands in it', () => {
  show(list({ rows: [{ ...ROWS[0]!, title: '<img src=x onerror=alert(1)>' }] }));

  expect(node.querySelector('img')).toBeNull();
  expect(find('.jp-Ozzie-title').textContent).toBe('<img src=x onerror=alert(1)>');
});

class FakeBoard {
  rows: readonly TaskRow[] = [];
  health: typeof HEALTH | null = HEALTH;
  problem = null as { message: string; hint: string } | null;
  asOf = NOW;
  isWhole = true;
  hasAllOpen = true;
  readonly changed = new Signal<this, void>(this);
  readonly taskChanged = new Signal<this, TaskRow>(this);
  readonly renewed = new Signal<this, void>(this);
  constructor(public state: BoardState) {}
  row(taskId: string): TaskRow | undefined {
    return this.rows.find(row => row.taskId === taskId);
  }
  load(): Promise<void> {
    return Promise.resolve();
  }
}

function sidebar(
  board: FakeBoard,
  shown = '',
  server = new FakeServer(),
  act: ISidebarProps['actions']['act'] = () => undefined
): void {
  const socket = new FeedSocket({ url: 'ws://127.0.0.1/', WebSocket: FakeWebSocket });
  const nothing = (): void => undefined;
  const props: ISidebarProps = {
    board: board as unknown as ISidebarProps['board'],
    approvals: new ApprovalBook(server.api, socket, board as unknown as ISidebarProps['board']),
    api: server.api,
    trans: TRANS,
    actions: { openFirstNotebook: nothing, stop: nothing, act, reload: nothing, showNotebook: nothing },
    now: NOW,
    shown,
    onShow: () => undefined
  };
  show(<Sidebar {...props} />);
}

test.each<[string, BoardState, Partial<FakeBoard>, RegExp]>([
  ['the first run', 'ready', {}, /Ozzie is ready\. It has no language model yet.*Open the first notebook/],
  ['no tasks yet', 'ready', { health: { ...HEALTH, model: 'main' } }, /^Tasks 0No tasks yet\./],
  [
    'no Ozzie',
    'absent',
    { health: null },
    /^Ozzie is not running on this server\.jupyter server extension enable.*Try again$/
  ],
  [
    'a refusal',
    'refused',
    { problem: { message: 'It is owned.', hint: 'Stop it.' } },
    /^It is owned\. Stop it\.Try again$/
  ],
  ['a newer server', 'updated', {}, /^Ozzie was updated\. Reload the page to go on\.Reload$/],
  [
    'a lost connection',
    'reconnecting',
    { rows: ROWS },
    /^Reconnecting\. Shown as of [\d:]{8}\. Running tasks go on without this page\.Tasks 3/
  ],
  ['the first moment', 'loading', { health: null }, /^$/]
])('the sidebar shows %s', (_, state, given, words) => {
  sidebar(Object.assign(new FakeBoard(state), given));

  expect(node.textContent).toMatch(words);
});

test.each([
  [{}, ''],
  [{ isWhole: false }, 'These are the newest tasks, and all that are open.'],
  [{ isWhole: false, hasAllOpen: false }, 'There are more open tasks than the 5,000 that are listed.']
])('the list says where it is not all that there is', (given, words) => {
  sidebar(Object.assign(new FakeBoard('ready'), { rows: ROWS, ...given }));

  expect(find('.jp-Ozzie-empty:last-of-type').textContent).toBe(words);
});

test.each([
  ['Task', 3, ''],
  ['nothing', 0, 'No task fits this filter.'],
  ['is:runing', 0, /^"is:runing" is not a state\. States: is:open, .*is:stopped\.$/],
  ['state:done', 0, /^"state:done" is searched for in titles\. Filters are .*\.$/]
])('the filter "%s" shows %d tasks and says what is wrong with it', (typed, count, said) => {
  sidebar(Object.assign(new FakeBoard('ready'), { rows: ROWS }));
  const input = find('input') as HTMLInputElement;
  act(() => {
    Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value')!.set!.call(input, typed);
    input.dispatchEvent(new Event('input', { bubbles: true }));
  });

  expect(node.querySelectorAll('[role=treeitem]')).toHaveLength(count);
  expect(find('[role=status]').textContent).toEqual(typeof said === 'string' ? said : expect.stringMatching(said));
});

test('without a connection nothing can be stopped', () => {
  sidebar(Object.assign(new FakeBoard('reconnecting'), { rows: ROWS }));

  expect(node.querySelector('.jp-Ozzie-stop')).toBeNull();
});

test('a task that is opened shows its details and a way back', async () => {
  sidebar(Object.assign(new FakeBoard('ready'), { rows: ROWS }), ROWS[1]!.taskId);
  await act(() => Promise.resolve());

  expect(find('h2').textContent).toBe('Task b');
  expect(find('.jp-Ozzie-meta').textContent).toBe('Working · 12 s · 120 tokens · $0.021');
  expect(document.activeElement?.getAttribute('aria-label')).toBe('Back to the tasks');
});

const STEP = { call_id: 'c', name: 'calculator', status: 'completed', summary: '42', error: null, duration_ms: 400 };

test('a task in which much happens is asked about calmly, and to its end', async () => {
  jest.useFakeTimers();
  try {
    const row = ROWS[0]!;
    const board = Object.assign(new FakeBoard('ready'), { rows: [row] });
    const server = new FakeServer();
    const path = `tasks/${row.taskId}`;
    server.answers.set(path, { ...aTask(), steps: [] });
    server.answers.set('events', { items: [], next: null });
    const asks = (): number => server.asked.filter(line => line.endsWith(path)).length;
    sidebar(board, row.taskId, server);
    await act(() => jest.advanceTimersByTimeAsync(0));
    expect(asks()).toBe(1);

    for (let position = 1; position < 40; position += 1) {
      board.rows = [{ ...row, position }];
      sidebar(board, row.taskId, server);
      await act(() => jest.advanceTimersByTimeAsync(50));
    }
    expect(asks()).toBe(2);
    server.answers.set(path, { ...aTask(), steps: [STEP] });
    await act(() => jest.advanceTimersByTimeAsync(1000));
    expect(asks()).toBe(3);
    await act(() => jest.advanceTimersByTimeAsync(0));
    expect(find('.jp-Ozzie-lines').textContent).toBe('calculator420.4 s');
  } finally {
    jest.useRealTimers();
  }
});

test.each<[BoardState, number, number, number, number | null, string]>([
  ['ready', 0, 0, 0, 0, 'Ozzie'],
  ['ready', 2, 0, 3, 1_140_000_000, '2 running · 3 need you · $1.14 today'],
  ['ready', 1, 450, 1, null, '1 running · 450 queued · 1 needs you'],
  ['reconnecting', 2, 0, 0, 0, 'Reconnecting…'],
  ['absent', 0, 0, 0, 0, 'Ozzie']
])('the status bar when %s', (state, running, queued, needYou, costToday, said) => {
  expect(statusText({ state, running, queued, needYou, costToday }, TRANS)).toBe(said);
});

const live = (html: string | null, given: Partial<ILiveOptions> = {}): void =>
  drawLive(node, html, { staying: 0, hasKernel: true, trans: TRANS, ...given });

test('a live turn stands beside what the cell shows, unless its own widget is there', () => {
  node.innerHTML = '<div class="jp-OutputArea-child">old</div>';
  live('<b>1</b>');
  live('<b>2</b>');
  expect(node.querySelectorAll('.jp-Ozzie-live')).toHaveLength(1);
  expect(node.textContent).toBe('old2');
  expect(node.classList.contains('jp-Ozzie-mod-following')).toBe(true);

  node.insertAdjacentHTML('afterbegin', '<div class="jupyter-widgets"><div class="oz"></div></div>');
  live('<b>3</b>');
  expect(node.querySelector('.jp-Ozzie-live')).toBeNull();
  expect(node.classList.contains('jp-Ozzie-mod-following')).toBe(false);
});

test('what was said before the turn stays above it', () => {
  node.innerHTML = ['said', 'turn', 'more'].map(text => `<p class="jp-OutputArea-child">${text}</p>`).join('');
  const staying = (): (string | null)[] =>
    [...node.querySelectorAll('.jp-Ozzie-mod-staying')].map(child => child.textContent);
  live('<b>1</b>', { staying: 1 });
  expect(staying()).toEqual(['said']);

  live('<b>1</b>', { staying: 0 });
  expect(staying()).toEqual([]);
});

test('while there is nothing new, times go on', () => {
  jest.useFakeTimers();
  try {
    const html =
      '<b class="oz-t" aria-label="9 seconds" data-s="9.5">9 s</b><i class="oz-dur" data-s="0.4">0.4 s</i><i>3.0 s</i>';
    live(html);
    const word = node.querySelector('i:last-child');
    jest.advanceTimersByTime(2_000);
    live(html);

    expect(node.textContent).toBe('11 s2.4 s3.0 s');
    expect(node.querySelector('i:last-child')).toBe(word);
    expect(node.querySelector('[aria-label]')).toBeNull();
    live(html.replace('9.5', '12.5').replace('9 s<', '12 s<'));
    expect(node.textContent).toBe('12 s0.4 s3.0 s');
  } finally {
    jest.useRealTimers();
  }
});

test.each([
  ['was restarted', 'jupyter-widgets jupyter-widgets-disconnected', true],
  ['is not heard from', 'jupyter-widgets', false]
])('a widget whose kernel %s stands still, and gives way to the live turn', (_, widget, hasKernel) => {
  node.innerHTML = `<div class="jp-OutputArea-child"><div class="${widget}"><div class="oz">1</div></div></div>`;
  live('<b>2</b>', { hasKernel });
  expect(node.querySelector('.jp-Ozzie-live')?.textContent).toBe('2');
  expect(node.classList.contains('jp-Ozzie-mod-following')).toBe(true);
});

test.each([
  ['RUNNING', '', 'Pause', 'pause'],
  ['PAUSED', 'by you', 'Resume', 'resume'],
  ['FAILED', 'The key was refused.', 'Retry', 'retry']
] as const)("a task's detail that is %s has a button for what may be done", async (status, reason, label, wanted) => {
  const board = new FakeBoard('ready');
  const row: TaskRow = { ...ROWS[0]!, status, reason };
  board.rows = [row];
  const acted: string[][] = [];
  sidebar(board, row.taskId, new FakeServer(), (act, taskId) => acted.push([act, taskId]));
  await act(async () => {
    await Promise.resolve();
  });
  const buttons = [...node.querySelectorAll<HTMLElement>('.jp-Ozzie-acts button')];
  expect(buttons.map(button => button.textContent)).toEqual(status === 'FAILED' ? [label] : [label, 'Stop']);
  click(buttons[0]!);
  expect(acted).toEqual([[wanted, row.taskId]]);
  if (status === 'PAUSED') {
    expect(find('.jp-Ozzie-meta').textContent).toContain('Paused · by you');
  }
});
