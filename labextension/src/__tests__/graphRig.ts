/** Graphs for tests: a plan, two steps beside each other, and a merge, as the gateway lays them out. */

import type { GraphEdge, GraphNode, GraphStep, StepDetail, TaskGraph } from '../api/protocol.gen';
import { AT } from './rig';

export const RUN = '01M800000000000000000000AA';

export function aStep(step_id: string, given: Partial<GraphStep> = {}): GraphStep {
  return {
    step_id,
    title: step_id,
    state: 'Waiting',
    needs: [],
    skill: '',
    model: '',
    started_at: null,
    finished_at: null,
    cost: 0,
    note: '',
    attempt: 0,
    attempts: 1,
    visits: 0,
    problem: '',
    task_id: '',
    ...given
  };
}

export function aNode(told: GraphStep, x: number, y: number, layer: number, given: Partial<GraphNode> = {}): GraphNode {
  return {
    node_id: told.step_id,
    step_ids: [told.step_id],
    x,
    y,
    w: 164,
    h: 44,
    layer,
    dots: [],
    told,
    after: '',
    ...given
  };
}

export function anEdge(source: string, to: string, given: Partial<GraphEdge> = {}): GraphEdge {
  return { source, to, path: 'M0 0L9 0', is_back: false, label: '', label_x: 0, label_y: 0, ...given };
}

/** plan → read, search → merge. */
export function aGraph(
  states: Partial<Record<string, Partial<GraphStep>>> = {},
  given: Partial<TaskGraph> = {}
): TaskGraph {
  const steps = ['plan', 'read', 'search', 'merge'].map(id => aStep(id, states[id]));
  const at = [
    [6, 44, 0],
    [220, 10, 1],
    [220, 78, 1],
    [434, 44, 2]
  ] as const;
  return {
    task_id: RUN,
    status: 'RUNNING',
    version: '1',
    name: 'review',
    kind: 'dag',
    state: 'Working',
    current: '',
    settled: steps.filter(step => step.finished_at !== null).length,
    running: 0,
    failed: steps.filter(step => step.state === 'Failed').length,
    asking: 0,
    steps,
    layout: {
      form: 'full',
      width: 608,
      height: 132,
      nodes: steps.map((step, index) => aNode(step, at[index]![0], at[index]![1], at[index]![2])),
      edges: [
        anEdge('plan', 'read'),
        anEdge('plan', 'search'),
        anEdge('read', 'merge'),
        anEdge('search', 'merge'),
        anEdge('merge', 'plan', { is_back: true })
      ]
    },
    ...given
  };
}

/** So many steps as dots, ten in a row. */
export function dotGraph(count: number, states: Partial<Record<string, Partial<GraphStep>>> = {}): TaskGraph {
  const steps = Array.from({ length: count }, (_, at) => aStep(`s${at}`, states[`s${at}`]));
  const dots = steps.map(({ step_id }, at) => ({ step_id, x: 20 + 13 * (at % 10), y: 50 + 13 * Math.floor(at / 10) }));
  const box = aNode(aStep('s0', { title: 'layer 1' }), 6, 10, 0, { step_ids: steps.map(step => step.step_id), dots });
  return aGraph({}, { steps, layout: { form: 'dots', width: 300, height: 200, nodes: [box], edges: [] } });
}

export function aDetail(step_id: string, given: Partial<StepDetail> = {}): StepDetail {
  return {
    step_id,
    title: step_id,
    kind: 'agent',
    instruction: `Do ${step_id}.`,
    acceptance: '',
    accepted: '',
    input: null,
    result: '',
    is_cut: false,
    attempts: [],
    calls: [],
    call: null,
    ...given
  };
}

export const RUNS: Partial<GraphStep> = { state: 'Working', started_at: AT };
export const ENDED: Partial<GraphStep> = { state: 'Done', started_at: AT, finished_at: AT };
