/** Which runs of skills are shown by themselves, of all tasks that delegate to each other; pure (docs/adr/0040). */

import { isOpen, type TaskRow } from './fold';

type Known = ReadonlyMap<string, TaskRow>;

/** The mode of a task that is a run of a skill. */
const RUNS = 'GRAPH';

export const isRun = ({ mode }: Pick<TaskRow, 'mode'>): boolean => mode === RUNS;

/** A run that is part of no other one. `turn` is the task whose cell it is in: itself where nobody delegated it. */
export interface IOwnRun {
  readonly row: TaskRow;
  readonly turn: TaskRow;
}

/** Whether a turn handed over to it, so that it is not what its cell says. */
export const isHandedOver = ({ row, turn }: IOwnRun): boolean => row.taskId !== turn.taskId;

/** The tasks that one was delegated by, the nearest first; above those that are known, what REST has told. */
export function above(row: TaskRow, known: Known): readonly string[] {
  const ids: string[] = [];
  for (let at = row; at.parentId;) {
    ids.push(at.parentId);
    const parent = known.get(at.parentId);
    if (!parent) {
      return at.runId && at.runId !== at.parentId ? [...ids, at.runId] : ids;
    }
    at = parent;
  }
  return ids;
}

/** Undefined for what is no run, is part of another one, or came from nobody knows where. */
export function ownRun(row: TaskRow, known: Known): IOwnRun | undefined {
  if (!isRun(row)) {
    return undefined;
  }
  const chain = above(row, known).map(taskId => known.get(taskId));
  const isOwn = chain.every(each => each !== undefined && each.mode !== RUNS);
  return isOwn ? { row, turn: chain.at(-1) ?? row } : undefined;
}

/**
 * The task where it is shown, in a cell, what one asks that was delegated: the run that is drawn there, or, where an agent
 * alone was asked to do it, the turn.
 */
export function shownIn(row: TaskRow, known: Known): string {
  const chain = above(row, known);
  const run = [...chain].reverse().find(taskId => known.get(taskId)?.mode === RUNS);
  return run ?? chain.at(-1) ?? row.taskId;
}

/** Those that go on, the oldest first. Ids do not tell that: the time in them is that of who delegated. */
export function openRuns(known: Known): readonly IOwnRun[] {
  const runs = [...known.values()].filter(isOpen).flatMap(row => ownRun(row, known) ?? []);
  return runs.sort((a, b) => a.row.createdAt - b.row.createdAt || (a.row.taskId < b.row.taskId ? -1 : 1));
}

/** Whose figures change with those of a task: whatever of it, and of what is above it, is shown by itself. */
export function countedFor(row: TaskRow, known: Known): readonly TaskRow[] {
  const chain = [row, ...above(row, known).flatMap(taskId => known.get(taskId) ?? [])];
  return chain.filter(each => !each.parentId || ownRun(each, known) !== undefined);
}
