import { madeFromText, sourcesOf, withoutSources, withSources } from '../model/madeFrom';
import { TRANS } from './rig';

const noted = (made_from: unknown, more: object = {}) => ({ ozzie: { made_from, ...more } });

test('only sources count that are some', () => {
  expect(sourcesOf(noted(['web:a.example', 7, 'nowhere:x', '', `web:${'a'.repeat(300)}`, 'mcp:']))).toEqual([
    'web:a.example',
    'mcp:'
  ]);
  expect(sourcesOf(noted('web:a.example'))).toEqual([]);
  expect(sourcesOf({ ozzie: [] })).toEqual([]);
  expect(sourcesOf({})).toEqual([]);
});

test('sources are noted sorted, each once, and not without end', () => {
  expect(withSources(noted(['web:b', 'web:a'], { session: 's' }), ['web:c', 'web:a'])).toEqual({
    session: 's',
    made_from: ['web:a', 'web:b', 'web:c']
  });
  const many = Array.from({ length: 40 }, (_, at) => `web:${at + 10}`);
  expect(sourcesOf({ ozzie: withSources({}, many) })).toEqual(many.slice(0, 32));
});

test('the mark goes without what stands beside it', () => {
  expect(withoutSources(noted(['web:a'], { session: 's' }))).toEqual({ session: 's' });
  expect(withoutSources(noted(['web:a']))).toBeNull();
});

test.each([
  [[], ''],
  [['web:example.org'], 'Made from web content (example.org)'],
  [['web:'], 'Made from web content'],
  [
    ['web:c', 'file:/data/a.csv', 'web:b', 'web:a', 'web:d'],
    'Made from a file outside the project, web content (/data/a.csv, a, b and 2 more)'
  ],
  [['mcp:tickets', 'output:'], 'Made from what a server of tools said, outputs of a notebook (tickets and 1 more)'],
  [['web:a\u202eb'], 'Made from web content (a\\u202eb)']
])('of %p it is said: %s', (sources, text) => {
  expect(madeFromText(sources, TRANS)).toBe(text);
});
