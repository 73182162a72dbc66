import { act } from 'react';
import * as React from 'react';
import { createRoot, type Root } from 'react-dom/client';

import type { TaskGraph } from '../api/protocol.gen';
import { GraphView } from '../widgets/graph/graphView';
import { aDetail, aGraph, aNode, aStep, dotGraph, ENDED, RUN, RUNS } from './graphRig';
import { AT, at, FakeServer, TRANS } from './rig';

(globalThis as { IS_REACT_ACT_ENVIRONMENT?: boolean }).IS_REACT_ACT_ENVIRONMENT = true;

const NOW = Date.parse(AT) + 6_000;

let node: HTMLElement;
let root: Root;
let server: FakeServer;
const left: string[] = [];

let resized: ResizeObserverCallback[] = [];

beforeEach(() => {
  jest.useFakeTimers({ now: NOW });
  resized = [];
  globalThis.ResizeObserver = class {
    constructor(heard: ResizeObserverCallback) {
      resized.push(heard);
    }
    observe = (): void => undefined;
    unobserve = (): void => undefined;
    disconnect = (): void => undefined;
  };
  node = document.body.appendChild(document.createElement('div'));
  root = createRoot(node);
  server = new FakeServer();
  left.length = 0;
  for (const id of ['plan', 'read', 'search', 'merge']) {
    server.answers.set(`tasks/${RUN}/steps/${id}`, aDetail(id));
  }
});

afterEach(() => {
  act(() => root.unmount());
  node.remove();
  jest.useRealTimers();
});

async function show(graph: TaskGraph, width = 846): Promise<void> {
  act(() =>
    root.render(
      <GraphView
        graph={graph}
        api={server.api}
        width={width}
        now={NOW}
        trans={TRANS}
        onTask={null}
        onLeave={() => left.push('left')}
      />
    )
  );
  await pass(10);
}

const pass = (milliseconds: number): Promise<void> =>
  act(async () => {
    await jest.advanceTimersByTimeAsync(milliseconds);
  });
const find = (selector: string): HTMLElement => node.querySelector<HTMLElement>(selector)!;
const all = (selector: string): HTMLElement[] => [...node.querySelectorAll<HTMLElement>(selector)];
const press = async (key: string): Promise<void> => {
  act(() => void document.activeElement?.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true })));
  await pass(10);
};
const click = async (element: HTMLElement): Promise<void> => {
  act(() => element.click());
  await pass(10);
};
const picked = (): string => find('.jp-Ozzie-stepDetail').dataset.step ?? '';

test('each step has its state, its figures, and a name that says all of it', async () => {
  const read = { ...RUNS, model: 'main', note: 'attempt 2 of 3' };
  const graph = aGraph({ plan: { ...ENDED, finished_at: at(2.1), cost: 4_000_000 }, read, merge: { visits: 1 } });
  graph.layout.nodes[3] = { ...graph.layout.nodes[3]!, after: 'After read + 1' };
  await show(graph);

  expect(all('.jp-Ozzie-node').map(each => each.getAttribute('aria-label'))).toEqual([
    'plan, Done, 2.1 s, $0.004',
    'read, Working, 6 s, attempt 2 of 3, main',
    'search, Waiting',
    'merge, Waiting, After read + 1'
  ]);
  expect(find('.jp-Ozzie-graphHead').textContent).toBe('review1 of 4GraphList');
  expect(find('[role=application]').getAttribute('aria-label')).toMatch(/^Graph of review: 1 of 4, Working\./);
  expect(all('.jp-Ozzie-picture [tabindex="0"]')).toHaveLength(1);
});

