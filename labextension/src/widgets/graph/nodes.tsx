/** The nodes of a graph as buttons: a step, a stack, or a box with a dot for each step. */

import * as React from 'react';

import type { GraphNode, GraphStep, TaskGraph } from '../../api/protocol.gen';
import { type IPick, isProblem, isStack, type StepState } from '../../model/graphPick';
import { nameOf, nodeLabel, secondLine, settledOf } from '../../model/graphWording';
import { visibleLabel } from '../../model/visible';
import type { ITranslate } from '../../model/wording';
import { StepIcon } from '../icons';

export interface INodeProps {
  readonly graph: TaskGraph;
  readonly node: GraphNode;
  readonly pick: IPick;
  readonly now: number;
  readonly trans: ITranslate;
  readonly onPick: (pick: IPick) => void;
}

/** The class of a state, which colours edges and dots. */
export function stateClass(state: StepState): string {
  switch (state) {
    case 'Working':
      return 'jp-Ozzie-mod-running';
    case 'Waiting for you':
    case 'Waiting for your answer':
    case 'Needs a decision':
      return 'jp-Ozzie-mod-waits';
    default:
      return `jp-Ozzie-mod-${state.toLowerCase()}`;
  }
}

/** The key by which the focus finds a pick in any form. */
export function pickKey({ node, step }: IPick): string {
  return `${node} ${step}`;
}

/** The pick of an element; null if it is no node. */
export function pickAt({ dataset }: HTMLElement): IPick | null {
  const [node, step] = dataset.pick?.split(' ') ?? [];
  return node === undefined ? null : { node, step: step ?? '' };
}

export function Node({ graph, node, pick, now, trans, onPick }: INodeProps): React.JSX.Element {
  const { told, after } = node;
  const isMany = isStack(node);
  const many = isMany ? node.step_ids.length : told.visits;
  const own: IPick = { node: node.node_id, step: isMany ? '' : node.node_id };
  const isPicked = pick.node === node.node_id;
  const classes = [
    'jp-Ozzie-node',
    stateClass(told.state),
    isMany ? 'jp-Ozzie-mod-stack' : '',
    graph.layout.form === 'compact' ? 'jp-Ozzie-mod-compact' : '',
    graph.kind === 'fsm' && graph.current === node.node_id ? 'jp-Ozzie-mod-current' : ''
  ];
  const label = nodeLabel(told, many, after, now, trans);
  return (
    <button
      className={classes.filter(Boolean).join(' ')}
      style={{ left: node.x, top: node.y, width: node.w, height: node.h }}
      tabIndex={isPicked ? 0 : -1}
      aria-label={label}
      aria-pressed={isPicked}
      title={label}
      data-pick={pickKey(own)}
      data-state={told.state}
      onClick={() => onPick(own)}
    >
      <StepIcon state={told.state} />
      <span className="jp-Ozzie-nodeText">
        <span className="jp-Ozzie-nodeName">{nameOf(told, many)}</span>
        {graph.layout.form === 'full' && (
          <span className="jp-Ozzie-nodeLine">
            {secondLine(told, after, now, trans).map((part, at) => (
              <span key={at}>{part}</span>
            ))}
          </span>
        )}
      </span>
    </button>
  );
}

/** A box: the steps' common title, how many have ended, and a dot for each. */
export function Box({ graph, node, pick, now, trans, onPick }: INodeProps): React.JSX.Element {
  const steps = new Map(graph.steps.map(step => [step.step_id, step]));
  const isTabStop = (stepId: string): boolean => pick.step === stepId;
  return (
    <div
      className="jp-Ozzie-box"
      role="group"
      aria-label={`${visibleLabel(node.told.title)}, ${settledOf(graph, node.step_ids, trans)}`}
      style={{ left: node.x, top: node.y, width: node.w, height: node.h }}
    >
      <span className="jp-Ozzie-boxHead">
        <span className="jp-Ozzie-nodeName">{visibleLabel(node.told.title)}</span>
        <span className="jp-Ozzie-figure">{settledOf(graph, node.step_ids, trans)}</span>
      </span>
      {node.dots.map(dot => {
        const step = steps.get(dot.step_id);
        return (
          step && (
            <Dot
              key={dot.step_id}
              step={step}
              x={dot.x - node.x}
              y={dot.y - node.y}
              own={{ node: node.node_id, step: dot.step_id }}
              isPicked={isTabStop(dot.step_id)}
              label={nodeLabel(step, step.visits, '', now, trans)}
              onPick={onPick}
            />
          )
        );
      })}
    </div>
  );
}

interface IDotProps {
  readonly step: GraphStep;
  readonly x: number;
  readonly y: number;
  readonly own: IPick;
  readonly isPicked: boolean;
  readonly label: string;
  readonly onPick: (pick: IPick) => void;
}

const DOT = 'M4.5 .75a3.75 3.75 0 1 0 0 7.5a3.75 3.75 0 1 0 0-7.5Z';
const DOTS: Readonly<Record<StepState, string>> = {
  Waiting: DOT,
  Working: DOT,
  Done: DOT,
  'Waiting for you': 'M4.5 .3 8.7 4.5 4.5 8.7 .3 4.5Z',
  'Waiting for your answer': 'M4.5 .3 8.7 4.5 4.5 8.7 .3 4.5Z',
  'Needs a decision': 'M4.5 .8 8.6 8.2H.4Z',
  Failed: 'M1 1l7 7M8 1l-7 7',
  Skipped: 'M1 4.5h7',
  Stopped: 'M1 1h7v7H1Z',
  Paused: 'M2.5 1v7M6.5 1v7'
};

/** A button as large as the grid, so that it is easy to hit; its drawing is smaller. */
function Dot({ step, x, y, own, isPicked, label, onPick }: IDotProps): React.JSX.Element {
  return (
    <button
      className={`jp-Ozzie-dot ${stateClass(step.state)}${isProblem(step) ? ' jp-Ozzie-mod-problem' : ''}`}
      style={{ left: x, top: y }}
      tabIndex={isPicked ? 0 : -1}
      aria-label={label}
      aria-pressed={isPicked}
      title={label}
      data-pick={pickKey(own)}
      data-state={step.state}
      onClick={() => onPick(own)}
    >
      <svg viewBox="0 0 9 9" aria-hidden="true">
        <path d={DOTS[step.state]} />
      </svg>
    </button>
  );
}
