/** Where a key leads in a graph: along its lines, within a layer, to what failed or waits; pure. */

import type { GraphNode, GraphStep, TaskGraph } from '../api/protocol.gen';
import { hasDots, type IPick, isAsking, isStack, pickOf } from './graphPick';

interface IPlace {
  readonly pick: IPick;
  readonly x: number;
  readonly y: number;
}

type Way = readonly [dx: number, dy: number];

const ARROWS: Readonly<Record<string, Way>> = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, -1],
  ArrowDown: [0, 1]
};
/** So much further away is what stands aside of the way. */
const ASIDE = 3;

/** Where `key` leads from `pick`; null where it means nothing here, or leads nowhere. */
export function moved(graph: TaskGraph, pick: IPick, key: string): IPick | null {
  const way = ARROWS[key];
  if (way) {
    return hasDots(graph) ? nearest(dots(graph), pick, way) : alongOrAside(graph, pick, way);
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

/** The same in a list, where steps stand below each other. */
export function movedInList(graph: TaskGraph, pick: IPick, key: string): IPick | null {
  const at = graph.steps.findIndex(step => step.step_id === (pick.step || pick.node));
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: graph.steps.length - 1 }[key];
  if (to === undefined) {
    return key.length === 1 ? moved(graph, pick, key) : null;
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

function dots(graph: TaskGraph): readonly IPlace[] {
  return graph.layout.nodes.flatMap(node =>
    node.dots.map(dot => ({ pick: { node: node.node_id, step: dot.step_id }, x: dot.x, y: dot.y }))
  );
}

/** Along the flow to a node that a line leads to or comes from; else to the next one that lies in that direction. */
function alongOrAside(graph: TaskGraph, pick: IPick, way: Way): IPick | null {
  const { nodes } = graph.layout;
  const places = (wanted: readonly GraphNode[]): IPlace[] =>
    wanted.map(node => ({ pick: pickOfNode(node), x: node.x + node.w / 2, y: node.y + node.h / 2 }));
  const here = nodes.filter(node => node.node_id === pick.node);
  const along = isAcross(graph) === (way[0] !== 0) ? linked(graph, pick.node) : [];
  return nearest(places([...here, ...along]), pick, way) ?? nearest(places(nodes), pick, way);
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

/** Whether it flows from left to right, rather than from top to bottom. */
function isAcross({ layout: { nodes, edges } }: TaskGraph): boolean {
  const edge = edges.find(each => !each.is_back);
  const source = nodes.find(node => node.node_id === edge?.source);
  const to = nodes.find(node => node.node_id === edge?.to);
  return source === undefined || to === undefined || to.x >= source.x + source.w;
}

function nearest(places: readonly IPlace[], pick: IPick, [dx, dy]: Way): IPick | null {
  const isHere = (place: IPlace): boolean =>
    place.pick.node === pick.node && (place.pick.step === pick.step || !pick.step || !place.pick.step);
  const from = places.find(isHere);
  if (!from) {
    return places[0]?.pick ?? null;
  }
  const far = (place: IPlace): number => {
    const [ahead, aside] = [
      (place.x - from.x) * dx + (place.y - from.y) * dy,
      Math.abs(place.x - from.x) * Math.abs(dy) + Math.abs(place.y - from.y) * Math.abs(dx)
    ];
    return ahead > 0.5 ? ahead + ASIDE * aside : Infinity;
  };
  let best: IPlace | null = null;
  for (const place of places) {
    if (far(place) < (best ? far(best) : Infinity)) {
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
