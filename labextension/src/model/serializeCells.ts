/** The cells of an open notebook, serialized in parts that fit into a frame. */

import type { IOutput } from '@jupyterlab/nbformat';

import { isObject, type WrittenCell } from '../api/notebookFrames';
import { untrusted } from './inertOutputs';
import { OZZIE } from './madeFrom';
import { NotDone } from './notDone';

/** Characters of JSON in one answer. */
export const MAX_CHARACTERS = 600_000;
/** A frame has at most 1 MiB, including what surrounds the cells. */
const MAX_BYTES = 1_000_000;
/** Characters of JSON in one cell's outputs, metadata or attachments. */
export const MAX_OUTPUTS = 256_000;
const MAX_FORMS = 8;
/** Lone surrogates, which JSON escapes: the gateway rejects text with them. */
const LONE_SURROGATES = /[^\\](?:\\\\)*\\ud[89a-f]/;

export interface ICellsPart {
  readonly cells: readonly object[];
  readonly count: number;
}

/** Return the cells from `first` on, as many as fit, but at least one if any is left. Raises NotDone. */
export function serializeCells(count: number, cellAt: (index: number) => WrittenCell, first: number): ICellsPart {
  const cells: object[] = [];
  let [characters, bytes] = [0, 0];
  for (let index = first; index < count; index += 1) {
    const cell = serializeCell(cellAt(index));
    const text = JSON.stringify(cell);
    const size = bytesOf(text);
    if (text.length > MAX_CHARACTERS || size > MAX_BYTES) {
      if (cells.length > 0) {
        break; // the caller requests the rest
      }
      throw new NotDone('failed', `Cell ${index + 1} is too large to be read.`);
    }
    if (LONE_SURROGATES.test(text)) {
      throw new NotDone('failed', `Cell ${index + 1} holds characters that are no valid Unicode.`);
    }
    characters += text.length + 1;
    bytes += size + 1;
    if (cells.length > 0 && (characters > MAX_CHARACTERS || bytes > MAX_BYTES)) {
      break;
    }
    cells.push(cell);
  }
  return { cells, count };
}

/** The outputs, or a note if they are too large. The same each time: a deletion names the outputs that were read. */
export function boundedOutputs(outputs: readonly IOutput[]): readonly IOutput[] {
  if (JSON.stringify(outputs).length <= MAX_OUTPUTS) {
    return outputs;
  }
  const text = `[outputs that were too large to be kept: ${formsOf(outputs)}]`;
  return [{ output_type: 'stream', name: 'stdout', text }];
}

function serializeCell(cell: WrittenCell): object {
  const { id, cell_type, source, outputs = [], execution_count = null, attachments } = cell;
  const noted = untrusted(cell.metadata);
  // Leave out large metadata, such as pasted pictures and other tools' data.
  const metadata = isSmall(noted) ? noted : ownOf(noted);
  const kept = { id, cell_type, metadata, source };
  if (cell_type === 'code') {
    return { ...kept, outputs: boundedOutputs(outputs), execution_count };
  }
  return attachments && isSmall(attachments) ? { ...kept, attachments } : kept;
}

function ownOf(metadata: WrittenCell['metadata']): WrittenCell['metadata'] {
  return isSmall(metadata[OZZIE]) && isObject(metadata[OZZIE]) ? { [OZZIE]: metadata[OZZIE] } : {};
}

function isSmall(value: unknown): boolean {
  return (JSON.stringify(value) ?? '').length <= MAX_OUTPUTS;
}

/** Return each MIME type once, like `Cell.forms` in the gateway. */
function formsOf(outputs: readonly IOutput[]): string {
  const all = outputs.flatMap(({ data, output_type }) => (isObject(data) ? Object.keys(data).sort() : [output_type]));
  const forms = [...new Set(all.map(form => form.slice(0, 60)))];
  return forms.length > MAX_FORMS ? `${forms.slice(0, MAX_FORMS).join(', ')}, …` : forms.join(', ');
}

/** The size in UTF-8. */
function bytesOf(text: string): number {
  let bytes = text.length;
  for (let at = 0; at < text.length; at += 1) {
    const unit = text.charCodeAt(at);
    // Each surrogate counts as two bytes, the pair as four.
    bytes += unit < 0x80 ? 0 : unit < 0x800 || (unit >= 0xd800 && unit < 0xe000) ? 1 : 2;
  }
  return bytes;
}
