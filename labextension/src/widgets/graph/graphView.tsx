/** A run of a skill: progress, its graph or list of steps, and the selected step. */

import * as React from 'react';

import type { TaskGraph } from '../../api/protocol.gen';
import type { OzzieApi } from '../../api/requests';
import { currentPick, defaultPick, hasDots, type IPick, isAsking, isStack, stepNamed } from '../../model/graphPick';
import { isSettled, progressText } from '../../model/graphWording';
import { visibleLabel } from '../../model/visible';
import type { ITranslate } from '../../model/wording';
import { Picture } from './picture';
import { StepDetail } from './stepDetail';
import { ProblemRows, StackRows, StepList } from './stepRows';

const ANNOUNCE_MS = 3_000;

export interface IGraphViewProps {
  readonly graph: TaskGraph;
  readonly api: Pick<OzzieApi, 'runStep'>;
  readonly width: number;
  readonly now: number;
  readonly trans: ITranslate;
  readonly onTask: ((taskId: string) => void) | null;
  /** Whether its name is already above it. */
  readonly isNamed?: boolean;
  /** Called on Esc if it already follows the run. */
  readonly onLeave?: () => void;
}

/** Redrawn only if the graph or the time changed: a large run has many other events. */
export const GraphView = React.memo(function GraphView(props: IGraphViewProps): React.JSX.Element {
  const { graph, api, width, now, trans, onTask, isNamed, onLeave } = props;
  const [chosen, setChosen] = React.useState<'graph' | 'list' | null>(null);
  const [picked, setPicked] = React.useState<IPick | null>(null);
  const [last, setLast] = React.useState<IPick | null>(null);
  const outer = React.useRef<HTMLDivElement>(null);
  const pane = useSteady(picked === null);
  const form = chosen ?? (hasDots(graph) ? 'list' : 'graph');
  const pick = currentPick(graph, picked) ?? currentPick(graph, nextDefaultPick(graph, last)) ?? { node: '', step: '' };
  React.useEffect(() => {
    setLast(before => nextDefaultPick(graph, before));
  }, [graph]);
  const node = graph.layout.nodes.find(each => each.node_id === pick.node);
  const step = stepNamed(graph, pick.step);
  const stack = node && isStack(node) ? node : undefined;

  const onOpen = (): void => {
    const opened = '.jp-Ozzie-stepHead h4, .jp-Ozzie-detailPane .jp-Ozzie-stepRows button';
    outer.current?.querySelector<HTMLElement>(opened)?.focus();
  };
  const onKey = (event: React.KeyboardEvent): void => {
    if (event.key !== 'Escape') {
      return;
    }
    const pane = outer.current?.querySelector('.jp-Ozzie-detailPane');
    if (pane?.contains(document.activeElement)) {
      outer.current?.querySelector<HTMLElement>('.jp-Ozzie-forms [data-pick][tabindex="0"]')?.focus();
    } else if (picked !== null) {
      setPicked(null);
    } else if (onLeave) {
      onLeave();
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  };

  const rows = { graph, pick, now, trans, onPick: setPicked, onOpen };
  return (
    <div className="jp-Ozzie-graph" data-lm-suppress-shortcuts="true" ref={outer} onKeyDown={onKey}>
      <div className="jp-Ozzie-graphHead">
        <span className="jp-Ozzie-graphName">{isNamed ? '' : visibleLabel(graph.name)}</span>
        <Bar graph={graph} />
        <span className="jp-Ozzie-figure">{progressText(graph, trans)}</span>
        <span className="jp-Ozzie-segments" role="group" aria-label={trans.__('Form')}>
          <button aria-pressed={form === 'graph'} onClick={() => setChosen('graph')}>
            {trans.__('Graph')}
          </button>
          <button aria-pressed={form === 'list'} onClick={() => setChosen('list')}>
            {trans.__('List')}
          </button>
        </span>
      </div>
      <div className="jp-Ozzie-forms">
        {form === 'graph' ? <Picture {...rows} width={width} /> : <StepList {...rows} />}
        {hasDots(graph) && <ProblemRows {...rows} />}
      </div>
      <div className={`jp-Ozzie-detailPane${picked ? '' : ' jp-Ozzie-mod-follows'}`} ref={pane}>
        {stack && form === 'graph' && (
          <StackRows {...rows} stepIds={stack.step_ids} label={visibleLabel(stack.told.title)} />
        )}
        {step && <StepDetail key={step.step_id} {...{ graph, step, api, now, trans, onTask }} />}
      </div>
      <Announced graph={graph} trans={trans} />
    </div>
  );
});

/**
 * Like `defaultPick`, but if nothing runs, keep the last pick, unless it has ended and a person should look at another.
 */
function nextDefaultPick(graph: TaskGraph, last: IPick | null): IPick {
  const shown = last && stepNamed(graph, last.step);
  const runs = graph.steps.some(step => step.state === 'Working');
  const isBehind = shown && isSettled(shown) && graph.steps.some(isAsking);
  return last === null || runs || isBehind ? defaultPick(graph) : last;
}

/**
 * While nobody has picked, never let the details shrink: content below, such as an approval, would move at each step
 * and can't be answered while it moves.
 */
function useSteady(isFollowing: boolean): React.RefObject<HTMLDivElement> {
  const pane = React.useRef<HTMLDivElement>(null);
  React.useEffect(() => {
    const node = pane.current;
    if (!node || !isFollowing) {
      return undefined;
    }
    let most = 0;
    const observer = new ResizeObserver(() => {
      most = Math.max(most, node.offsetHeight);
      node.style.minHeight = `${most}px`;
    });
    observer.observe(node);
    return () => {
      observer.disconnect();
      node.style.minHeight = '';
    };
  }, [isFollowing]);
  return pane;
}

function Bar({ graph }: { graph: TaskGraph }): React.JSX.Element {
  const share = graph.steps.length > 0 ? graph.settled / graph.steps.length : 0;
  return (
    <span className="jp-Ozzie-bar" aria-hidden="true">
      <span style={{ width: `${(share * 100).toFixed(1)}%` }} />
    </span>
  );
}

/** Announce a rising number of failed steps, but not at each change. */
function Announced({ graph, trans }: { graph: TaskGraph; trans: ITranslate }): React.JSX.Element {
  const [text, setText] = React.useState('');
  const { failed } = graph;
  const all = graph.steps.length;
  const first = React.useRef(failed);
  React.useEffect(() => {
    if (failed <= first.current) {
      return undefined;
    }
    const timer = setTimeout(() => {
      first.current = failed;
      setText(trans._n('%1 of %2 steps failed', '%1 of %2 steps failed', failed, failed, all));
    }, ANNOUNCE_MS);
    return () => clearTimeout(timer);
  }, [failed, all, trans]);
  return (
    <span className="jp-Ozzie-announcer" aria-live="polite">
      {text}
    </span>
  );
}
