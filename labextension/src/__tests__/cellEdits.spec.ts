import type { Edit } from '../api/notebookFrames';
import { makeEdit, smallestChange } from '../model/cellEdits';
import type { NotDone } from '../model/notDone';
import { boundedOutputs, MAX_OUTPUTS } from '../model/serializeCells';
import { aCell, FakeNotebook, printed } from './notebookRig';

let notebook: FakeNotebook;

beforeEach(() => {
  notebook = new FakeNotebook(
    'a.ipynb',
    aCell('one', 'x = 1'),
    aCell('two', 'print(x)', { outputs: [printed('1\n')], execution_count: 3 }),
    aCell('three', '# Notes', { cell_type: 'markdown' })
  );
});

const replace = (given: Partial<Extract<Edit, { does: 'replace' }>> = {}): Edit => {
  return { does: 'replace', cell_id: 'one', kind: 'code', was: 'x = 1', source: 'x = 2', made_from: [], ...given };
};
const insert = (given: Partial<Extract<Edit, { does: 'insert' }>> = {}): Edit => {
  return { does: 'insert', cell: aCell('new', 'y = 1'), after: 'one', ...given };
};
const move = (given: Partial<Extract<Edit, { does: 'move' }>> = {}): Edit => {
  return { does: 'move', cell_id: 'one', was: 'x = 1', was_after: '', after: 'two', ...given };
};
const remove = (given: Partial<Extract<Edit, { does: 'delete' }>> = {}): Edit => {
  const was_outputs = [printed('1\n')];
  return { does: 'delete', cell_id: 'two', was: 'print(x)', was_outputs, was_after: 'one', ...given };
};
const show = (given: Partial<Extract<Edit, { does: 'show' }>> = {}): Edit => {
  return { does: 'show', cell_id: 'two', was: 'print(x)', outputs: [printed('2\n')], execution_count: 4, ...given };
};

/** What it is refused with; nothing may have been done then. */
function refusal(edit: Edit): { code: string; message: string } {
  const before = JSON.stringify(notebook.written);
  try {
    makeEdit(edit, notebook);
  } catch (error) {
    const { code, message } = error as NotDone;
    expect(JSON.stringify(notebook.written)).toBe(before);
    return { code, message };
  }
  throw new Error('It was done.');
}

test.each([
  ['one', ['one', 'new', 'two', 'three']],
  ['three', ['one', 'two', 'three', 'new']],
  ['', ['new', 'one', 'two', 'three']]
])('a new cell comes behind the one that is named: %p', (after, ids) => {
  makeEdit(insert({ after }), notebook);

  expect(notebook.ids).toEqual(ids);
});

test('a source is changed where it differs, and the outputs stay', () => {
  makeEdit(replace({ cell_id: 'two', was: 'print(x)', source: 'print(x, y)' }), notebook);

  expect(notebook.cellAt(1)).toEqual(
    aCell('two', 'print(x, y)', { outputs: [printed('1\n')], execution_count: 3, metadata: {} })
  );
  expect(notebook.changes).toEqual([{ start: 7, end: 7, text: ', y' }]);
});

test('what a source was made from is noted beside what was noted before', () => {
  notebook.written[0] = aCell('one', 'x = 1', {
    metadata: { tags: ['a'], ozzie: { made_from: ['web:b.example'], x: 1 } }
  });
  makeEdit(replace({ made_from: ['web:a.example', 'web:b.example'] }), notebook);

  expect(notebook.cellAt(0).metadata).toEqual({
    tags: ['a'],
    ozzie: { made_from: ['web:a.example', 'web:b.example'], x: 1 }
  });
});

test.each([
  ['one', '', 'three', ['two', 'three', 'one']],
  ['one', '', 'two', ['two', 'one', 'three']],
  ['three', 'two', '', ['three', 'one', 'two']],
  ['three', 'two', 'one', ['one', 'three', 'two']],
  ['two', 'one', 'one', ['one', 'two', 'three']],
  ['two', 'one', 'two', ['one', 'two', 'three']]
])('%s is moved from behind %p to behind %p', (cell_id, was_after, after, ids) => {
  const was = notebook.written.find(cell => cell.id === cell_id)!.source;
  makeEdit(move({ cell_id, was, was_after, after }), notebook);

  expect(notebook.ids).toEqual(ids);
});

