/** The order of the tasks, and their filter; pure. */

import { awaitsSignal, isOpen, isQueued, type TaskRow, waits } from './fold';

/** Sort: those that need a person, then those that run or await a signal, queued, paused, and the newest of the rest. */
export function ordered(rows: Iterable<TaskRow>): TaskRow[] {
  return [...rows].sort((a, b) => rank(a) - rank(b) || (a.taskId < b.taskId ? 1 : -1));
}

function rank(row: TaskRow): number {
  if (awaitsSignal(row)) {
    return 1;
  }
  if (waits(row)) {
    return 0;
  }
  switch (row.status) {
    case 'RUNNING':
      return 1;
    case 'CREATED':
    case 'QUEUED':
      return 2;
    case 'PAUSED':
      return 3;
    default:
      return 4;
  }
}

const STATES: Readonly<Record<string, (row: TaskRow) => boolean>> = {
  open: isOpen,
  running: row => row.status === 'RUNNING',
  queued: isQueued,
  waiting: waits,
  paused: row => row.status === 'PAUSED',
  done: row => row.status === 'SUCCEEDED',
  failed: row => row.status === 'FAILED',
  stopped: row => row.status === 'CANCELLED'
};

/** Suggestions for the filter box. */
export const STATE_FILTERS: readonly string[] = Object.keys(STATES).map(name => `is:${name}`);
export const FILTERS: readonly string[] = [...STATE_FILTERS, 'today', 'cost>0.10'];

/** A filter word that is not what it seems: an unknown state, cost or kind of filter. */
export interface IMistake {
  readonly kind: 'state' | 'cost' | 'filter';
  readonly word: string;
}

export interface IFilter {
  readonly fits: (row: TaskRow) => boolean;
  readonly mistakes: readonly IMistake[];
}

/**
 * Parse a filter: words of a title, `is:failed`, `today`, `cost>0.10`, `model:main`. An incomplete one matches as far
 * as it goes: `is:f` any state that begins so, `cost>` any cost.
 */
export function readFilter(typed: string, now: number): IFilter {
  const words = typed.toLowerCase().split(/\s+/).filter(Boolean);
  const tests = words.map(word => test(word, now));
  return {
    fits: row => tests.every(fits => fits(row)),
    mistakes: words.map(mistake).filter(found => found !== null)
  };
}

/** Looks like a filter, but a title may contain it, so titles are searched for it. */
const LOOKS_LIKE_ONE = /^[a-z]+:(?!\/)/;
const COST = /^cost>(\d*\.?\d*)$/;

function mistake(word: string): IMistake | null {
  if (word.startsWith('is:')) {
    return states(word).length > 0 ? null : { kind: 'state', word };
  }
  if (/^cost[<>=:]/.test(word)) {
    return COST.test(word) ? null : { kind: 'cost', word };
  }
  return LOOKS_LIKE_ONE.test(word) && !word.startsWith('model:') ? { kind: 'filter', word } : null;
}

function states(word: string): ((row: TaskRow) => boolean)[] {
  const typed = word.slice('is:'.length);
  const whole = STATES[typed];
  return whole
    ? [whole]
    : Object.entries(STATES)
        .filter(([name]) => name.startsWith(typed))
        .map(([, fits]) => fits);
}

function test(word: string, now: number): (row: TaskRow) => boolean {
  if (word.startsWith('is:')) {
    const fitting = states(word);
    return row => fitting.some(fits => fits(row));
  }
  if (word === 'today') {
    const today = new Date(now).toDateString();
    return row => new Date(row.createdAt).toDateString() === today;
  }
  const cost = COST.exec(word);
  if (cost) {
    const dollars = parseFloat(cost[1] ?? '');
    return row => Number.isNaN(dollars) || (row.cost !== null && row.cost > dollars * 1e9);
  }
  if (word.startsWith('model:')) {
    return row => row.model.toLowerCase().includes(word.slice('model:'.length));
  }
  return row => row.title.toLowerCase().includes(word);
}
