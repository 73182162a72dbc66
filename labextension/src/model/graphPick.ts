/** The step of a graph that is shown in detail: the one that a person picked, else the newest that runs; pure. */

import type { GraphNode, GraphStep, TaskGraph } from '../api/protocol.gen';

/** A node and one step of it; `step` is empty if a whole stack is picked. */
export interface IPick {
  readonly node: string;
  readonly step: string;
}

export type StepState = GraphStep['state'];

const ASKING: ReadonlySet<StepState> = new Set(['Waiting for you', 'Waiting for your answer', 'Needs a decision']);

export const isAsking = ({ state }: Pick<GraphStep, 'state'>): boolean => ASKING.has(state);

/** Whether a person should look at the step. */
export const isProblem = (step: Pick<GraphStep, 'state'>): boolean => step.state === 'Failed' || isAsking(step);

export const isStack = (node: GraphNode): boolean => node.step_ids.length > 1 && node.dots.length === 0;

export const hasDots = (graph: TaskGraph): boolean => graph.layout.form === 'dots';

export function stepNamed(graph: TaskGraph, stepId: string): GraphStep | undefined {
  return graph.steps.find(step => step.step_id === stepId);
}

/** Return the pick of a step, wherever it is drawn. */
export function pickOf(graph: TaskGraph, stepId: string): IPick {
  const node = graph.layout.nodes.find(each => each.step_ids.includes(stepId));
  return { node: node?.node_id ?? stepId, step: stepId };
}

/**
 * Return the pick to show if nobody has picked: the newest running step, else one that waits, failed, or ended last.
 */
export function defaultPick(graph: TaskGraph): IPick {
  const newest = (steps: readonly GraphStep[], at: 'started_at' | 'finished_at'): GraphStep | undefined =>
    steps.reduce<GraphStep | undefined>(
      (last, step) => ((step[at] ?? '') >= (last?.[at] ?? '') ? step : last),
      undefined
    );
  const { steps } = graph;
  const step =
    newest(
      steps.filter(each => each.state === 'Working'),
      'started_at'
    ) ??
    steps.find(isAsking) ??
    steps.find(each => each.state === 'Failed') ??
    newest(
      steps.filter(each => each.finished_at !== null),
      'finished_at'
    ) ??
    steps[0];
  return pickOf(graph, step?.step_id ?? '');
}

/** Return the pick if it still exists. */
export function currentPick(graph: TaskGraph, pick: IPick | null): IPick | null {
  const node = pick && graph.layout.nodes.find(each => each.node_id === pick.node);
  if (!pick || node) {
    return pick;
  }
  // Another width may have changed the layout.
  return stepNamed(graph, pick.step || pick.node) ? pickOf(graph, pick.step || pick.node) : null;
}