test('a step that is held is paused with what is still to come of it, and no clock', async () => {
  const ended = { state: 'Paused', started_at: AT, finished_at: at(2.1), note: 'to be checked' } as const;
  const search = { state: 'Paused', started_at: AT } as const;
  const merge = { ...ended, note: 'to be tried again', attempt: 1, attempts: 3, problem: 'It did not fit.' };
  await show(aGraph({ plan: ENDED, read: ended, search, merge }, { status: 'PAUSED', state: 'Paused' }));

  expect(all('.jp-Ozzie-node').map(each => each.getAttribute('aria-label'))).toEqual([
    'plan, Done, 0.0 s',
    'read, Paused, to be checked, 2.1 s',
    'search, Paused',
    'merge, Paused, to be tried again, 2.1 s'
  ]);
  expect(find('[role=application]').getAttribute('aria-label')).toMatch(/Paused\. Arrow keys/);
  await click(all('.jp-Ozzie-node')[3]!);
  expect(find('.jp-Ozzie-stepHead').textContent).toBe('mergePaused · to be tried again · 2.1 s · attempt 1 of 3');
  expect(find('.jp-Ozzie-stepProblem').textContent).toBe('It did not fit.');
});

test('no text of a skill is more than text', async () => {
  const evil = '<img src=x onerror=alert(1)>\u202e';
  server.answers.set(
    `tasks/${RUN}/steps/plan`,
    aDetail('plan', { instruction: evil, result: evil, input: { a: evil } })
  );
  await show(aGraph({ plan: { ...RUNS, title: evil, problem: evil } }, { name: evil }));

  expect(node.querySelector('img')).toBeNull();
  expect(find('.jp-Ozzie-nodeName').textContent).toBe('<img src=x onerror=alert(1)>\\u202e');
  expect(node.textContent).not.toContain('\u202e');
});

test('what is shown follows the run until a step is picked; Esc gives it back, and leaves where it follows', async () => {
  await show(aGraph({ plan: RUNS }));
  expect(picked()).toBe('plan');
  await show(aGraph({ plan: ENDED, search: { ...RUNS, started_at: at(1) } }));
  expect(picked()).toBe('search');

  find('[data-pick="search search"]').focus();
  await press('ArrowLeft');
  expect(picked()).toBe('plan');
  await show(aGraph({ plan: ENDED, merge: { ...RUNS, started_at: at(2) } }));
  expect(picked()).toBe('plan');

  await press('Escape');
  expect(picked()).toBe('merge');
  expect(left).toEqual([]);
  await press('Escape');
  expect(left).toEqual(['left']);
});

test('focus never moves but by a key', async () => {
  await show(aGraph({ plan: RUNS }));
  await show(aGraph({ plan: ENDED, search: RUNS }));
  expect(document.activeElement).toBe(document.body);

  find('[data-pick="search search"]').focus();
  await press('Enter');
  expect(document.activeElement?.tagName).toBe('H4');
  await press('Escape');
  expect(document.activeElement).toBe(find('[data-pick="search search"]'));
});

test('keys go on from where the focus is, though what is shown has moved on', async () => {
  await show(aGraph({ plan: RUNS }));
  find('[data-pick="plan plan"]').focus();
  await show(aGraph({ plan: ENDED, merge: RUNS }));
  expect(picked()).toBe('merge');

  await press('ArrowRight');
  expect(picked()).toBe('read');
});

test('a step is told in full, and what is asked of another one meanwhile is not shown as its', async () => {
  const failed = { visit: 1, attempt: 1, state: 'Failed', started_at: AT, finished_at: AT, task_id: '' } as const;
  server.answers.set(
    `tasks/${RUN}/steps/plan`,
    aDetail('plan', {
      acceptance: 'It names a source.',
      accepted: 'It names two.',
      result: 'x'.repeat(900),
      attempts: [{ ...failed, message: 'It named none.' }]
    })
  );
  await show(aGraph({ plan: ENDED }));
  const detail = find('.jp-Ozzie-facts').textContent;
  expect(detail).toContain('InstructionDo plan.');
  expect(detail).toContain('Must holdIt names a source. (holds: It names two.)');
  expect(detail).toContain('1: It named none.');
  expect(detail).not.toContain('x'.repeat(500));
  await click(find('.jp-Ozzie-facts .jp-Ozzie-link'));
  expect(find('.jp-Ozzie-facts').textContent).toContain('x'.repeat(900));

  server.status = 0;
  await click(find('[data-pick="merge merge"]'));
  expect(picked()).toBe('merge');
  expect(node.querySelector('.jp-Ozzie-facts')).toBeNull();
});

