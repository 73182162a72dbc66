// Writes src/api/protocol.gen.ts from protocol.schema.json; with --check, only checks that it is up to date.
import { readFileSync, writeFileSync } from 'node:fs';
import { compile } from 'json-schema-to-typescript';

const FILE = new URL('../src/api/protocol.gen.ts', import.meta.url);
const schema = JSON.parse(readFileSync(new URL('../protocol.schema.json', import.meta.url), 'utf8'));

const types = await compile(schema, 'Protocol', {
  additionalProperties: false,
  bannerComment:
    '/** The shapes on the wire. Made from protocol.schema.json by `make types`: not to be changed by hand. */',
  style: { singleQuote: true, trailingComma: 'none', printWidth: 120 },
  unreachableDefinitions: true
});
// Only the definitions matter, not the interface of the whole.
const text = types
  .replace(/export interface Protocol \{\}\n/, '')
  .replace(/\/\*\*\n \* This interface was referenced by[^/]*?\*\/\n/g, '')
  .replace(/ \*\n \* This interface was referenced by[^/]*?(?=\*\/)/g, ' ');

if (!process.argv.includes('--check')) {
  writeFileSync(FILE, text);
} else if (readFileSync(FILE, 'utf8') !== text) {
  console.error('src/api/protocol.gen.ts is not what protocol.schema.json says: run `make types`.');
  process.exit(1);
}
