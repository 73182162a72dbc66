/** Words for tasks. */

import type { Step } from '../api/protocol.gen';
import type { TaskBoard } from './board';
import { awaitsSignal, shownState, stepOf, type TaskRow, type TaskState, waits } from './fold';
import { type IMistake, STATE_FILTERS } from './order';
import { visibleLabel } from './visible';

/** The part of Lab's translator that is needed here. */
export interface ITranslate {
  __(text: string, ...values: unknown[]): string;
  _n(one: string, many: string, count: number, ...values: unknown[]): string;
}

export function stateWord(status: TaskState, trans: ITranslate): string {
  switch (status) {
    case 'CREATED':
    case 'QUEUED':
      return trans.__('Queued');
    case 'RUNNING':
      return trans.__('Working');
    case 'WAITING_APPROVAL':
      return trans.__('Waiting for you');
    case 'WAITING_INPUT':
      return trans.__('Waiting for your answer');
    case 'PAUSED':
      return trans.__('Paused');
    case 'SUCCEEDED':
      return trans.__('Done');
    case 'FAILED':
      return trans.__('Failed');
    case 'CANCELLED':
      return trans.__('Stopped');
  }
}

/** Return the word for a row: the state of a step of it that waits for a person, or its own. */
export const shownWord = (row: Pick<TaskRow, 'status' | 'mode' | 'waiting'>, trans: ITranslate): string =>
  awaitsSignal(row) ? trans.__('Waiting') : stateWord(shownState(row), trans);

/** Name a delegated task: "step “publish”" of a run; "“scout”" for a skill of one agent. */
export function partName(row: Pick<TaskRow, 'title'>, trans: ITranslate): string {
  const { skill, step } = stepOf(row);
  const name = `“${visibleLabel(step)}”`;
  return skill ? trans.__('step %1', name) : name;
}

/**
 * The second line of a row: the state, the activity or why it ended, and how long or since when. `approvals`: the number of
 * approvals it waits for.
 */
export function progressLine(row: TaskRow, now: number, trans: ITranslate, approvals = 0): string {
  const what = approvals ? trans._n('%1 approval', '%1 approvals', approvals, approvals) : detail(row, trans);
  return [shownWord(row, trans), what, age(row, now, trans)].filter(Boolean).join(' · ');
}

function detail(row: TaskRow, trans: ITranslate): string {
  const [first, ...others] = row.status === 'RUNNING' || waits(row) ? row.waiting : [];
  if (first) {
    const more = others.length;
    return more ? trans.__('%1 steps', more + 1) : partName(first, trans);
  }
  switch (row.status) {
    case 'QUEUED':
    case 'CREATED':
      return row.ahead ? trans._n('behind %1 task', 'behind %1 tasks', row.ahead, row.ahead) : '';
    case 'RUNNING': {
      if (row.isStopping) {
        return trans.__('stopping');
      }
      if (row.isPausing) {
        return trans.__('pausing');
      }
      const call = row.calls.at(-1);
      return call?.name ?? row.step;
    }
    case 'SUCCEEDED':
      return '';
    default:
      return row.isUncertain ? trans.__('outcome unknown') : firstClause(row.reason);
  }
}

/** Say who paused it, or that it will pause; else empty. */
export function pauseText(
  row: Pick<TaskRow, 'status' | 'reason' | 'isPausing' | 'waiting'>,
  trans: ITranslate
): string {
  if (row.status !== 'PAUSED') {
    return row.isPausing ? trans.__('pausing') : '';
  }
  // If a step waits for a person, that word comes first.
  const by = firstClause(row.reason);
  return row.waiting.length > 0 ? trans.__('paused %1', by).trim() : by;
}

/** Return the part of a sentence that fits into a narrow line. */
function firstClause(sentence: string): string {
  return sentence.split(/[.:;](?:\s|$)/, 1)[0] ?? '';
}

