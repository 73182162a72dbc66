import { countOf, proofLines } from '../model/diff';
import { visibleLabel, visibleProof } from '../model/visible';

test.each([
  ['\u202egnp.exe', '\\u202egnp.exe'],
  ['a\u0000b\u001b[31m', 'a\\u0000b\\u001b[31m'],
  ['a\u2066b\u2069', 'a\\u2066b\\u2069'],
  ['\u{e0041}', '\\U000e0041'],
  ['\ud800', '\\ud800'],
  ['tab\tand\nline', 'tab\tand\nline'],
  ['line\r\nend', 'line\nend'],
  ['a\u200bb = a\u200eb', 'a\\u200bb = a\\u200eb'],
  ['\ufeffa\u061cb', '\\ufeffa\\u061cb'],
  ['\u{13430}\u{1bca0}\u{1d17a}', '\\U00013430\\U0001bca0\\U0001d17a'],
  ['caf\u00e9 \u{1f468}', 'caf\u00e9 \u{1f468}']
])('in a proof, %j is shown as %j', (text, shown) => {
  expect(visibleProof(text)).toBe(shown);
});

test.each([
  ['a\u200bb', 'a\\u200bb'],
  ['\ufeffa', '\\ufeffa'],
  ['two\n  lines', 'two lines'],
  ['a\u061cb', 'a\\u061cb']
])('in a label, %j is shown as %j', (text, shown) => {
  expect(visibleLabel(text)).toBe(shown);
});

test('a diff is read with the places of its lines, and a gap between its passages', () => {
  const diff = '@@ -17,3 +17,4 @@\n same\n-old\n+new\n+more\n\\ No newline at end of file\n@@ -40,1 +41,0 @@\n-gone';
  expect(proofLines(diff, 'diff')).toEqual([
    { kind: 'same', number: 17, text: 'same' },
    { kind: 'removed', number: 18, text: 'old' },
    { kind: 'added', number: 18, text: 'new' },
    { kind: 'added', number: 19, text: 'more' },
    { kind: 'aside', number: null, text: 'No newline at end of file' },
    { kind: 'aside', number: null, text: '⋯' },
    { kind: 'removed', number: 40, text: 'gone' }
  ]);
  expect(countOf(proofLines(diff, 'diff'), 'added')).toBe(2);
});

test('what a line end within a line would forge is no unchanged line', () => {
  const [added, forged] = proofLines('@@ -1,0 +1,1 @@\n+good\rbad', 'diff');
  expect([added?.kind, forged]).toEqual(['added', { kind: 'aside', number: null, text: 'bad' }]);
});

test('a text has all its lines, also those that look like a diff', () => {
  expect(proofLines('+a\n\n-b\n', 'text').map(line => [line.kind, line.text])).toEqual([
    ['same', '+a'],
    ['same', ''],
    ['same', '-b']
  ]);
});
