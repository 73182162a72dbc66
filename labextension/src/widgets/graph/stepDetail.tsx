/** One step in full: its instruction, acceptance check, input and result. */

import * as React from 'react';

import type { GraphStep, Step, StepAttempt, StepCall, StepDetail as Detail, TaskGraph } from '../../api/protocol.gen';
import type { OzzieApi } from '../../api/requests';
import { nameOf, stepCost, stepTime, stepWord } from '../../model/graphWording';
import { visibleLabel, visibleProof } from '../../model/visible';
import { duration, type ITranslate, stepText } from '../../model/wording';
import { StepIcon } from '../icons';

/** Least pause between two requests about a busy step. */
const LOAD_MS = 1_000;
const LONG_CHARACTERS = 400;
const LONG_LINES = 6;

export interface IStepDetailProps {
  readonly graph: TaskGraph;
  readonly step: GraphStep;
  readonly api: Pick<OzzieApi, 'runStep'>;
  readonly now: number;
  readonly trans: ITranslate;
  /** Show the step's task; null if nothing can show tasks. */
  readonly onTask: ((taskId: string) => void) | null;
}

export function StepDetail({ graph, step, api, now, trans, onTask }: IStepDetailProps): React.JSX.Element {
  const detail = useDetail(graph, step, api);
  const attempt = step.attempts > 1 && step.attempt ? trans.__('attempt %1 of %2', step.attempt, step.attempts) : '';
  const meta = [
    stepWord(step.state, trans),
    step.state === 'Paused' && step.note !== attempt ? step.note : '',
    stepTime(step, now, trans),
    attempt,
    visibleLabel(step.model),
    stepCost(step, trans)
  ];
  return (
    <div className="jp-Ozzie-stepDetail" role="group" aria-label={nameOf(step, step.visits)} data-step={step.step_id}>
      <div className="jp-Ozzie-stepHead">
        <StepIcon state={step.state} />
        <h4 tabIndex={-1}>{nameOf(step, step.visits)}</h4>
        <span className="jp-Ozzie-sub">{meta.filter(Boolean).join(' · ')}</span>
        {step.task_id && onTask && (
          <button className="jp-Ozzie-link" onClick={() => onTask(step.task_id)}>
            {trans.__('Open in task')}
          </button>
        )}
      </div>
      {step.problem && step.state !== 'Done' && <p className="jp-Ozzie-stepProblem">{visibleLabel(step.problem)}</p>}
      {detail && <Facts detail={detail} step={step} trans={trans} />}
      {detail?.call && <MadeCall call={detail.call} state={step.state} trans={trans} />}
      {detail && detail.calls.length > 0 && <Calls calls={detail.calls} trans={trans} />}
    </div>
  );
}

function Facts({ detail, step, trans }: { detail: Detail; step: GraphStep; trans: ITranslate }): React.JSX.Element {
  const what = {
    agent: trans.__('Instruction'),
    call: trans.__('Calls'),
    skill: trans.__('Runs'),
    ask: trans.__('Question'),
    approve: trans.__('Question'),
    wait: trans.__('Waits for'),
    none: trans.__('Instruction')
  }[detail.kind];
  const verdict = detail.accepted
    ? trans.__('holds: %1', visibleLabel(detail.accepted))
    : step.state === 'Failed'
      ? ''
      : trans.__('checked when the step ends');
  const tried = detail.attempts.filter(each => each.state === 'Failed' && each.message !== step.problem);
  return (
    <dl className="jp-Ozzie-facts">
      <Fact name={what} text={detail.instruction} isCode={detail.kind === 'call'} trans={trans} />
      {detail.acceptance && (
        <>
          <dt>{trans.__('Must hold')}</dt>
          <dd>
            {visibleProof(detail.acceptance)} {verdict && <span className="jp-Ozzie-sub">({verdict})</span>}
          </dd>
        </>
      )}
      <Fact name={trans.__('Input')} text={inputText(detail.input)} isCode trans={trans} />
      <Fact
        name={trans.__('Result')}
        text={detail.result}
        more={detail.is_cut ? trans.__('Only its beginning is shown.') : ''}
        trans={trans}
      />
      {tried.length > 0 && (
        <>
          <dt>{trans.__('Attempts')}</dt>
          <dd>
            {tried.map(each => (
              <span className="jp-Ozzie-attempt" key={`${each.visit} ${each.attempt}`}>
                {attemptText(each, trans)}
              </span>
            ))}
          </dd>
        </>
      )}
    </dl>
  );
}

function attemptText(attempt: StepAttempt, trans: ITranslate): string {
  const which = attempt.visit > 1 ? trans.__('visit %1, %2', attempt.visit, attempt.attempt) : String(attempt.attempt);
  return trans.__('%1: %2', which, visibleLabel(attempt.message));
}