/** Return how a step went; empty if there is nothing to say. */
export function stepText({ status, summary, error, purpose }: Step, trans: ITranslate): string {
  if (error) {
    return error.message;
  }
  switch (status) {
    case 'requested':
      return trans.__('asked');
    case 'running':
      return trans.__('running');
    case 'failed':
      return trans.__('failed');
    case 'denied':
      return trans.__('not allowed');
    case 'cancelled':
      return trans.__('cancelled');
    case 'uncertain':
      return trans.__('outcome unknown');
    case 'rejected':
      return trans.__('did not fit');
    case 'completed':
      return purpose === 'check' ? trans.__('checked a call') : summary;
  }
}

/** How long it has run, or since when it has its state. */
export function age(row: TaskRow, now: number, trans: ITranslate): string {
  if (row.finishedAt !== null) {
    return ago(now - row.finishedAt, trans);
  }
  return row.status === 'RUNNING' ? elapsed(now - row.createdAt, trans) : ago(now - row.createdAt, trans);
}

/** Return a step's duration: "0.4 s", "18.0 s", then like `elapsed`. */
export function duration(milliseconds: number, trans: ITranslate): string {
  return milliseconds < 59_950
    ? trans.__('%1 s', (Math.max(milliseconds, 0) / 1000).toFixed(1))
    : elapsed(milliseconds + 50, trans);
}

/** "18 s", "4 min 12 s", "2 h 5 min". */
export function elapsed(milliseconds: number, trans: ITranslate): string {
  const seconds = Math.max(Math.floor(milliseconds / 1000), 0);
  if (seconds < 60) {
    return trans.__('%1 s', seconds);
  }
  if (seconds < 3600) {
    return trans.__('%1 min %2 s', Math.floor(seconds / 60), seconds % 60);
  }
  return trans.__('%1 h %2 min', Math.floor(seconds / 3600), Math.floor((seconds % 3600) / 60));
}

/** "just now", "8 min ago", "3 h ago", "5 days ago". */
export function ago(milliseconds: number, trans: ITranslate): string {
  const minutes = Math.floor(milliseconds / 60_000);
  if (minutes < 1) {
    return trans.__('just now');
  }
  if (minutes < 60) {
    return trans.__('%1 min ago', minutes);
  }
  if (minutes < 24 * 60) {
    return trans.__('%1 h ago', Math.floor(minutes / 60));
  }
  const days = Math.floor(minutes / (24 * 60));
  return trans._n('%1 day ago', '%1 days ago', days, days);
}

/** Three decimals below a dollar, else two. Empty for an unknown cost, which must not look like 0. */
export function money(cost: number | null): string {
  if (cost === null) {
    return '';
  }
  const dollars = cost / 1e9;
  return `$${dollars.toFixed(dollars !== 0 && dollars < 1 ? 3 : 2)}`;
}

/** "2 running · 1 queued · 3 need you · $1.14 today"; the name alone if there is nothing to say. */
export function statusText(
  board: Pick<TaskBoard, 'state' | 'running' | 'queued' | 'needYou' | 'costToday'>,
  trans: ITranslate
): string {
  if (board.state === 'reconnecting') {
    return trans.__('Reconnecting…');
  }
  if (board.state !== 'ready') {
    return 'Ozzie';
  }
  const { running, queued, needYou, costToday } = board;
  const parts = [
    running && trans.__('%1 running', running),
    queued && trans.__('%1 queued', queued),
    needYou && trans._n('%1 needs you', '%1 need you', needYou, needYou),
    costToday && trans.__('%1 today', money(costToday))
  ];
  return parts.filter(Boolean).join(' · ') || 'Ozzie';
}

/** Explain a filter word that is a mistake. */
export function mistakeText({ kind, word }: IMistake, trans: ITranslate): string {
  switch (kind) {
    case 'state':
      return trans.__('"%1" is not a state. States: %2.', word, STATE_FILTERS.join(', '));
    case 'cost':
      return trans.__('"%1" is not a cost. Write cost>0.10 for more than 10 cents.', word);
    case 'filter':
      return trans.__('"%1" is searched for in titles. Filters are is:, model:, cost> and today.', word);
  }
}

/** "14:11:02". */
export function clockTime(time: number): string {
  const date = new Date(time);
  return [date.getHours(), date.getMinutes(), date.getSeconds()].map(part => String(part).padStart(2, '0')).join(':');
}

/** "14:11". */
export function clockMinute(time: number): string {
  return clockTime(time).slice(0, -3);
}
