/**
 * The gateway's requests to a page with an open notebook, and the page's reports (docs/adr/0036). The edits match
 * `ozzie_server_ext/jupyter/cells.py`.
 */

import type { IOutput } from '@jupyterlab/nbformat';

/** The event that carries a request. */
export const NOTEBOOK_ASKED = 'notebook.asked';

export type CellKind = 'code' | 'markdown' | 'raw';

/** A cell in nbformat. */
export interface WrittenCell {
  readonly id: string;
  readonly cell_type: CellKind;
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly source: string;
  readonly outputs?: readonly IOutput[];
  readonly execution_count?: number | null;
  readonly attachments?: Readonly<Record<string, unknown>>;
}

/** A new cell behind the cell `after`; at the top if that is empty. */
export interface Insert {
  readonly does: 'insert';
  readonly cell: WrittenCell;
  readonly after: string;
}

/** A new source for a cell. `made_from`: sources of outside content to record in it. */
export interface Replace {
  readonly does: 'replace';
  readonly cell_id: string;
  readonly kind: string;
  readonly was: string;
  readonly source: string;
  readonly made_from: readonly string[];
}

export interface Move {
  readonly does: 'move';
  readonly cell_id: string;
  readonly was: string;
  readonly was_after: string;
  readonly after: string;
}

export interface Delete {
  readonly does: 'delete';
  readonly cell_id: string;
  readonly was: string;
  readonly was_outputs: readonly unknown[];
  readonly was_after: string;
}

/** Outputs for a code cell that was run. */
export interface Show {
  readonly does: 'show';
  readonly cell_id: string;
  readonly was: string;
  readonly outputs: readonly unknown[];
  readonly execution_count: number | null;
}

export type Edit = Insert | Replace | Move | Delete | Show;

/** `unknown`: from a newer gateway, or invalid. It is answered as well, because somebody waits. */
export type NotebookAction =
  | { readonly ask: 'state' }
  | { readonly ask: 'read'; readonly first: number }
  | { readonly ask: 'edit'; readonly edit: Edit }
  | { readonly ask: 'reload' }
  | { readonly ask: 'unknown' };

export type NotebookRequest = NotebookAction & { readonly requestId: string; readonly path: string };

/** Why nothing was done: it changed since it was read; somebody is using it; or it is impossible. */
export type NotDoneCode = 'changed' | 'busy' | 'failed';

/** The parameters of `notebook.answer`. */
export interface NotebookAnswer extends Record<string, unknown> {
  readonly request_id: string;
  readonly ok: boolean;
  readonly answer: Readonly<Record<string, unknown>>;
  readonly error: { readonly code: NotDoneCode; readonly message: string } | null;
}

/** Return null without a request id or path: then no answer is possible. */
export function readNotebookRequest(payload: unknown): NotebookRequest | null {
  if (!isObject(payload) || typeof payload.request_id !== 'string' || typeof payload.path !== 'string') {
    return null;
  }
  return { ...readAction(payload), requestId: payload.request_id, path: payload.path };
}

function readAction(payload: Readonly<Record<string, unknown>>): NotebookAction {
  const { ask, first } = payload;
  if (ask === 'state' || ask === 'reload') {
    return { ask };
  }
  if (ask === 'read' && typeof first === 'number' && Number.isInteger(first) && first >= 0) {
    return { ask, first };
  }
  const edit = ask === 'edit' && isObject(payload.edit) ? readEdit(payload.edit) : null;
  return edit ? { ask: 'edit', edit } : { ask: 'unknown' };
}

function readEdit(edit: Readonly<Record<string, unknown>>): Edit | null {
  const { does, after, outputs, made_from = [], was_outputs = [], execution_count: count = null } = edit;
  if (does === 'insert') {
    const cell = isObject(edit.cell) ? readCell(edit.cell) : null;
    return cell && typeof after === 'string' ? { does, cell, after } : null;
  }
  const { cell_id, was, was_after, source, kind } = edit;
  if (typeof cell_id !== 'string' || typeof was !== 'string') {
    return null;
  }
  const about = { cell_id, was };
  switch (does) {
    case 'replace':
      return typeof source === 'string' && typeof kind === 'string' && isTexts(made_from)
        ? { does, ...about, kind, source, made_from }
        : null;
    case 'move':
      return typeof was_after === 'string' && typeof after === 'string' ? { does, ...about, was_after, after } : null;
    case 'delete':
      return typeof was_after === 'string' && Array.isArray(was_outputs)
        ? { does, ...about, was_outputs, was_after }
        : null;
    case 'show':
      return Array.isArray(outputs) && (count === null || typeof count === 'number')
        ? { does, ...about, outputs, execution_count: count }
        : null;
    default:
      return null;
  }
}

/** A multiline text may be a list of lines. */
function readCell(cell: Readonly<Record<string, unknown>>): WrittenCell | null {
  const { id, cell_type, metadata = {}, execution_count: count, attachments } = cell;
  const source = joined(cell.source);
  if (typeof id !== 'string' || !id || !isKind(cell_type) || source === null || !isObject(metadata)) {
    return null;
  }
  const written = { id, cell_type, metadata, source };
  if (cell_type === 'code') {
    const outputs = Array.isArray(cell.outputs) ? (cell.outputs as IOutput[]) : [];
    return { ...written, outputs, execution_count: typeof count === 'number' ? count : null };
  }
  return isObject(attachments) ? { ...written, attachments } : written;
}

/** Return nbformat's multiline string as one text; null if it is none. */
export function joined(text: unknown): string | null {
  return typeof text === 'string' ? text : isTexts(text) ? text.join('') : null;
}

export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isTexts(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every(each => typeof each === 'string');
}

function isKind(value: unknown): value is CellKind {
  return value === 'code' || value === 'markdown' || value === 'raw';
}
