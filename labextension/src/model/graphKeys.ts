/** Keyboard navigation in a graph: along its edges, within a layer, to failed or waiting steps; pure. */

import type { GraphNode, GraphStep, TaskGraph } from '../api/protocol.gen';
import { hasDots, type IPick, isAsking, isStack, pickOf } from './graphPick';

interface ITarget {
  readonly pick: IPick;
  readonly x: number;
  readonly y: number;
}

type Direction = readonly [dx: number, dy: number];

const ARROWS: Readonly<Record<string, Direction>> = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, -1],
  ArrowDown: [0, 1]
};
/** How much more a distance sideways counts than one ahead. */
const ASIDE = 3;

/** Return where `key` leads from `pick`; null if nowhere. */
export function pickByKey(graph: TaskGraph, pick: IPick, key: string): IPick | null {
  const direction = ARROWS[key];
  if (direction) {
    return hasDots(graph) ? nearest(dots(graph), pick, direction) : alongOrAside(graph, pick, direction);
  }
  switch (key) {
    case 'Home':
      return ends(graph)[0] ?? null;
    case 'End':
      return ends(graph).at(-1) ?? null;
    case 'f':
    case 'F':
      return nextStep(graph, pick, step => step.state === 'Failed');
    case 'w':
    case 'W':
      return nextStep(graph, pick, isAsking);
    default:
      return null;
  }
}

/** The same for a list, with steps below each other. */
export function pickByKeyInList(graph: TaskGraph, pick: IPick, key: string): IPick | null {
  const at = graph.steps.findIndex(step => step.step_id === (pick.step || pick.node));
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: graph.steps.length - 1 }[key];
  if (to === undefined) {
    return key.length === 1 ? pickByKey(graph, pick, key) : null;
  }
  const step = graph.steps[to];
  return step ? pickOf(graph, step.step_id) : null;
}

function ends(graph: TaskGraph): readonly IPick[] {
  const { nodes } = graph.layout;
  return hasDots(graph)
    ? dots(graph).map(place => place.pick)
    : [...nodes].sort((a, b) => a.layer - b.layer || a.y - b.y || a.x - b.x).map(pickOfNode);
}

function pickOfNode(node: GraphNode): IPick {
  return { node: node.node_id, step: isStack(node) ? '' : (node.step_ids[0] ?? '') };
}

function dots(graph: TaskGraph): readonly ITarget[] {
  return graph.layout.nodes.flatMap(node =>
    node.dots.map(dot => ({ pick: { node: node.node_id, step: dot.step_id }, x: dot.x, y: dot.y }))
  );
}

/** Move along an edge if the direction is that of the flow; else to the nearest node in that direction. */
function alongOrAside(graph: TaskGraph, pick: IPick, direction: Direction): IPick | null {
  const { nodes } = graph.layout;
  const places = (wanted: readonly GraphNode[]): ITarget[] =>
    wanted.map(node => ({ pick: pickOfNode(node), x: node.x + node.w / 2, y: node.y + node.h / 2 }));
  const here = nodes.filter(node => node.node_id === pick.node);
  const along = isAcross(graph) === (direction[0] !== 0) ? linked(graph, pick.node) : [];
  return nearest(places([...here, ...along]), pick, direction) ?? nearest(places(nodes), pick, direction);
}

function linked(graph: TaskGraph, nodeId: string): readonly GraphNode[] {
  const { nodes, edges } = graph.layout;
  const others = new Set(
    edges
      .filter(edge => !edge.is_back && (edge.source === nodeId || edge.to === nodeId))
      .map(edge => (edge.source === nodeId ? edge.to : edge.source))
  );
  return nodes.filter(node => others.has(node.node_id));
}

/** Whether the graph flows from left to right, not from top to bottom. */
function isAcross({ layout: { nodes, edges } }: TaskGraph): boolean {
  const edge = edges.find(each => !each.is_back);
  const source = nodes.find(node => node.node_id === edge?.source);
  const to = nodes.find(node => node.node_id === edge?.to);
  return source === undefined || to === undefined || to.x >= source.x + source.w;
}

function nearest(places: readonly ITarget[], pick: IPick, [dx, dy]: Direction): IPick | null {
  const isHere = (place: ITarget): boolean =>
    place.pick.node === pick.node && (place.pick.step === pick.step || !pick.step || !place.pick.step);
  const from = places.find(isHere);
  if (!from) {
    return places[0]?.pick ?? null;
  }
  const distance = (place: ITarget): number => {
    const [ahead, aside] = [
      (place.x - from.x) * dx + (place.y - from.y) * dy,
      Math.abs(place.x - from.x) * Math.abs(dy) + Math.abs(place.y - from.y) * Math.abs(dx)
    ];
    return ahead > 0.5 ? ahead + ASIDE * aside : Infinity;
  };
  let best: ITarget | null = null;
  for (const place of places) {
    if (distance(place) < (best ? distance(best) : Infinity)) {
      best = place;
    }
  }
  return best?.pick ?? null;
}

function nextStep(graph: TaskGraph, pick: IPick, isWanted: (step: GraphStep) => boolean): IPick | null {
  const at = graph.steps.findIndex(step => step.step_id === (pick.step || pick.node));
  const after = [...graph.steps.slice(at + 1), ...graph.steps.slice(0, at + 1)];
  const step = after.find(isWanted);
  return step ? pickOf(graph, step.step_id) : null;
}
