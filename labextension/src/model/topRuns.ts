/** Selects the runs of skills shown by themselves, among tasks that delegate to each other; pure (docs/adr/0040). */

import { isOpen, type TaskRow } from './fold';

type Known = ReadonlyMap<string, TaskRow>;

/** The mode of a task that is a run of a skill. */
const RUNS = 'GRAPH';

export const isRun = ({ mode }: Pick<TaskRow, 'mode'>): boolean => mode === RUNS;

/** A run outside other runs. `turn` is the task in whose cell it is: the run itself if nobody delegated it. */
export interface ITopRun {
  readonly row: TaskRow;
  readonly turn: TaskRow;
}

/** Whether a turn delegated to it, so that its cell says something else. */
export const isDelegated = ({ row, turn }: ITopRun): boolean => row.taskId !== turn.taskId;

/** Return the ids of the tasks above, the nearest first; beyond known tasks, the top one from REST. */
export function ancestors(row: TaskRow, known: Known): readonly string[] {
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

/** Return undefined if it is no run, is part of another one, or its origin is unknown. */
export function topRun(row: TaskRow, known: Known): ITopRun | undefined {
  if (!isRun(row)) {
    return undefined;
  }
  const chain = ancestors(row, known).map(taskId => known.get(taskId));
  const isOwn = chain.every(each => each !== undefined && each.mode !== RUNS);
  return isOwn ? { row, turn: chain.at(-1) ?? row } : undefined;
}

/**
 * Return the task whose place in a cell shows a delegated task's prompts: the drawn run, or the turn that delegated to
 * a single agent.
 */
export function shownIn(row: TaskRow, known: Known): string {
  const chain = ancestors(row, known);
  const run = [...chain].reverse().find(taskId => known.get(taskId)?.mode === RUNS);
  return run ?? chain.at(-1) ?? row.taskId;
}

/** Return the open runs, the oldest first. Ids don't give that order: they have the delegating task's time. */
export function openRuns(known: Known): readonly ITopRun[] {
  const runs = [...known.values()].filter(isOpen).flatMap(row => topRun(row, known) ?? []);
  return runs.sort((a, b) => a.row.createdAt - b.row.createdAt || (a.row.taskId < b.row.taskId ? -1 : 1));
}

/** Return the rows whose totals include the task's: it and those above it, if shown by themselves. */
export function totalsWith(row: TaskRow, known: Known): readonly TaskRow[] {
  const chain = [row, ...ancestors(row, known).flatMap(taskId => known.get(taskId) ?? [])];
  return chain.filter(each => !each.parentId || topRun(each, known) !== undefined);
}
