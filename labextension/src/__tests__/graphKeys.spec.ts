import { pickByKey, pickByKeyInList } from '../model/graphKeys';
import { currentPick, defaultPick, type IPick, pickOf } from '../model/graphPick';
import { aGraph, aNode, aStep, dotGraph, ENDED, RUNS } from './graphRig';
import { at } from './rig';

const on = (step: string): IPick => ({ node: step, step });

test.each([
  ['plan', 'ArrowRight', 'read'],
  ['read', 'ArrowRight', 'merge'],
  ['merge', 'ArrowLeft', 'read'],
  ['read', 'ArrowDown', 'search'],
  ['search', 'ArrowUp', 'read'],
  ['search', 'ArrowLeft', 'plan'],
  ['merge', 'Home', 'plan'],
  ['plan', 'End', 'merge']
])('from %s, %s leads to %s', (from, key, to) => {
  expect(pickByKey(aGraph(), on(from), key)).toEqual(on(to));
});

test.each([
  ['merge', 'ArrowRight'],
  ['read', 'ArrowUp'],
  ['plan', 'x'],
  ['plan', 'f'],
  ['plan', 'w']
])('from %s, %s leads nowhere', (from, key) => {
  expect(pickByKey(aGraph(), on(from), key)).toBeNull();
});

test('F goes from one that failed to the next and round, W to one that waits for a person', () => {
  const graph = aGraph({ plan: { state: 'Failed' }, search: { state: 'Failed' }, read: { state: 'Waiting for you' } });

  expect(pickByKey(graph, on('plan'), 'f')).toEqual(on('search'));
  expect(pickByKey(graph, on('search'), 'F')).toEqual(on('plan'));
  expect(pickByKey(graph, on('plan'), 'w')).toEqual(on('read'));
});

test('what flows from top to bottom is walked by the other arrows', () => {
  const [a, b, c] = ['plan', 'read', 'merge'].map((id, index) => aNode(aStep(id), 10, 60 * index, index));
  const graph = aGraph();
  const down = { ...graph, layout: { ...graph.layout, nodes: [a!, b!, c!] } };

  expect(pickByKey(down, on('plan'), 'ArrowDown')).toEqual(on('read'));
  expect(pickByKey(down, on('merge'), 'ArrowUp')).toEqual(on('read'));
  expect(pickByKey(down, on('plan'), 'ArrowRight')).toBeNull();
});

test('among dots, arrows go from dot to dot', () => {
  const graph = dotGraph(25, { s24: { state: 'Failed' } });
  const dot = (step: string): IPick => ({ node: 's0', step });

  expect(pickByKey(graph, dot('s0'), 'ArrowRight')).toEqual(dot('s1'));
  expect(pickByKey(graph, dot('s1'), 'ArrowDown')).toEqual(dot('s11'));
  expect(pickByKey(graph, dot('s0'), 'End')).toEqual(dot('s24'));
  expect(pickByKey(graph, dot('s3'), 'f')).toEqual(dot('s24'));
});

test('in a list, arrows go up and down, and letters as in the graph', () => {
  const graph = aGraph({ merge: { state: 'Failed' } });

  expect(pickByKeyInList(graph, on('read'), 'ArrowDown')).toEqual(on('search'));
  expect(pickByKeyInList(graph, on('plan'), 'ArrowUp')).toBeNull();
  expect(pickByKeyInList(graph, on('read'), 'ArrowRight')).toBeNull();
  expect(pickByKeyInList(graph, on('plan'), 'f')).toEqual(on('merge'));
});

test('what is shown follows the newest that runs; then what waits, what failed, what ended last', () => {
  const later = { started_at: at(5) };

  expect(defaultPick(aGraph({ read: RUNS, search: { ...RUNS, ...later } }))).toEqual(on('search'));
  expect(defaultPick(aGraph({ plan: ENDED, search: { state: 'Waiting for you' } }))).toEqual(on('search'));
  expect(defaultPick(aGraph({ plan: ENDED, read: { state: 'Failed' } }))).toEqual(on('read'));
  expect(defaultPick(aGraph({ plan: ENDED, read: { ...ENDED, finished_at: at(3) } }))).toEqual(on('read'));
  expect(defaultPick(aGraph())).toEqual(on('plan'));
});

test('a pick stays where another width draws its step in another form', () => {
  const graph = dotGraph(25);

  expect(currentPick(graph, on('s7'))).toEqual({ node: 's0', step: 's7' });
  expect(currentPick(graph, on('gone'))).toBeNull();
  expect(pickOf(graph, 's9')).toEqual({ node: 's0', step: 's9' });
});
