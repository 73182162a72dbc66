/** The cells of an open notebook as the gateway is told of them, in parts that fit into a frame. */

import type { IOutput } from '@jupyterlab/nbformat';

import { isObject, type WrittenCell } from '../api/notebookFrames';
import { untrusted } from './inertOutputs';
import { OZZIE } from './madeFrom';
import { NotDone } from './notDone';

/** In characters of JSON, of all cells of one answer. */
export const MOST_TOLD = 600_000;
/** In bytes: a frame has at most 1 MiB, with what stands around the cells. */
const MOST_BYTES = 1_000_000;
/** In characters of JSON, of one cell's outputs; and of what else may be left out of one. */
export const MOST_OUTPUTS = 256_000;
const MOST_FORMS = 8;
/** Halves of a pair, which JSON spells out: the gateway takes no text with them. */
const HALVES = /[^\\](?:\\\\)*\\ud[89a-f]/;

export interface IToldCells {
  readonly cells: readonly object[];
  readonly count: number;
}

/** The cells from `first` on, as many as fit, and at least one where there is one. Raises NotDone. */
export function toldCells(count: number, whole: (index: number) => WrittenCell, first: number): IToldCells {
  const cells: object[] = [];
  let [characters, bytes] = [0, 0];
  for (let index = first; index < count; index += 1) {
    const cell = toldCell(whole(index));
    const text = JSON.stringify(cell);
    const size = bytesOf(text);
    if (text.length > MOST_TOLD || size > MOST_BYTES) {
      if (cells.length > 0) {
        break; // who asks for the rest is told
      }
      throw new NotDone('failed', `Cell ${index + 1} is too large to be read.`);
    }
    if (HALVES.test(text)) {
      throw new NotDone('failed', `Cell ${index + 1} holds characters that are no valid Unicode.`);
    }
    characters += text.length + 1;
    bytes += size + 1;
    if (cells.length > 0 && (characters > MOST_TOLD || bytes > MOST_BYTES)) {
      break;
    }
    cells.push(cell);
  }
  return { cells, count };
}

/** The outputs as they are told: the same for the same ones, as a deletion names those that were seen. */
export function toldOutputs(outputs: readonly IOutput[]): readonly IOutput[] {
  if (JSON.stringify(outputs).length <= MOST_OUTPUTS) {
    return outputs;
  }
  const text = `[outputs that were too large to be kept: ${formsOf(outputs)}]`;
  return [{ output_type: 'stream', name: 'stdout', text }];
}

function toldCell(cell: WrittenCell): object {
  const { id, cell_type, source, outputs = [], execution_count = null, attachments } = cell;
  const noted = untrusted(cell.metadata);
  // Pictures that were put into a text, and what other tools keep in a cell: not what one reads it for.
  const metadata = isSmall(noted) ? noted : ownOf(noted);
  const told = { id, cell_type, metadata, source };
  if (cell_type === 'code') {
    return { ...told, outputs: toldOutputs(outputs), execution_count };
  }
  return attachments && isSmall(attachments) ? { ...told, attachments } : told;
}

function ownOf(metadata: WrittenCell['metadata']): WrittenCell['metadata'] {
  return isSmall(metadata[OZZIE]) && isObject(metadata[OZZIE]) ? { [OZZIE]: metadata[OZZIE] } : {};
}

function isSmall(value: unknown): boolean {
  return (JSON.stringify(value) ?? '').length <= MOST_OUTPUTS;
}

/** Each form once, as `Cell.forms` in the gateway has them. */
function formsOf(outputs: readonly IOutput[]): string {
  const all = outputs.flatMap(({ data, output_type }) => (isObject(data) ? Object.keys(data).sort() : [output_type]));
  const forms = [...new Set(all.map(form => form.slice(0, 60)))];
  return forms.length > MOST_FORMS ? `${forms.slice(0, MOST_FORMS).join(', ')}, …` : forms.join(', ');
}

/** In UTF-8. */
function bytesOf(text: string): number {
  let bytes = text.length;
  for (let at = 0; at < text.length; at += 1) {
    const unit = text.charCodeAt(at);
    // Each half of a pair counts as two bytes, the pair as four.
    bytes += unit < 0x80 ? 0 : unit < 0x800 || (unit >= 0xd800 && unit < 0xe000) ? 1 : 2;
  }
  return bytes;
}