interface IFactProps {
  readonly name: string;
  readonly text: string;
  readonly isCode?: boolean;
  readonly more?: string;
  readonly trans: ITranslate;
}

/** A text of one or more lines; long ones are folded. */
function Fact({ name, text, isCode, more, trans }: IFactProps): React.JSX.Element | null {
  const [isOpen, setOpen] = React.useState(false);
  if (!text) {
    return null;
  }
  const lines = visibleProof(text).split('\n');
  const isLong = text.length > LONG_CHARACTERS || lines.length > LONG_LINES;
  const shown =
    isLong && !isOpen ? `${lines.slice(0, LONG_LINES).join('\n').slice(0, LONG_CHARACTERS)}…` : lines.join('\n');
  return (
    <>
      <dt>{name}</dt>
      <dd>
        <span className={isCode ? 'jp-Ozzie-factText jp-Ozzie-mod-code' : 'jp-Ozzie-factText'}>{shown}</span>
        {isLong && (
          <button className="jp-Ozzie-link" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
            {isOpen ? trans.__('Show less') : trans.__('Show all')}
          </button>
        )}
        {more && (isOpen || !isLong) && <span className="jp-Ozzie-sub"> {more}</span>}
      </dd>
    </>
  );
}

function inputText(input: unknown): string {
  const isEmpty = input === null || (typeof input === 'object' && Object.keys(input).length === 0);
  return isEmpty
    ? ''
    : JSON.stringify(input, null, 1)
        .replace(/^\{\n|\n\}$/g, '')
        .replace(/^ /gm, '');
}

interface IMadeCallProps {
  readonly call: StepCall;
  readonly state: GraphStep['state'];
  readonly trans: ITranslate;
}

/** The call of a step without a task. */
function MadeCall({ call, state, trans }: IMadeCallProps): React.JSX.Element {
  const rule = call.rule ? trans.__('Rule: %1', visibleLabel(call.rule)) : '';
  const parts = [call.argument, call.summary].filter(Boolean).map(visibleLabel);
  return (
    <ul className="jp-Ozzie-calls" aria-label={trans.__('Calls')}>
      <li title={[visibleLabel(call.name), ...parts, rule].filter(Boolean).join('\n')}>
        <StepIcon state={state} />
        <code>{visibleLabel(call.name)}</code>
        <span className="jp-Ozzie-stepTold">{parts.join(' · ')}</span>
        <span className="jp-Ozzie-figure">{duration(call.duration_ms, trans)}</span>
      </li>
    </ul>
  );
}

/** The calls of the step's task. */
function Calls({ calls, trans }: { calls: readonly Step[]; trans: ITranslate }): React.JSX.Element {
  return (
    <ul className="jp-Ozzie-calls" aria-label={trans.__('Calls')}>
      {calls.map(call => (
        <li key={call.call_id} title={[call.name, stepText(call, trans)].filter(Boolean).join('\n')}>
          <StepIcon state={callState(call)} />
          <code>{visibleLabel(call.name)}</code>
          <span className="jp-Ozzie-stepTold">{visibleLabel(stepText(call, trans))}</span>
          <span className="jp-Ozzie-figure">{call.duration_ms === null ? '' : duration(call.duration_ms, trans)}</span>
        </li>
      ))}
    </ul>
  );
}

function callState({ status }: Step): GraphStep['state'] {
  switch (status) {
    case 'completed':
      return 'Done';
    case 'running':
      return 'Working';
    case 'requested':
      return 'Waiting';
    case 'cancelled':
      return 'Stopped';
    case 'uncertain':
      return 'Needs a decision';
    default:
      return 'Failed';
  }
}

/** Load the step's details; again when the graph changes, not too often. Never return another step's. */
function useDetail(graph: TaskGraph, step: GraphStep, api: Pick<OzzieApi, 'runStep'>): Detail | null {
  const { task_id: taskId, version } = graph;
  const { step_id: stepId } = step;
  const [detail, setDetail] = React.useState<Detail | null>(null);
  const last = React.useRef({ stepId: '', at: 0 });
  const isGoingOn = step.started_at !== null && step.finished_at === null;
  // An ended step no longer changes; a running one may with each version.
  const wanted = isGoingOn ? version : `${step.state} ${step.visits} ${step.attempt}`;
  React.useEffect(() => {
    let isCurrent = true;
    const isOther = last.current.stepId !== stepId;
    const timer = setTimeout(
      () => {
        last.current = { stepId, at: Date.now() };
        api.runStep(taskId, stepId).then(
          loaded => {
            if (isCurrent) {
              setDetail(loaded);
            }
          },
          () => undefined // its graph still shows what is known
        );
      },
      isOther ? 0 : Math.max(0, last.current.at + LOAD_MS - Date.now())
    );
    return () => {
      isCurrent = false;
      clearTimeout(timer);
    };
  }, [api, taskId, stepId, wanted]);
  return detail?.step_id === stepId ? detail : null;
}