test('a cell is deleted that looks as it did', () => {
  makeEdit(remove(), notebook);

  expect(notebook.ids).toEqual(['one', 'three']);
});

test('a cell is deleted whose outputs were too large to be told', () => {
  const huge = [printed('a'.repeat(MAX_OUTPUTS))];
  notebook.written[1] = aCell('two', 'print(x)', { outputs: huge });
  makeEdit(remove({ was_outputs: [...boundedOutputs(huge)] }), notebook);

  expect(notebook.ids).toEqual(['one', 'three']);
});

test('outputs are shown with the number of the run', () => {
  makeEdit(show(), notebook);

  expect(notebook.cellAt(1)).toMatchObject({ outputs: [printed('2\n')], execution_count: 4 });
});

test.each<[string, () => Edit, string]>([
  ['the id is taken', () => insert({ cell: aCell('two') }), 'There is a cell two already.'],
  ['what it comes behind is gone', () => insert({ after: 'gone' }), 'There is no cell gone in it.'],
  ['the cell is gone', () => replace({ cell_id: 'gone' }), 'There is no cell gone in it.'],
  ['somebody changed the source', () => replace({ was: 'x = 0' }), 'The cell one has changed since it was read.'],
  ['somebody made text of code', () => replace({ kind: 'markdown' }), 'The cell one has changed since it was read.'],
  ['the source of what is moved changed', () => move({ was: 'x' }), 'The cell one has changed since it was read.'],
  ['it stands elsewhere', () => move({ was_after: 'three' }), 'The cell one was moved since it was read.'],
  ['what it is moved behind is gone', () => move({ after: 'gone' }), 'There is no cell gone in it.'],
  ['the source of what is deleted changed', () => remove({ was: 'x' }), 'The cell two has changed since it was read.'],
  ['it was run again', () => remove({ was_outputs: [] }), 'The cell two has other outputs than when it was looked at.'],
  ['the source that was run changed', () => show({ was: 'x' }), 'The cell two has changed since it was read.'],
  [
    'what was run is code no more',
    () => show({ cell_id: 'three', was: '# Notes' }),
    'The cell three has no code any more.'
  ]
])('nothing is done where %s', (_, edit, message) => {
  expect(refusal(edit())).toEqual({ code: 'changed', message });
});

test('of two cells of one name none is meant', () => {
  notebook.written.push(aCell('one', 'x = 1'));

  expect(refusal(replace())).toEqual({
    code: 'changed',
    message: 'Two cells are called one. Saved once in Jupyter, each has a name of its own.'
  });
});

test.each([insert, replace, move, remove, show])('a notebook for reading only is left alone (%#)', edit => {
  notebook.isReadOnly = true;

  expect(refusal(edit()).code).toBe('busy');
});

test('nothing is taken from where somebody writes, and what they write can be changed beside them', () => {
  notebook.edited = 'one';
  expect(refusal(move()).code).toBe('busy');
  notebook.edited = 'two';
  expect(refusal(remove()).code).toBe('busy');
  makeEdit(show(), notebook);

  notebook.edited = 'one';
  makeEdit(replace(), notebook);
  expect(notebook.cellAt(0).source).toBe('x = 2');
});

test('a character that is half typed is waited for', () => {
  notebook.composed = 'one';
  expect(refusal(replace()).code).toBe('busy');
  notebook.composed = 'two';
  expect(refusal(show()).code).toBe('busy');
  makeEdit(replace(), notebook);
});

test('a cell that runs stays where its outputs go to', () => {
  notebook.running = 'two';
  expect(refusal(remove()).code).toBe('busy');
  expect(refusal(show()).code).toBe('busy');
  expect(refusal(move({ cell_id: 'two', was: 'print(x)', was_after: 'one', after: '' })).code).toBe('busy');
  makeEdit(replace({ cell_id: 'two', was: 'print(x)', source: 'print(y)' }), notebook);
});

