/**
 * Edits of an open notebook's cells: each applies only to what was read, is checked like `place_of` in the gateway
 * (`jupyter/cells.py`), and is made in the page's model, beside a person's typing.
 */

import type { IOutput } from '@jupyterlab/nbformat';
import { JSONExt, type PartialJSONValue } from '@lumino/coreutils';

import type { Edit, WrittenCell } from '../api/notebookFrames';
import { inertAttachments, inertOutputs, untrusted } from './inertOutputs';
import { NotDone } from './notDone';
import { boundedOutputs } from './serializeCells';

/** The part of a cell that is needed to find it. */
export interface ICellHead {
  readonly id: string;
  readonly kind: string;
  readonly source: string;
}

/** Replaces the text from `start` to `end`. */
export interface ISourceChange {
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

/** The cells of a notebook and the changes to them, each of which is one Undo step. */
export interface IEditableCells {
  readonly isReadOnly: boolean;
  readonly cells: readonly ICellHead[];
  /** The whole cell in nbformat. */
  cellAt(index: number): WrittenCell;
  /** Whether a person's cursor is in it. */
  isEdited(cellId: string): boolean;
  /** Whether a person is composing a character there. */
  isComposing(cellId: string): boolean;
  isRunning(cellId: string): boolean;
  insert(index: number, cell: WrittenCell): void;
  /** `madeFrom`: sources to add to the cell's own. */
  changeSource(index: number, change: ISourceChange, madeFrom: readonly string[]): void;
  /** `to`: its index afterwards. */
  move(index: number, to: number): void;
  remove(index: number): void;
  show(index: number, outputs: readonly IOutput[], executionCount: number | null): void;
}

const TOP = '';

/** Make an edit, or raise NotDone and change nothing. */
export function makeEdit(edit: Edit, notebook: IEditableCells): void {
  const index = placeOf(edit, notebook);
  assertNotBusy(edit, notebook);
  switch (edit.does) {
    case 'insert':
      notebook.insert(index, inertCell(edit.cell));
      break;
    case 'replace':
      notebook.changeSource(index, smallestChange(edit.was, edit.source), edit.made_from);
      break;
    case 'move': {
      const target = indexAfter(edit.after, notebook.cells);
      notebook.move(index, target > index ? target - 1 : target);
      break;
    }
    case 'delete':
      notebook.remove(index);
      break;
    case 'show':
      notebook.show(index, inertOutputs(edit.outputs), edit.execution_count);
  }
}

/** Return the index of the edit's cell, or of the new one. Raises NotDone. */
export function placeOf(edit: Edit, notebook: Pick<IEditableCells, 'cells' | 'cellAt'>): number {
  const { cells } = notebook;
  if (edit.does === 'insert') {
    if (cells.some(cell => cell.id === edit.cell.id)) {
      throw new NotDone('changed', `There is a cell ${edit.cell.id} already.`);
    }
    return indexAfter(edit.after, cells);
  }
  const index = indexOf(edit.cell_id, cells);
  const cell = cells[index];
  if (cell?.source !== edit.was || (edit.does === 'replace' && cell.kind !== edit.kind)) {
    throw new NotDone('changed', `The cell ${edit.cell_id} has changed since it was read.`);
  }
  if (edit.does === 'delete' && !isSame(boundedOutputs(notebook.cellAt(index).outputs ?? []), edit.was_outputs)) {
    throw new NotDone('changed', `The cell ${edit.cell_id} has other outputs than when it was looked at.`);
  }
  if (edit.does === 'show' && cell.kind !== 'code') {
    throw new NotDone('changed', `The cell ${edit.cell_id} has no code any more.`);
  }
  if (edit.does === 'move') {
    if ((cells[index - 1]?.id ?? TOP) !== edit.was_after) {
      throw new NotDone('changed', `The cell ${edit.cell_id} was moved since it was read.`);
    }
    indexAfter(edit.after, cells);
  }
  return index;
}

/** Return the difference of two texts, without their common beginning and end. */
export function smallestChange(was: string, becomes: string): ISourceChange {
  const shorter = Math.min(was.length, becomes.length);
  let start = 0;
  while (start < shorter && was.charCodeAt(start) === becomes.charCodeAt(start)) {
    start += 1;
  }
  // Don't split a surrogate pair: the shared model would replace its halves.
  if (isSplit(was, start) || isSplit(becomes, start)) {
    start -= 1;
  }
  let same = 0;
  while (
    same < shorter - start &&
    was.charCodeAt(was.length - 1 - same) === becomes.charCodeAt(becomes.length - 1 - same)
  ) {
    same += 1;
  }
  if (isSplit(was, was.length - same) || isSplit(becomes, becomes.length - same)) {
    same -= 1;
  }
  return { start, end: was.length - same, text: becomes.slice(start, becomes.length - same) };
}

/** Check that the edit interrupts nobody's work. Raises NotDone. */
function assertNotBusy(edit: Edit, notebook: IEditableCells): void {
  if (notebook.isReadOnly) {
    throw new NotDone('busy', 'The notebook is open here for reading only.');
  }
  if (edit.does === 'insert') {
    return;
  }
  const takesCell = edit.does === 'delete' || edit.does === 'move';
  if (takesCell && notebook.isEdited(edit.cell_id)) {
    throw new NotDone('busy', `Somebody is writing in the cell ${edit.cell_id}.`);
  }
  if (!takesCell && notebook.isComposing(edit.cell_id)) {
    throw new NotDone('busy', `Somebody is in the middle of a character in the cell ${edit.cell_id}.`);
  }
  // Its outputs would be lost or mixed.
  if (edit.does !== 'replace' && notebook.isRunning(edit.cell_id)) {
    throw new NotDone('busy', `The cell ${edit.cell_id} is running.`);
  }
}

/** Return the index behind the cell `after`. Raises NotDone. */
function indexAfter(after: string, cells: readonly ICellHead[]): number {
  return after === TOP ? 0 : indexOf(after, cells) + 1;
}

function indexOf(cellId: string, cells: readonly ICellHead[]): number {
  const found = cells.flatMap((cell, index) => (cell.id === cellId ? [index] : []));
  if (found.length > 1) {
    throw new NotDone('changed', `Two cells are called ${cellId}. Saved once in Jupyter, each has a name of its own.`);
  }
  if (found[0] === undefined) {
    throw new NotDone('changed', `There is no cell ${cellId} in it.`);
  }
  return found[0];
}

/** Make a new cell inert, and untrusted until a person runs it. */
function inertCell(cell: WrittenCell): WrittenCell {
  const { outputs, attachments, metadata, ...known } = cell;
  const written = { ...known, metadata: untrusted(metadata) };
  return {
    ...written,
    ...(outputs && { outputs: inertOutputs(outputs) }),
    ...(attachments && { attachments: inertAttachments(attachments) })
  };
}

/** Compare as JSON: undefined values don't count. */
function isSame(one: readonly unknown[], other: readonly unknown[]): boolean {
  return JSONExt.deepEqual(asJson(one), asJson(other));
}

function asJson(value: readonly unknown[]): PartialJSONValue {
  return JSON.parse(JSON.stringify(value)) as PartialJSONValue;
}

/** Whether `at` is within a surrogate pair. */
function isSplit(text: string, at: number): boolean {
  const [before, after] = [text.charCodeAt(at - 1), text.charCodeAt(at)];
  return before >= 0xd800 && before < 0xdc00 && after >= 0xdc00 && after < 0xe000;
}
