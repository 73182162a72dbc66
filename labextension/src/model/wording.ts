/** What is said of a task, in words. */

import type { Step } from '../api/protocol.gen';
import type { TaskBoard } from './board';
import { shownState, stepOf, type TaskRow, type TaskState } from './fold';
import { type IMistake, STATE_FILTERS } from './order';
import { visibleLabel } from './visible';

/** Lab's translator, as far as it is needed. */
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

/** A delegated task: "step “publish”" of a run; "“scout”" of a skill that is one agent, and has none. */
export function partName(row: Pick<TaskRow, 'title'>, trans: ITranslate): string {
  const { skill, step } = stepOf(row);
  const name = `“${visibleLabel(step)}”`;
  return skill ? trans.__('step %1', name) : name;
}

/**
 * The second line of a row: the state, what it does or why it ended, and for how long or since when. `asks`: for so many
 * approvals it waits.
 */
export function progressLine(row: TaskRow, now: number, trans: ITranslate, asks = 0): string {
  const what = asks ? trans._n('%1 approval', '%1 approvals', asks, asks) : detail(row, trans);
  return [stateWord(shownState(row), trans), what, age(row, now, trans)].filter(Boolean).join(' · ');
}

function detail(row: TaskRow, trans: ITranslate): string {
  const [first, ...others] = row.status === 'RUNNING' ? row.waiting : [];
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

/** Who holds it, or that it is about to be held; empty where it goes on. */
export function heldText(row: Pick<TaskRow, 'status' | 'reason' | 'isPausing' | 'waiting'>, trans: ITranslate): string {
  if (row.status !== 'PAUSED') {
    return row.isPausing ? trans.__('pausing') : '';
  }
  // Where a step waits for a person, that is the word in front of this.
  const by = firstClause(row.reason);
  return row.waiting.length > 0 ? trans.__('paused %1', by).trim() : by;
}

/** Of a sentence that may be long, what fits into a narrow line. */
function firstClause(sentence: string): string {
  return sentence.split(/[.:;](?:\s|$)/, 1)[0] ?? '';
}

/** How a step went, in words; empty where all is well and there is nothing to say. */
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
      return purpose === 'check' ? trans.__('looked at a call') : summary;
  }
}

/** For how long it has run, or since when it is as it is. */
export function age(row: TaskRow, now: number, trans: ITranslate): string {
  if (row.finishedAt !== null) {
    return ago(now - row.finishedAt, trans);
  }
  return row.status === 'RUNNING' ? elapsed(now - row.createdAt, trans) : ago(now - row.createdAt, trans);
}

/** How long a step takes: "0.4 s", "18.0 s", then as `elapsed`. */
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

/** Three decimals below a dollar, else two. An unknown cost never reads as nothing: it is empty. */
export function money(cost: number | null): string {
  if (cost === null) {
    return '';
  }
  const dollars = cost / 1e9;
  return `$${dollars.toFixed(dollars !== 0 && dollars < 1 ? 3 : 2)}`;
}

/** "2 running · 1 queued · 3 need you · $1.14 today"; the name alone where there is nothing to say. */
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
  const told = [
    running && trans.__('%1 running', running),
    queued && trans.__('%1 queued', queued),
    needYou && trans._n('%1 needs you', '%1 need you', needYou, needYou),
    costToday && trans.__('%1 today', money(costToday))
  ];
  return told.filter(Boolean).join(' · ') || 'Ozzie';
}

/** Why a filter finds nothing, where that is for a word of it. */
export function mistakeText({ kind, word }: IMistake, trans: ITranslate): string {
  switch (kind) {
    case 'state':
      return trans.__('"%1" is no state. There are: %2.', word, STATE_FILTERS.join(', '));
    case 'cost':
      return trans.__('"%1" is no cost. Write cost>0.10 for more than 10 cents.', word);
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
