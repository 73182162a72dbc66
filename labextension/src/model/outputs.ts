/** The turn that a cell shows, and what the cell must show at the end of the turn; pure. */

import type { IDisplayData, IMimeBundle, IOutput } from '@jupyterlab/nbformat';

import { isObject } from '../api/notebookFrames';
import type { TaskOutput } from '../api/protocol.gen';
import { isOpen, type TaskRow } from './fold';

const TURN_MIME = 'application/vnd.ozzie.turn+json';
const WIDGET_MIME = 'application/vnd.jupyter.widget-view+json';
const FINAL_WORDS: ReadonlySet<unknown> = new Set(['Done', 'Failed', 'Stopped']);
/** The text in a notebook saved while a turn runs, with the task if it was known. */
const UNFINISHED = /^This turn was still running when the notebook was saved\.(?:.*\(task (\w+)\))?/s;

/** The turn that a cell shows: its task (empty if the output does not say), and whether it has ended. */
export interface IShownTurn {
  readonly at: number;
  readonly taskId: string;
  readonly isFinal: boolean;
}

export function shownTurn(outputs: readonly IOutput[]): IShownTurn | null {
  for (let at = outputs.length - 1; at >= 0; at -= 1) {
    const data = outputs[at]?.data as IMimeBundle | undefined;
    const turn = data?.[TURN_MIME];
    if (isObject(turn)) {
      return { at, taskId: typeof turn.task === 'string' ? turn.task : '', isFinal: FINAL_WORDS.has(turn.status) };
    }
    const unfinished = data && WIDGET_MIME in data && UNFINISHED.exec(textOf(data['text/plain']));
    if (unfinished) {
      return { at, taskId: unfinished[1] ?? '', isFinal: false };
    }
  }
  return null;
}

/**
 * Decide what to do in a cell whose newest or shown task is `row`: nothing, follow it, or write its end. `savedAt` is
 * when the notebook's file was written, in milliseconds: an earlier end was seen, so if its output is gone, somebody
 * removed it.
 */
export function nextAction(shown: IShownTurn | null, row: TaskRow, savedAt: number): 'nothing' | 'follow' | 'finish' {
  const isShown = shown !== null && (shown.taskId === row.taskId || shown.taskId === '');
  if (isOpen(row)) {
    return 'follow';
  }
  if (isShown) {
    return shown.isFinal ? 'nothing' : 'finish';
  }
  return row.finishedAt !== null && row.finishedAt > savedAt ? 'finish' : 'nothing';
}

/** Return the task to consider for a cell that shows `shown`. */
export function taskOf(cellId: string, shown: IShownTurn | null, newestFirst: readonly TaskRow[]): TaskRow | undefined {
  const own = newestFirst.filter(row => row.cellId === cellId);
  return own.find(row => isOpen(row)) ?? own[0] ?? newestFirst.find(row => row.taskId === shown?.taskId);
}

/** Return the cell's outputs at the end of the turn: those from before the turn, then the turn, once. */
export function withEnd(outputs: readonly IOutput[], turn: TaskOutput): IOutput[] {
  const end: IDisplayData = {
    output_type: 'display_data',
    data: turn.data as IMimeBundle,
    metadata: turn.metadata as IDisplayData['metadata']
  };
  const graph: IDisplayData = { output_type: 'display_data', data: turn.graph as IMimeBundle, metadata: {} };
  return [...outputsBefore(outputs, turn.task_id), end, ...(Object.keys(turn.graph).length > 0 ? [graph] : [])];
}

/** Return the outputs from before the turn. Outputs of an earlier run of the cell are dropped. */
export function outputsBefore(outputs: readonly IOutput[], taskId: string): readonly IOutput[] {
  const shown = shownTurn(outputs);
  const isOwn = shown !== null && (shown.taskId === taskId || shown.taskId === '');
  return isOwn ? outputs.slice(0, firstTurn(outputs)) : [];
}

/** Whether the cell shows this end exactly once. */
export function isFinished(outputs: readonly IOutput[], taskId: string): boolean {
  const shown = shownTurn(outputs);
  const others = outputs.slice(firstTurn(outputs) + 1);
  return shown !== null && shown.isFinal && shown.taskId === taskId && others.every(isGraph);
}

/** Whether it is the picture of a run, which follows its turn. */
function isGraph(output: IOutput): boolean {
  const data = output.data as IMimeBundle | undefined;
  return data !== undefined && 'image/svg+xml' in data && !(TURN_MIME in data);
}

/** Return the session of the outputs' turn, or an empty string. */
export function sessionOf(outputs: readonly IOutput[]): string {
  const metadata = outputs.filter(output => !isGraph(output)).at(-1)?.metadata;
  const ozzie = isObject(metadata) ? metadata.ozzie : undefined;
  return isObject(ozzie) && typeof ozzie.session === 'string' ? ozzie.session : '';
}

function firstTurn(outputs: readonly IOutput[]): number {
  const at = outputs.findIndex(output => shownTurn([output]) !== null);
  return at < 0 ? outputs.length : at;
}

function textOf(value: unknown): string {
  return Array.isArray(value) ? value.join('') : typeof value === 'string' ? value : '';
}
