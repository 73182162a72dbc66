/** The graph in the gateway's layout: edges as an SVG, nodes as buttons on it. */

import * as React from 'react';

import type { GraphEdge, TaskGraph } from '../../api/protocol.gen';
import { pickByKey } from '../../model/graphKeys';
import { hasDots, type IPick, isAsking } from '../../model/graphPick';
import { progressText, stepWord } from '../../model/graphWording';
import { visibleLabel } from '../../model/visible';
import type { ITranslate } from '../../model/wording';
import { Box, Node, pickAt, pickKey, stateClass } from './nodes';

export interface IPictureProps {
  readonly graph: TaskGraph;
  readonly pick: IPick;
  /** Available px; a wider picture is scaled down, never scrolled sideways. */
  readonly width: number;
  readonly now: number;
  readonly trans: ITranslate;
  readonly onPick: (pick: IPick) => void;
  /** Show the picked step. */
  readonly onOpen: () => void;
}

export function Picture(props: IPictureProps): React.JSX.Element {
  const { graph, pick, width, trans, onPick, onOpen } = props;
  const outer = React.useRef<HTMLDivElement>(null);
  const { layout } = graph;
  const scale = width > 0 ? Math.min(1, width / layout.width) : 1;

  const onKey = (event: React.KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey) {
      return;
    }
    // The pick may follow the run: keys start from the focus.
    const here = pickAt(event.target as HTMLElement) ?? pick;
    const to = pickByKey(graph, here, event.key);
    if (to) {
      event.preventDefault();
      event.stopPropagation();
      onPick(to);
      focusPick(outer.current, to);
    } else if (event.key === 'Enter') {
      event.preventDefault();
      onPick(here);
      onOpen();
    } else if (event.key.startsWith('Arrow')) {
      event.preventDefault(); // at the end of the graph, the notebook must not scroll
    }
  };

  const Drawn = hasDots(graph) ? Box : Node;
  return (
    <div
      className="jp-Ozzie-picture"
      role="application"
      aria-label={trans.__(
        'Graph of %1: %2, %3. Arrow keys move, Enter opens, F next failed, W next waiting.',
        visibleLabel(graph.name),
        progressText(graph, trans),
        stepWord(graph.state, trans)
      )}
      style={{ height: layout.height * scale }}
      ref={outer}
      onKeyDown={onKey}
    >
      <div
        className="jp-Ozzie-canvas"
        style={{ width: layout.width, height: layout.height, ...(scale < 1 && { transform: `scale(${scale})` }) }}
      >
        <Edges graph={graph} />
        {layout.nodes.map(node => (
          <Drawn key={node.node_id} {...props} node={node} />
        ))}
      </div>
    </div>
  );
}

/** Focus the pick, wherever it is drawn in `outer`. */
export function focusPick(outer: HTMLElement | null, pick: IPick): void {
  const own = [...(outer?.querySelectorAll<HTMLElement>('[data-pick]') ?? [])];
  const node = own.find(each => each.dataset.pick === pickKey(pick)) ?? own.find(each => isNode(each, pick));
  node?.focus();
}

const isNode = (element: HTMLElement, pick: IPick): boolean => element.dataset.pick?.split(' ')[0] === pick.node;

/** The edges; those to active nodes above the others. */
function Edges({ graph }: { graph: TaskGraph }): React.JSX.Element {
  const { layout } = graph;
  const states = new Map(layout.nodes.map(node => [node.node_id, node.told.state]));
  const classOf = (edge: GraphEdge): string => {
    const state = states.get(edge.to) ?? 'Waiting';
    const isLive = graph.kind === 'dag' && !hasDots(graph) && (state === 'Working' || isAsking({ state }));
    return [isLive ? stateClass(state) : '', edge.is_back ? 'jp-Ozzie-mod-back' : ''].filter(Boolean).join(' ');
  };
  const drawn = layout.edges.map(edge => ({ edge, classes: classOf(edge) }));
  drawn.sort((a, b) => Number(a.classes !== '') - Number(b.classes !== ''));
  return (
    <svg className="jp-Ozzie-edges" width={layout.width} height={layout.height} aria-hidden="true">
      {drawn.map(({ edge, classes }, at) => (
        <path key={at} className={classes} d={edge.path} />
      ))}
      {layout.edges.map(
        (edge, at) =>
          edge.label && (
            <text key={`label ${at}`} x={edge.label_x} y={edge.label_y} textAnchor="middle">
              {visibleLabel(edge.label)}
            </text>
          )
      )}
    </svg>
  );
}
