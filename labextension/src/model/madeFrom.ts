/**
 * What a cell was made from, noted in its metadata until a person runs it or takes the mark off: as
 * `tools/notebook/text.py` notes it, and as `policy/rules.py` says it.
 */

import { isObject } from '../api/notebookFrames';
import { visibleLabel } from './visible';
import type { ITranslate } from './wording';

/** The key of the cell's metadata, and the one in it that holds the sources. */
export const OZZIE = 'ozzie';
const MADE_FROM = 'made_from';

const LABELS: ReadonlySet<string> = new Set(['web', 'file', 'mcp', 'channel', 'remote', 'output']);
const MOST_SOURCES = 32;
const LONGEST_SOURCE = 300;
const MOST_TOLD = 3;

type Metadata = Readonly<Record<string, unknown>>;

/** The sources that the metadata of a cell name, each as "label:place"; whatever else stands there is none. */
export function sourcesOf(metadata: Metadata): readonly string[] {
  const own = metadata[OZZIE];
  const said = isObject(own) ? own[MADE_FROM] : undefined;
  return Array.isArray(said) ? said.slice(0, MOST_SOURCES).filter(isSource) : [];
}

/** What stands below `ozzie` in the metadata of a cell that has these sources among its own. */
export function marked(metadata: Metadata, sources: readonly string[]): Metadata {
  const both = [...new Set([...sourcesOf(metadata), ...sources.filter(isSource)])].sort();
  return { ...ownOf(metadata), [MADE_FROM]: both.slice(0, MOST_SOURCES) };
}

/** The same without the mark; null where nothing is left. */
export function unmarked(metadata: Metadata): Metadata | null {
  const left = Object.entries(ownOf(metadata)).filter(([name]) => name !== MADE_FROM);
  return left.length > 0 ? Object.fromEntries(left) : null;
}

/** "Made from web content (example.org, example.net, a.example and 2 more)"; empty where there are no sources. */
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
  const told = places.slice(0, MOST_TOLD).map(visibleLabel).join(', ');
  const left = each.length - Math.min(places.length, MOST_TOLD);
  return left > 0
    ? trans.__('Made from %1 (%2 and %3 more)', kinds, told, left)
    : trans.__('Made from %1 (%2)', kinds, told);
}

function ownOf(metadata: Metadata): Metadata {
  const own = metadata[OZZIE];
  return isObject(own) ? own : {};
}

function isSource(source: unknown): source is string {
  return typeof source === 'string' && source.length <= LONGEST_SOURCE && LABELS.has(partsOf(source).label);
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
