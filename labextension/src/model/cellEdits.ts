/**
 * Edits of an open notebook's cells: each to exactly what was seen, checked as `place_of` in the gateway checks it
 * (`jupyter/cells.py`), and made in the page's own model, beside what somebody types there.
 */

import type { IOutput } from '@jupyterlab/nbformat';
import { JSONExt, type PartialJSONValue } from '@lumino/coreutils';

import type { Edit, WrittenCell } from '../api/notebookFrames';
import { inertAttachments, inertOutputs, untrusted } from './inertOutputs';
import { NotDone } from './notDone';
import { toldOutputs } from './toldCells';

/** A cell, as far as one has to know it to find it. */
export interface ICellHead {
  readonly id: string;
  readonly kind: string;
  readonly source: string;
}

/** In the place of the text from `start` to `end`. */
export interface ISourceChange {
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

/** The cells of a notebook, and what can be done to them; each at once, and each one step for Undo. */
export interface IEditableCells {
  readonly isReadOnly: boolean;
  readonly cells: readonly ICellHead[];
  /** As nbformat has it, without what is cut. */
  whole(index: number): WrittenCell;
  /** Somebody's cursor is in it. */
  isEdited(cellId: string): boolean;
  /** Somebody is in the middle of a character that takes several keys. */
  isComposed(cellId: string): boolean;
  isRunning(cellId: string): boolean;
  insert(index: number, cell: WrittenCell): void;
  /** `madeFrom`: sources to be noted in the cell beside its own. */
  changeSource(index: number, change: ISourceChange, madeFrom: readonly string[]): void;
  /** `to`: where it stands afterwards. */
  move(index: number, to: number): void;
  remove(index: number): void;
  show(index: number, outputs: readonly IOutput[], executionCount: number | null): void;
}

const TOP = '';

/** Raises NotDone, where nothing was done. */
export function makeEdit(edit: Edit, notebook: IEditableCells): void {
  const index = placeOf(edit, notebook);
  expectFree(edit, notebook);
  switch (edit.does) {
    case 'insert':
      notebook.insert(index, inertCell(edit.cell));
      break;
    case 'replace':
      notebook.changeSource(index, smallestChange(edit.was, edit.source), edit.made_from);
      break;
    case 'move': {
      const behindIt = behind(edit.after, notebook.cells);
      notebook.move(index, behindIt > index ? behindIt - 1 : behindIt);
      break;
    }
    case 'delete':
      notebook.remove(index);
      break;
    case 'show':
      notebook.show(index, inertOutputs(edit.outputs), edit.execution_count);
  }
}

/** Where the cell stands that the edit is about; of a new one, where it will. Raises NotDone. */
export function placeOf(edit: Edit, notebook: Pick<IEditableCells, 'cells' | 'whole'>): number {
  const { cells } = notebook;
  if (edit.does === 'insert') {
    if (cells.some(cell => cell.id === edit.cell.id)) {
      throw new NotDone('changed', `There is a cell ${edit.cell.id} already.`);
    }
    return behind(edit.after, cells);
  }
  const index = indexOf(edit.cell_id, cells);
  const cell = cells[index];
  if (cell?.source !== edit.was || (edit.does === 'replace' && cell.kind !== edit.kind)) {
    throw new NotDone('changed', `The cell ${edit.cell_id} has changed since it was read.`);
  }
  if (edit.does === 'delete' && !isSame(toldOutputs(notebook.whole(index).outputs ?? []), edit.was_outputs)) {
    throw new NotDone('changed', `The cell ${edit.cell_id} has other outputs than when it was looked at.`);
  }
  if (edit.does === 'show' && cell.kind !== 'code') {
    throw new NotDone('changed', `The cell ${edit.cell_id} has no code any more.`);
  }
  if (edit.does === 'move') {
    if ((cells[index - 1]?.id ?? TOP) !== edit.was_after) {
      throw new NotDone('changed', `The cell ${edit.cell_id} was moved since it was read.`);
    }
    behind(edit.after, cells);
  }
  return index;
}

/** What differs between two texts, without what they have in common before and behind it. */
export function smallestChange(was: string, becomes: string): ISourceChange {
  const shorter = Math.min(was.length, becomes.length);
  let start = 0;
  while (start < shorter && was.charCodeAt(start) === becomes.charCodeAt(start)) {
    start += 1;
  }
  // Between the halves of a character the shared model would put a mark in its place.
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

/** Nobody's work is taken from under their hands. Raises NotDone. */
function expectFree(edit: Edit, notebook: IEditableCells): void {
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
  if (!takesCell && notebook.isComposed(edit.cell_id)) {
    throw new NotDone('busy', `Somebody is in the middle of a character in the cell ${edit.cell_id}.`);
  }
  // What it still says would get lost, or mixed with what is shown.
  if (edit.does !== 'replace' && notebook.isRunning(edit.cell_id)) {
    throw new NotDone('busy', `The cell ${edit.cell_id} is running.`);
  }
}

/** Behind which index a cell comes. Raises NotDone. */
function behind(after: string, cells: readonly ICellHead[]): number {
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

/** What comes in is trusted by nobody until a person runs it, and does nothing where it is shown. */
function inertCell(cell: WrittenCell): WrittenCell {
  const { outputs, attachments, metadata, ...known } = cell;
  const written = { ...known, metadata: untrusted(metadata) };
  return {
    ...written,
    ...(outputs && { outputs: inertOutputs(outputs) }),
    ...(attachments && { attachments: inertAttachments(attachments) })
  };
}

/** As JSON has it: what has no value is not there. */
function isSame(one: readonly unknown[], other: readonly unknown[]): boolean {
  return JSONExt.deepEqual(asJson(one), asJson(other));
}

function asJson(value: readonly unknown[]): PartialJSONValue {
  return JSON.parse(JSON.stringify(value)) as PartialJSONValue;
}

/** Whether a character of two halves stands on both sides of that place. */
function isSplit(text: string, at: number): boolean {
  const [before, behindIt] = [text.charCodeAt(at - 1), text.charCodeAt(at)];
  return before >= 0xd800 && before < 0xdc00 && behindIt >= 0xdc00 && behindIt < 0xe000;
}
