/**
 * The sources that a cell was made from, recorded in its metadata (see `tools/notebook/text.py`, `policy/rules.py`)
 * until a person runs the cell or clears the mark.
 */

import { isObject } from '../api/notebookFrames';
import { visibleLabel } from './visible';
import type { ITranslate } from './wording';

/** The key in the cell's metadata, and the key of the sources in it. */
export const OZZIE = 'ozzie';
const MADE_FROM = 'made_from';

const LABELS: ReadonlySet<string> = new Set(['web', 'file', 'mcp', 'plugin', 'channel', 'remote', 'output']);
const MAX_SOURCES = 32;
const MAX_SOURCE_LENGTH = 300;
const MAX_NAMED = 3;

type Metadata = Readonly<Record<string, unknown>>;

/** Return the valid sources in a cell's metadata, each as "label:place". */
export function sourcesOf(metadata: Metadata): readonly string[] {
  const own = metadata[OZZIE];
  const noted = isObject(own) ? own[MADE_FROM] : undefined;
  return Array.isArray(noted) ? noted.slice(0, MAX_SOURCES).filter(isSource) : [];
}

/** Return the `ozzie` metadata of a cell with these sources added. */
export function withSources(metadata: Metadata, sources: readonly string[]): Metadata {
  const both = [...new Set([...sourcesOf(metadata), ...sources.filter(isSource)])].sort();
  return { ...ownOf(metadata), [MADE_FROM]: both.slice(0, MAX_SOURCES) };
}

/** Return the same without the mark; null if nothing is left. */
export function withoutSources(metadata: Metadata): Metadata | null {
  const left = Object.entries(ownOf(metadata)).filter(([name]) => name !== MADE_FROM);
  return left.length > 0 ? Object.fromEntries(left) : null;
}

/** "Made from web content (example.org, example.net, a.example and 2 more)"; empty without sources. */
export function madeFromText(sources: readonly string[], trans: ITranslate): string {
  const each = [...new Set(sources)].sort().map(partsOf);
  if (each.length === 0) {
    return '';
  }
  const kinds = [...new Set(each.map(({ label }) => kindOf(label, trans)))].join(', ');
  const places = each.map(({ place }) => place).filter(place => place !== '');
  if (places.length === 0) {
    return trans.__('Made from %1', kinds);
  }
  const named = places.slice(0, MAX_NAMED).map(visibleLabel).join(', ');
  const left = each.length - Math.min(places.length, MAX_NAMED);
  return left > 0
    ? trans.__('Made from %1 (%2 and %3 more)', kinds, named, left)
    : trans.__('Made from %1 (%2)', kinds, named);
}

function ownOf(metadata: Metadata): Metadata {
  const own = metadata[OZZIE];
  return isObject(own) ? own : {};
}

function isSource(source: unknown): source is string {
  return typeof source === 'string' && source.length <= MAX_SOURCE_LENGTH && LABELS.has(partsOf(source).label);
}

function partsOf(source: string): { readonly label: string; readonly place: string } {
  const colon = source.indexOf(':');
  return colon < 0 ? { label: source, place: '' } : { label: source.slice(0, colon), place: source.slice(colon + 1) };
}

function kindOf(label: string, trans: ITranslate): string {
  switch (label) {
    case 'web':
      return trans.__('web content');
    case 'file':
      return trans.__('a file outside the project');
    case 'mcp':
      return trans.__('what a server of tools said');
    case 'plugin':
      return trans.__('what a plugin said');
    case 'channel':
      return trans.__('a message from a channel');
    case 'remote':
      return trans.__('what a remote agent said');
    case 'output':
      return trans.__('outputs of a notebook');
    default:
      return label;
  }
}
