/** Which tasks are shown, and in which order (UX §6); pure. */

import { isOpen, needsPerson, type TaskRow } from './fold';

/** What needs a person first, then what runs, what is paused, and the newest. */
export function ordered(rows: Iterable<TaskRow>): TaskRow[] {
  return [...rows].sort((a, b) => rank(a) - rank(b) || (a.taskId < b.taskId ? 1 : -1));
}

function rank(row: TaskRow): number {
  if (needsPerson(row)) {
    return 0;
  }
  if (row.status === 'PAUSED') {
    return 2;
  }
  return isOpen(row) ? 1 : 3;
}

const STATES: Readonly<Record<string, (row: TaskRow) => boolean>> = {
  open: isOpen,
  running: row => row.status === 'RUNNING',
  queued: row => row.status === 'QUEUED' || row.status === 'CREATED',
  waiting: needsPerson,
  paused: row => row.status === 'PAUSED',
  done: row => row.status === 'SUCCEEDED',
  failed: row => row.status === 'FAILED',
  stopped: row => row.status === 'CANCELLED'
};

/** What the filter box may be offered. */
export const FILTERS: readonly string[] = [...Object.keys(STATES).map(name => `is:${name}`), 'today', 'cost>0.10'];

/** Whether a row fits what was typed: words of its title, `is:failed`, `today`, `cost>0.10`, `model:main`. */
export function matcher(typed: string, now: number): (row: TaskRow) => boolean {
  const tests = typed
    .toLowerCase()
    .split(/\s+/)
    .filter(Boolean)
    .map(word => test(word, now));
  return row => tests.every(fits => fits(row));
}

function test(word: string, now: number): (row: TaskRow) => boolean {
  const state = word.startsWith('is:') && STATES[word.slice(3)];
  if (state) {
    return state;
  }
  if (word === 'today') {
    const today = new Date(now).toDateString();
    return row => new Date(row.createdAt).toDateString() === today;
  }
  const cost = /^cost>(\d+(?:\.\d+)?)$/.exec(word);
  if (cost) {
    return row => row.cost !== null && row.cost > Number(cost[1]) * 1e9;
  }
  if (word.startsWith('model:')) {
    return row => row.model.toLowerCase().includes(word.slice(6));
  }
  return row => row.title.toLowerCase().includes(word);
}
