/** One task in the sidebar: its state, result or error, and events. */

import * as React from 'react';

import type { EventRecord, TaskWithSteps } from '../api/protocol.gen';
import type { OzzieApi } from '../api/requests';
import type { ApprovalBook } from '../model/approvals';
import type { TaskBoard } from '../model/board';
import { isOpen, needsPerson, rowOf, type TaskRow } from '../model/fold';
import type { TaskAct } from '../model/taskActs';
import { age, clockTime, duration, type ITranslate, money, pauseText, shownWord, stepText } from '../model/wording';
import { ActButton } from './actButton';
import { ApprovalCards } from './approvalCards';
import { useChanges } from './useChanges';
import { GraphView } from './graph/graphView';
import { useNow, useRunGraph } from './graph/useRunGraph';
import { Back, StateIcon, Stop } from './icons';
import { QuestionCard } from './questionCard';
import { StepPrompts } from './stepPrompts';

/** How many of the newest events are listed. */
const MAX_EVENTS = 100;
/** Least pause between two requests about a busy task. */
const LOAD_MS = 1_000;

export interface ITaskDetailProps {
  readonly row: TaskRow;
  readonly approvals: ApprovalBook;
  readonly board: Pick<TaskBoard, 'changed' | 'state' | 'row' | 'isPartOf' | 'taskChanged' | 'renewed'>;
  readonly api: Pick<OzzieApi, 'answer' | 'approvalCard' | 'artifactText' | 'events' | 'graph' | 'runStep' | 'task'>;
  readonly now: number;
  readonly trans: ITranslate;
  readonly canStop: boolean;
  readonly onBack: () => void;
  /** Show another task. */
  readonly onShow: (taskId: string) => void;
  readonly onStop: (taskId: string) => void;
  readonly onAct: (act: TaskAct, taskId: string) => void;
}

export function TaskDetail(props: ITaskDetailProps): React.JSX.Element {
  const { row, approvals, api, now, trans, canStop, onBack, onStop, onAct } = props;
  useChanges(approvals.changed);
  const { task, events } = useDetails(props);
  // A step's totals aren't in its row.
  const { tokens, cost } = row.parentId && task ? rowOf(task) : row;
  const back = React.useRef<HTMLButtonElement>(null);
  React.useEffect(() => back.current?.focus(), []);
  return (
    <div
      className="jp-Ozzie-detail"
      role="group"
      aria-label={row.title}
      onKeyDown={event => {
        if (event.key === 'Escape') {
          onBack();
        }
      }}
    >
      <div className="jp-Ozzie-head">
        <button className="jp-Ozzie-iconButton" ref={back} aria-label={trans.__('Back to the tasks')} onClick={onBack}>
          <Back />
        </button>
        <StateIcon row={row} />
        <h2 className="jp-Ozzie-heading">{row.title}</h2>
      </div>
      <p className="jp-Ozzie-meta">
        {[
          shownWord(row, trans),
          pauseText(row, trans),
          age(row, now, trans),
          tokens > 0 || !isOpen(row) ? trans.__('%1 tokens', tokens.toLocaleString()) : '',
          cost || !isOpen(row) ? money(cost) || trans.__('cost unknown') : ''
        ]
          .filter(Boolean)
          .join(' · ')}
      </p>
      {task?.error && (
        <div className="jp-Ozzie-error">
          <p>{task.error.message}</p>
          <p className="jp-Ozzie-sub">{task.error.hint}</p>
        </div>
      )}
      {row.mode === 'GRAPH' && <RunPart key={row.taskId} {...props} />}
      {needsPerson(row) && row.status === 'WAITING_INPUT' && (
        <QuestionCard taskId={row.taskId} version={row.position} api={api} trans={trans} />
      )}
      <ApprovalCards rows={approvals.of(row.taskId)} book={approvals} api={api} trans={trans} isConnected={canStop} />
      <p className="jp-Ozzie-acts">
        <ActButton className="jp-Ozzie-button" isDisabled={!canStop} {...{ row, trans, onAct }} />
        {isOpen(row) && (
          <button className="jp-Ozzie-button" disabled={!canStop} onClick={() => onStop(row.taskId)}>
            <Stop />
            {trans.__('Stop')}
          </button>
        )}
      </p>
      <h3 className="jp-Ozzie-section">
        {trans.__('Steps')} <span className="jp-Ozzie-count">{task?.steps.length ?? ''}</span>
      </h3>
      <ul className="jp-Ozzie-lines">
        {task?.steps.map(step => (
          <li key={step.call_id} title={[step.name, stepText(step, trans)].filter(Boolean).join('\n')}>
            <code>{step.name}</code>
            <span className="jp-Ozzie-sub">{stepText(step, trans)}</span>
            {step.duration_ms !== null && <span className="jp-Ozzie-figure">{duration(step.duration_ms, trans)}</span>}
          </li>
        ))}
      </ul>
      <h3 className="jp-Ozzie-section">
        {trans.__('Events')} <span className="jp-Ozzie-count">{events.length || ''}</span>
      </h3>
      <ul className="jp-Ozzie-lines">
        {events.map(event => (
          <li key={event.position}>
            <code>{event.type}</code>
            <span className="jp-Ozzie-figure">{clockTime(Date.parse(event.ts))}</span>
          </li>
        ))}
      </ul>
    </div>
  );
}

/** A run's graph as wide as the sidebar, and what its steps ask. */
function RunPart({ row, approvals, board, api, trans, onShow }: ITaskDetailProps): React.JSX.Element {
  const { run, width, ref } = useRunGraph(row.taskId, api, board);
  const { graph } = run;
  const now = useNow(isOpen(row));
  const show = React.useRef(onShow);
  show.current = onShow;
  const onTask = React.useCallback((taskId: string) => show.current(taskId), []);
  return (
    <div className="jp-Ozzie-runPart">
      <div ref={ref} />
      {graph && <GraphView {...{ graph, api, width, now, trans, onTask }} />}
      <StepPrompts
        runId={row.taskId}
        waiting={row.waiting}
        isAlone={(graph?.running ?? 0) === 0}
        {...{ api, approvals, board, trans }}
      />
    </div>
  );
}

/** Load the task's details; again when its row has changed, not too often. */
function useDetails({ row: { taskId, position, status }, api }: ITaskDetailProps): {
  task: TaskWithSteps | null;
  events: readonly EventRecord[];
} {
  const [task, setTask] = React.useState<TaskWithSteps | null>(null);
  const [events, setEvents] = React.useState<readonly EventRecord[]>([]);
  const requests = React.useRef({ taskId: '', count: 0, at: 0, shown: 0 });
  React.useEffect(() => {
    const last = requests.current;
    const isOther = last.taskId !== taskId;
    const load = (): void => {
      const count = requests.current.count + 1;
      requests.current = { ...requests.current, taskId, count, at: Date.now() };
      Promise.all([api.task(taskId), api.events(taskId, MAX_EVENTS)]).then(
        ([loaded, page]) => {
          // A later request may have been answered sooner.
          if (requests.current.taskId === taskId && count > requests.current.shown) {
            requests.current.shown = count;
            setTask(loaded);
            setEvents(page.items);
          }
        },
        () => {
          // The row still shows what is known; the banner, that the connection is lost.
        }
      );
    };
    const timer = setTimeout(load, isOther ? 0 : Math.max(0, last.at + LOAD_MS - Date.now()));
    return () => clearTimeout(timer);
  }, [api, taskId, position, status]);
  return { task, events };
}