test('nothing that acts comes in with a cell, and no trust', () => {
  const outputs = [
    {
      output_type: 'display_data',
      data: { 'text/html': '<img src=x onerror=a()>', 'text/plain': ['a', 'b'] },
      metadata: {}
    },
    { output_type: 'display_data', data: { 'application/javascript': 'a()' }, metadata: {} }
  ];
  const metadata = { trusted: true, tags: ['a'] };
  makeEdit(insert({ cell: aCell('new', 'y', { metadata, outputs }) }), notebook);

  expect(notebook.cellAt(1)).toEqual(
    aCell('new', 'y', {
      metadata: { tags: ['a'] },
      outputs: [{ output_type: 'display_data', data: { 'text/plain': 'ab' }, metadata: {} }]
    })
  );
});

test('nothing that acts is shown below a cell', () => {
  const png = { 'image/png': 'aGk=', 'image/svg+xml': '<svg onload="a()"/>' };
  const metadata = { 'image/png': { width: 2 }, isolated: false };
  makeEdit(
    show({
      outputs: [
        { output_type: 'execute_result', data: png, metadata, execution_count: 4, transient: {} },
        { output_type: 'display_data', data: { 'text/markdown': '![](http://a.example)' }, metadata: {} },
        { output_type: 'update_display_data', data: { 'text/plain': 'x' } },
        { output_type: 'stream', name: 'stderr', text: ['a\n', 'b'], more: 1 },
        { output_type: 'error', ename: 'E', evalue: 'v', traceback: ['t', 1] },
        'nonsense'
      ]
    }),
    notebook
  );

  expect(notebook.cellAt(1).outputs).toEqual([
    {
      output_type: 'execute_result',
      data: { 'image/png': 'aGk=' },
      metadata: { 'image/png': { width: 2 } },
      execution_count: 4
    },
    { output_type: 'stream', name: 'stderr', text: 'a\nb' },
    { output_type: 'error', ename: 'E', evalue: 'v', traceback: ['t'] }
  ]);
});

test('pictures beside a text are kept, and nothing else that could stand there', () => {
  const attachments = { 'a.png': { 'image/png': 'aGk=' }, 'b.svg': { 'image/svg+xml': '<svg/>' } };
  const cell = aCell('new', '![](attachment:a.png)', { cell_type: 'markdown', attachments });
  makeEdit(insert({ cell }), notebook);

  expect(notebook.cellAt(1).attachments).toEqual({ 'a.png': { 'image/png': 'aGk=' } });
});

test('the smallest change makes the one text of the other, and splits no character', () => {
  const parts = ['a', 'b', '\n', '😀', '😁', '🎉', 'ä', ''];
  // Numbers that seem random, the same in each run.
  let seed = 7;
  const next = (below: number): number => (seed = (seed * 48_271) % 2_147_483_647) % below;
  const text = (): string => Array.from({ length: next(9) }, () => parts[next(parts.length)]).join('');
  for (let round = 0; round < 5_000; round += 1) {
    const [was, becomes] = [text(), text()];
    const { start, end, text: put } = smallestChange(was, becomes);
    expect(was.slice(0, start) + put + was.slice(end)).toBe(becomes);
    expect(start).toBeLessThanOrEqual(end);
    for (const piece of [was.slice(0, start), was.slice(start, end), was.slice(end), put]) {
      expect(piece).not.toMatch(/\p{Cs}/u);
    }
  }
});

test.each([
  ['same', 'same', { start: 4, end: 4, text: '' }],
  ['a b c', 'a x c', { start: 2, end: 3, text: 'x' }],
  ['aa', 'aaa', { start: 2, end: 2, text: 'a' }],
  ['aaa', 'aa', { start: 2, end: 3, text: '' }],
  ['', 'new', { start: 0, end: 0, text: 'new' }],
  ['😀', '😁', { start: 0, end: 2, text: '😁' }]
])('what changes from %p to %p is small', (was, becomes, change) => {
  expect(smallestChange(was, becomes)).toEqual(change);
});
