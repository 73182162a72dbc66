/** What is said of a step, in words. */

import type { GraphStep, TaskGraph } from '../api/protocol.gen';
import { isAsking, type StepState } from './graphPick';
import { visibleLabel } from './visible';
import { duration, elapsed, type ITranslate, money } from './wording';

export function stepWord(state: StepState, trans: ITranslate): string {
  switch (state) {
    case 'Waiting':
      return trans.__('Waiting');
    case 'Working':
      return trans.__('Working');
    case 'Waiting for you':
      return trans.__('Waiting for you');
    case 'Waiting for your answer':
      return trans.__('Waiting for your answer');
    case 'Needs a decision':
      return trans.__('Needs a decision');
    case 'Done':
      return trans.__('Done');
    case 'Failed':
      return trans.__('Failed');
    case 'Skipped':
      return trans.__('Skipped');
    case 'Stopped':
      return trans.__('Stopped');
    case 'Paused':
      return trans.__('Paused');
  }
}

/** For how long it runs or ran; empty where nothing was measured. */
export function stepTime(step: GraphStep, now: number, trans: ITranslate): string {
  if (step.started_at === null) {
    return '';
  }
  const from = Date.parse(step.started_at);
  if (step.finished_at !== null) {
    return duration(Date.parse(step.finished_at) - from, trans);
  }
  return step.state === 'Working' || isAsking(step) ? elapsed(now - from, trans) : '';
}

/** What a cost says where it says anything: an unknown one never reads as nothing. */
export function stepCost(step: GraphStep, trans: ITranslate): string {
  return step.cost === null ? trans.__('cost unknown') : step.cost ? money(step.cost) : '';
}

/** The second line of a node, the most important first: what has no room is left out from the end. */
export function secondLine(step: GraphStep, after: string, now: number, trans: ITranslate): readonly string[] {
  switch (step.state) {
    case 'Waiting':
      return [visibleLabel(after) || trans.__('Waiting')];
    case 'Failed':
      return [visibleLabel(step.problem) || step.note || stepWord(step.state, trans)];
    case 'Paused':
      return [step.note || stepWord(step.state, trans), stepTime(step, now, trans)].filter(Boolean);
    case 'Working':
    case 'Done': {
      const parts = [stepTime(step, now, trans), step.note, visibleLabel(step.model), stepCost(step, trans)];
      return parts.some(Boolean) ? parts.filter(Boolean) : [stepWord(step.state, trans)];
    }
    default:
      return [stepWord(step.state, trans)];
  }
}

/** The title of a step, of a stack with how many it has, of a state with how often it was come to. */
export function nameOf(step: GraphStep, many: number): string {
  return many > 1 ? `${visibleLabel(step.title)} × ${many}` : visibleLabel(step.title);
}

/** All of it in one sentence, for a tooltip and for who does not see the picture. */
export function spoken(step: GraphStep, many: number, after: string, now: number, trans: ITranslate): string {
  const [first, ...others] = secondLine(step, after, now, trans);
  const word = stepWord(step.state, trans);
  return [nameOf(step, many), word, ...(first === word ? others : [first, ...others])].filter(Boolean).join(', ');
}

/** "6 of 9". */
export function counts(graph: TaskGraph, trans: ITranslate): string {
  return trans.__('%1 of %2', graph.settled.toLocaleString(), graph.steps.length.toLocaleString());
}

/** The same of one box. */
export function settledOf(graph: TaskGraph, stepIds: readonly string[], trans: ITranslate): string {
  const ids = new Set(stepIds);
  const settled = graph.steps.filter(step => ids.has(step.step_id) && isSettled(step)).length;
  return trans.__('%1 of %2', settled, stepIds.length);
}

export const isSettled = ({ state }: Pick<GraphStep, 'state'>): boolean =>
  state === 'Done' || state === 'Failed' || state === 'Skipped' || state === 'Stopped';

/** What of the whole is told in the line above it. */
export function summary(graph: TaskGraph, trans: ITranslate): string {
  return [
    graph.running ? trans.__('%1 running', graph.running) : '',
    graph.failed ? trans.__('%1 failed', graph.failed) : ''
  ]
    .filter(Boolean)
    .join(' · ');
}

/** What is to be seen to, in a row of its own. */
export function trouble(step: GraphStep, trans: ITranslate): string {
  const tries = step.attempt > 1 ? trans.__('%1 of %2 attempts', step.attempt, step.attempts) : '';
  const why = step.state === 'Failed' ? visibleLabel(step.problem).replace(/\.$/, '') : stepWord(step.state, trans);
  return [why, tries].filter(Boolean).join('; ');
}
