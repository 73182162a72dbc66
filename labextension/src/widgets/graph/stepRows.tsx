/** Steps as rows: the whole list, a stack's, or those to look at. */

import * as React from 'react';

import type { GraphStep, TaskGraph } from '../../api/protocol.gen';
import { pickByKeyInList } from '../../model/graphKeys';
import { type IPick, isProblem, pickOf } from '../../model/graphPick';
import { nameOf, problemText, progressText, secondLine, stepTime, stepWord } from '../../model/graphWording';
import { visibleLabel } from '../../model/visible';
import type { ITranslate } from '../../model/wording';
import { StepIcon } from '../icons';
import { pickKey } from './nodes';
import { focusPick } from './picture';

const MAX_PROBLEMS = 20;

export interface IRowsProps {
  readonly graph: TaskGraph;
  readonly pick: IPick;
  readonly now: number;
  readonly trans: ITranslate;
  readonly onPick: (pick: IPick) => void;
  readonly onOpen: () => void;
}

/** All steps in the order of the skill, with one tab stop. */
export function StepList(props: IRowsProps): React.JSX.Element {
  const { graph, trans } = props;
  const label = trans.__('Steps of %1: %2', visibleLabel(graph.name), progressText(graph, trans));
  return <Rows {...props} steps={graph.steps} label={label} className="jp-Ozzie-stepList" />;
}

/** The steps of a stack. */
export function StackRows(props: IRowsProps & { stepIds: readonly string[]; label: string }): React.JSX.Element {
  const ids = new Set(props.stepIds);
  const steps = props.graph.steps.filter(step => ids.has(step.step_id));
  return <Rows {...props} steps={steps} className="jp-Ozzie-stepList" />;
}

/** Below dots, which show only a state: the failed and waiting steps. */
export function ProblemRows(props: IRowsProps): React.JSX.Element | null {
  const { graph, trans } = props;
  const problems = graph.steps.filter(isProblem);
  const more = problems.length - MAX_PROBLEMS;
  if (problems.length === 0) {
    return null;
  }
  return (
    <>
      <Rows
        {...props}
        steps={problems.slice(0, MAX_PROBLEMS)}
        label={trans.__('What to look at')}
        className="jp-Ozzie-problems"
      />
      {more > 0 && <p className="jp-Ozzie-more">{trans._n('… and %1 more', '… and %1 more', more, more)}</p>}
    </>
  );
}

interface IAllRowsProps extends IRowsProps {
  readonly steps: readonly GraphStep[];
  readonly label: string;
  readonly className: string;
}

function Rows(props: IAllRowsProps): React.JSX.Element {
  const { graph, steps, label, className, pick, now, trans, onPick, onOpen } = props;
  const outer = React.useRef<HTMLUListElement>(null);
  const after = new Map(graph.layout.nodes.map(node => [node.node_id, node.after]));
  // Scroll to the pick when the list appears; later only keys move it.
  React.useLayoutEffect(() => {
    const list = outer.current;
    const row = list?.querySelector<HTMLElement>('[aria-current="true"]');
    if (list && row && list.scrollHeight > list.clientHeight) {
      list.scrollTop = row.offsetTop - list.clientHeight / 2;
    }
  }, []);
  const tabStop = steps.some(step => step.step_id === pick.step) ? pick.step : steps[0]?.step_id;

  const onKey = (event: React.KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey) {
      return;
    }
    const at = (event.target as HTMLElement).dataset.step ?? '';
    const to = pickByKeyInList({ ...graph, steps: [...steps] }, pickOf(graph, at), event.key);
    if (to) {
      event.preventDefault();
      event.stopPropagation();
      onPick(to);
      focusPick(outer.current, to);
    } else if (event.key === 'Enter') {
      event.preventDefault();
      onPick(pickOf(graph, at));
      onOpen();
    }
  };

  return (
    <ul className={`jp-Ozzie-stepRows ${className}`} aria-label={label} ref={outer} onKeyDown={onKey}>
      {steps.map(step => {
        const own = pickOf(graph, step.step_id);
        const text = isProblem(step)
          ? problemText(step, trans)
          : secondLine({ ...step, started_at: null }, after.get(step.step_id) ?? '', now, trans).join(' · ');
        const time = stepTime(step, now, trans);
        return (
          <li key={step.step_id}>
            <button
              tabIndex={step.step_id === tabStop ? 0 : -1}
              aria-current={step.step_id === pick.step}
              data-pick={pickKey(own)}
              data-step={step.step_id}
              data-state={step.state}
              title={[nameOf(step, step.visits), text].filter(Boolean).join('\n')}
              onClick={() => onPick(own)}
            >
              <StepIcon state={step.state} />
              {step.skill && <code>{step.skill}</code>}
              <span className="jp-Ozzie-stepName">{nameOf(step, step.visits)}</span>
              <span className="jp-Ozzie-stepTold">
                <span className="jp-Ozzie-announcer">{stepWord(step.state, trans)} </span>
                {text === stepWord('Done', trans) ? '' : text}
              </span>
              <span className="jp-Ozzie-figure">{time}</span>
            </button>
          </li>
        );
      })}
    </ul>
  );
}
