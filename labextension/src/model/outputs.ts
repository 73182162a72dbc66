/** What a cell shows of a turn, and what it is to show at its end; pure. */

import type { IDisplayData, IMimeBundle, IOutput } from '@jupyterlab/nbformat';

import type { TaskOutput } from '../api/protocol.gen';
import { isOpen, type TaskRow } from './fold';

const TURN_MIME = 'application/vnd.ozzie.turn+json';
const WIDGET_MIME = 'application/vnd.jupyter.widget-view+json';
const FINAL_WORDS: ReadonlySet<unknown> = new Set(['Done', 'Failed', 'Stopped']);
/** What stands in a saved notebook while a turn runs, with the task where it was known. */
const UNFINISHED = /^This turn was still running when the notebook was saved\.(?:.*\(task (\w+)\))?/s;

/** The turn that a cell shows: its task (empty where the output does not say), and whether it is its end. */
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
 * What there is to do in a cell whose newest task, or the one that it shows, is `row`: nothing, show how it goes on, or
 * put its end there. `savedAt` is when the notebook's file was written, in milliseconds: an end before that was seen,
 * and an output that is not there any more was taken away by somebody.
 */
export function toDo(shown: IShownTurn | null, row: TaskRow, savedAt: number): 'nothing' | 'follow' | 'finish' {
  const isShown = shown !== null && (shown.taskId === row.taskId || shown.taskId === '');
  if (isOpen(row)) {
    return 'follow';
  }
  if (isShown) {
    return shown.isFinal ? 'nothing' : 'finish';
  }
  return row.finishedAt !== null && row.finishedAt > savedAt ? 'finish' : 'nothing';
}

/** Of the tasks of a notebook, the newest first, the one to look at for a cell that shows this. */
export function taskOf(cellId: string, shown: IShownTurn | null, newestFirst: readonly TaskRow[]): TaskRow | undefined {
  const own = newestFirst.filter(row => row.cellId === cellId);
  return own.find(row => isOpen(row)) ?? own[0] ?? newestFirst.find(row => row.taskId === shown?.taskId);
}

/** The cell's outputs at the end of the turn: what was said before it stays, the turn is there once, and nothing else. */
export function finished(outputs: readonly IOutput[], told: TaskOutput): IOutput[] {
  const end: IDisplayData = {
    output_type: 'display_data',
    data: told.data as IMimeBundle,
    metadata: told.metadata as IDisplayData['metadata']
  };
  const graph: IDisplayData = { output_type: 'display_data', data: told.graph as IMimeBundle, metadata: {} };
  return [...staying(outputs, told.task_id), end, ...(Object.keys(told.graph).length > 0 ? [graph] : [])];
}

/** What was said before the turn, such as what running the cell again repeats; outputs of an earlier run do not stay. */
export function staying(outputs: readonly IOutput[], taskId: string): readonly IOutput[] {
  const shown = shownTurn(outputs);
  const isOwn = shown !== null && (shown.taskId === taskId || shown.taskId === '');
  return isOwn ? outputs.slice(0, firstTurn(outputs)) : [];
}

/** Whether the cell shows this end, and shows it once. */
export function isFinished(outputs: readonly IOutput[], taskId: string): boolean {
  const shown = shownTurn(outputs);
  const others = outputs.slice(firstTurn(outputs) + 1);
  return shown !== null && shown.isFinal && shown.taskId === taskId && others.every(isGraph);
}

/** The picture of a run of a skill, which stands below its turn. */
function isGraph(output: IOutput): boolean {
  const data = output.data as IMimeBundle | undefined;
  return data !== undefined && 'image/svg+xml' in data && !(TURN_MIME in data);
}

/** The session that the outputs say their turn belongs to; empty where they say none. */
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

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