test('a stack opens into the list of its steps', async () => {
  const told = aStep('read', { title: 'summarise', state: 'Working' });
  const graph = aGraph();
  const stack = aNode(told, 220, 10, 1, { step_ids: ['read', 'search'] });
  const nodes = [graph.layout.nodes[0]!, stack, graph.layout.nodes[3]!];
  await show({ ...graph, layout: { ...graph.layout, nodes } });

  expect(find('[data-pick="read "]').textContent).toContain('summarise × 2');
  await click(find('[data-pick="read "]'));
  expect(all('.jp-Ozzie-stepRows [data-step]').map(each => each.dataset.step)).toEqual(['read', 'search']);
  await click(find('[data-step="search"]'));
  expect(picked()).toBe('search');
});

test('more than sixty steps are a list first, with what is to be looked at below, and dots', async () => {
  await show(dotGraph(70, { s3: { state: 'Failed', problem: 'No total.', attempt: 3, attempts: 3 } }));
  expect(all('.jp-Ozzie-stepList [data-step]')).toHaveLength(70);
  expect(find('.jp-Ozzie-problems').textContent).toContain('s3Failed No total; 3 of 3 attempts');

  await click(all('.jp-Ozzie-segments button')[0]!);
  expect(all('.jp-Ozzie-dot')).toHaveLength(70);
  expect(find('.jp-Ozzie-box').getAttribute('aria-label')).toBe('layer 1, 1 of 70');
  expect(find('[data-pick="s0 s3"]').dataset.state).toBe('Failed');
  expect(all('.jp-Ozzie-picture [tabindex="0"]')).toHaveLength(1);
});

test('a picture that is too wide is made smaller, and never scrolled', async () => {
  await show(aGraph(), 304);
  expect(find('.jp-Ozzie-canvas').style.transform).toBe('scale(0.5)');
  expect(find('.jp-Ozzie-picture').style.height).toBe('66px');
});

test('that steps failed is said once it changes, and a moment later', async () => {
  await show(aGraph({ plan: { state: 'Failed' } }));
  const said = (): string | null | undefined => all('.jp-Ozzie-announcer[aria-live]').at(-1)?.textContent;
  await pass(4_000);
  expect(said()).toBe('');

  await show(aGraph({ plan: { state: 'Failed' }, read: { state: 'Failed' } }));
  expect(said()).toBe('');
  await pass(3_000);
  expect(said()).toBe('2 of 4 steps failed');
});

test('as long as the run is followed, what is told of steps takes no less room than before', async () => {
  const height = jest.spyOn(HTMLElement.prototype, 'offsetHeight', 'get');
  await show(aGraph({ plan: RUNS }));
  for (const tall of [120, 200, 60]) {
    height.mockReturnValue(tall);
    resized.forEach(heard => heard([], {} as ResizeObserver));
  }
  expect(find('.jp-Ozzie-detailPane').style.minHeight).toBe('200px');

  await click(find('[data-pick="merge merge"]'));
  expect(find('.jp-Ozzie-detailPane').style.minHeight).toBe('');
  height.mockRestore();
});

test('a step that was made at once shows its call as a row, with what it was given and how long it took', async () => {
  const call = {
    name: 'read_file',
    args: { path: 'notes/a.md' },
    argument: 'notes/a.md',
    duration_ms: 400,
    rule: 'reads',
    summary: '64 lines'
  };
  server.answers.set(`tasks/${RUN}/steps/plan`, aDetail('plan', { kind: 'call', call }));
  await show(aGraph({ plan: ENDED }));
  await click(find('[data-pick="plan plan"]'));

  const rows = all('.jp-Ozzie-calls li');
  expect(rows.map(row => row.textContent)).toEqual(['read_filenotes/a.md · 64 lines0.4 s']);
  expect(rows[0]!.title).toBe('read_file\nnotes/a.md\n64 lines\nRule: reads');
});
