/** Words for the steps of a graph. */

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

/** How long the step has run or ran; empty if unknown. */
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

/** Return the cost, or an empty string for 0; an unknown cost must not look like 0. */
export function stepCost(step: GraphStep, trans: ITranslate): string {
  return step.cost === null ? trans.__('cost unknown') : step.cost ? money(step.cost) : '';
}

/** The second line of a node, the most important part first: parts without room are dropped from the end. */
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

/** Return the title, with the number of steps in a stack or of visits to a state. */
export function nameOf(step: GraphStep, many: number): string {
  return many > 1 ? `${visibleLabel(step.title)} × ${many}` : visibleLabel(step.title);
}

/** Return a whole node as one sentence, for a tooltip and screen readers. */
export function nodeLabel(step: GraphStep, many: number, after: string, now: number, trans: ITranslate): string {
  const [first, ...others] = secondLine(step, after, now, trans);
  const word = stepWord(step.state, trans);
  return [nameOf(step, many), word, ...(first === word ? others : [first, ...others])].filter(Boolean).join(', ');
}

/** "6 of 9". */
export function progressText(graph: TaskGraph, trans: ITranslate): string {
  return trans.__('%1 of %2', graph.settled.toLocaleString(), graph.steps.length.toLocaleString());
}

/** Return the same for one box. */
export function settledOf(graph: TaskGraph, stepIds: readonly string[], trans: ITranslate): string {
  const ids = new Set(stepIds);
  const settled = graph.steps.filter(step => ids.has(step.step_id) && isSettled(step)).length;
  return trans.__('%1 of %2', settled, stepIds.length);
}

export const isSettled = ({ state }: Pick<GraphStep, 'state'>): boolean =>
  state === 'Done' || state === 'Failed' || state === 'Skipped' || state === 'Stopped';

/** Return the summary for the line above the graph. */
export function summary(graph: TaskGraph, trans: ITranslate): string {
  return [
    graph.running ? trans.__('%1 running', graph.running) : '',
    graph.failed ? trans.__('%1 failed', graph.failed) : ''
  ]
    .filter(Boolean)
    .join(' · ');
}

/** Return what is wrong with a step, for its row. */
export function problemText(step: GraphStep, trans: ITranslate): string {
  const tries = step.attempt > 1 ? trans.__('%1 of %2 attempts', step.attempt, step.attempts) : '';
  const why = step.state === 'Failed' ? visibleLabel(step.problem).replace(/\.$/, '') : stepWord(step.state, trans);
  return [why, tries].filter(Boolean).join('; ');
}
