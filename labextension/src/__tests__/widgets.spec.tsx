import { act } from 'react';
import * as React from 'react';
import { createRoot, type Root } from 'react-dom/client';

import type { BoardState } from '../model/board';
import { rowOf, type TaskRow } from '../model/fold';
import { statusText } from '../model/wording';
import { drawLive } from '../widgets/liveTurn';
import { type ISidebarProps, Sidebar } from '../widgets/sidebar';
import { TaskList } from '../widgets/taskList';
import { aTask, AT, FakeServer, HEALTH, TRANS } from './rig';
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
    <TaskList rows={ROWS} total={3} now={NOW} trans={TRANS} canStop onOpen={nothing} onStop={nothing} {...given} />
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
  readonly changed = new Signal<this, void>(this);
  readonly taskChanged = new Signal<this, TaskRow>(this);
  constructor(public state: BoardState) {}
  row(taskId: string): TaskRow | undefined {
    return this.rows.find(row => row.taskId === taskId);
  }
  load(): Promise<void> {
    return Promise.resolve();
  }
}

function sidebar(board: FakeBoard, shown = ''): void {
  const props: ISidebarProps = {
    board: board as unknown as ISidebarProps['board'],
    api: new FakeServer().api,
    trans: TRANS,
    actions: { openFirstNotebook: () => undefined, stop: () => undefined, reload: () => undefined },
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

test.each<[BoardState, number, number, number | null, string]>([
  ['ready', 0, 0, 0, 'Ozzie'],
  ['ready', 2, 3, 1_140_000_000, '2 running · 3 need you · $1.14 today'],
  ['ready', 1, 1, null, '1 running · 1 needs you'],
  ['reconnecting', 2, 0, 0, 'Reconnecting…'],
  ['absent', 0, 0, 0, 'Ozzie']
])('the status bar when %s', (state, running, needYou, costToday, said) => {
  expect(statusText({ state, running, needYou, costToday }, TRANS)).toBe(said);
});

test('a live turn stands beside what the cell shows, unless its own widget is there', () => {
  node.innerHTML = '<div class="jp-OutputArea-child">old</div>';
  drawLive(node, '<b>1</b>');
  drawLive(node, '<b>2</b>');
  expect(node.querySelectorAll('.jp-Ozzie-live')).toHaveLength(1);
  expect(node.textContent).toBe('old2');
  expect(node.classList.contains('jp-Ozzie-mod-following')).toBe(true);

  node.insertAdjacentHTML('afterbegin', '<div class="jupyter-widgets"><div class="oz"></div></div>');
  drawLive(node, '<b>3</b>');
  expect(node.querySelector('.jp-Ozzie-live')).toBeNull();
  expect(node.classList.contains('jp-Ozzie-mod-following')).toBe(false);
});

test.each([
  ['was restarted', 'jupyter-widgets jupyter-widgets-disconnected', true],
  ['is not heard from', 'jupyter-widgets', false]
])('a widget whose kernel %s stands still, and gives way to the live turn', (_, widget, hasKernel) => {
  node.innerHTML = `<div class="jp-OutputArea-child"><div class="${widget}"><div class="oz">1</div></div></div>`;
  drawLive(node, '<b>2</b>', hasKernel);
  expect(node.querySelector('.jp-Ozzie-live')?.textContent).toBe('2');
  expect(node.classList.contains('jp-Ozzie-mod-following')).toBe(true);
});
