import type { IOutput } from '@jupyterlab/nbformat';

import type { WrittenCell } from '../api/notebookFrames';
import { boundedOutputs, MAX_CHARACTERS, MAX_OUTPUTS, serializeCells } from '../model/serializeCells';
import { aCell, printed } from './notebookRig';

const told = (cells: readonly WrittenCell[], first = 0) => serializeCells(cells.length, index => cells[index]!, first);
const ids = (cells: readonly object[]): string[] => cells.map(cell => (cell as { id: string }).id);

test('cells are told as nbformat has them, without a mark that they are trusted', () => {
  const output = printed('1\n');
  const cells = [
    aCell('one', 'x', { metadata: { trusted: true, tags: ['a'] }, outputs: [output], execution_count: 2 }),
    { id: 'two', cell_type: 'markdown' as const, metadata: {}, source: '# A' }
  ];

  expect(told(cells)).toEqual({
    cells: [
      { id: 'one', cell_type: 'code', metadata: { tags: ['a'] }, source: 'x', outputs: [output], execution_count: 2 },
      { id: 'two', cell_type: 'markdown', metadata: {}, source: '# A' }
    ],
    count: 2
  });
});

test('a large notebook is told in parts', () => {
  const cells = Array.from({ length: 7 }, (_, at) => aCell(`cell-${at}`, 'a'.repeat(250_000)));
  const seen: string[] = [];
  while (seen.length < cells.length) {
    const part = told(cells, seen.length);
    expect(part.count).toBe(7);
    expect(part.cells.length).toBeGreaterThan(0);
    expect(JSON.stringify(part.cells).length).toBeLessThanOrEqual(MAX_CHARACTERS);
    seen.push(...ids(part.cells));
  }

  expect(seen).toEqual(cells.map(cell => cell.id));
});

test('a part fits into a frame in every script', () => {
  const cells = Array.from({ length: 3 }, (_, at) => aCell(`cell-${at}`, '漢'.repeat(180_000)));
  const part = told(cells);

  expect(ids(part.cells)).toEqual(['cell-0']);
  expect(new Blob([JSON.stringify(part)]).size).toBeLessThan(1 << 20);
});

test('behind the last cell there is nothing', () => {
  expect(told([aCell('one')], 1)).toEqual({ cells: [], count: 1 });
  expect(told([], 0)).toEqual({ cells: [], count: 0 });
});

test('a cell that fits nowhere is said, when it is reached', () => {
  const cells = [aCell('one'), aCell('two', 'a'.repeat(MAX_CHARACTERS + 1))];

  expect(ids(told(cells).cells)).toEqual(['one']);
  expect(() => told(cells, 1)).toThrow('Cell 2 is too large to be read.');
});

test('halves of characters are said, as the gateway takes no text with them', () => {
  expect(() => told([aCell('one', 'a\ud83d')])).toThrow('Cell 1 holds characters that are no valid Unicode.');
  expect(told([aCell('one', '"\\ud83d" "\\\\ud83d" 😀')]).cells).toHaveLength(1);
});

test('large outputs are named, each form once', () => {
  const png: IOutput = {
    output_type: 'display_data',
    data: { 'text/plain': '<Figure>', 'image/png': 'a'.repeat(MAX_OUTPUTS) },
    metadata: {}
  };

  expect(boundedOutputs([png, printed('x'), png])).toEqual([
    printed('[outputs that were too large to be kept: image/png, text/plain, stream]')
  ]);
  expect(boundedOutputs([printed('x')])).toEqual([printed('x')]);
});

test('of many forms only some are named', () => {
  const data = Object.fromEntries(Array.from({ length: 20 }, (_, at) => [`a/${String.fromCharCode(97 + at)}`, 'x']));
  const many: IOutput = {
    output_type: 'display_data',
    data: { ...data, 'a/a': 'x'.repeat(MAX_OUTPUTS) },
    metadata: {}
  };

  expect(boundedOutputs([many])[0]!.text).toBe(
    '[outputs that were too large to be kept: a/a, a/b, a/c, a/d, a/e, a/f, a/g, a/h, …]'
  );
});

test('what else makes a cell large is left out, and its mark is not', () => {
  const large = 'a'.repeat(MAX_OUTPUTS);
  const ozzie = { made_from: ['web:a.example'] };
  const [code, text] = told([
    aCell('one', 'x', { metadata: { ozzie, large } }),
    { id: 'two', cell_type: 'markdown', metadata: {}, source: '', attachments: { 'a.png': { 'image/png': large } } }
  ]).cells;

  expect(code).toMatchObject({ metadata: { ozzie } });
  expect((code as WrittenCell).metadata).not.toHaveProperty('large');
  expect(text).toEqual({ id: 'two', cell_type: 'markdown', metadata: {}, source: '' });
});
