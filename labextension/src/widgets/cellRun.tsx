/**
 * Open runs of skills below their cells: state, graph, and what their steps ask. They are beside Lab's outputs, never
 * in them (docs/adr/0040).
 */

import * as React from 'react';
import { createRoot, type Root } from 'react-dom/client';

import type { OzzieApi } from '../api/requests';
import { isOpen, needsPerson, type TaskRow } from '../model/fold';
import type { TaskBoard } from '../model/board';
import { summary } from '../model/graphWording';
import { isDelegated, type ITopRun } from '../model/topRuns';
import { visibleLabel } from '../model/visible';
import type { TaskAct } from '../model/taskActs';
import { elapsed, type ITranslate, money, pauseText, shownWord } from '../model/wording';
import { ActButton } from './actButton';
import type { ICells, IPromptParts } from './cellPrompts';
import { useChanges } from './useChanges';
import { GraphView } from './graph/graphView';
import { useNow, useRunGraph } from './graph/useRunGraph';
import { StateIcon, Stop } from './icons';
import { IN_CELL } from './liveTurn';
import { takeOut } from './outOfView';
import { StepPrompts } from './stepPrompts';

/** Hides the kernel's own form of a run that is the cell's turn. */
const DRAWN = 'jp-Ozzie-mod-graphed';
const RUN = 'jp-Ozzie-cellRun';
/** How long the graph stays after the run has ended, unless its saved picture appears earlier. */
export const STAYS_MS = 4_000;

export interface IRunParts extends Omit<IPromptParts, 'api' | 'board'> {
  readonly api: IPromptParts['api'] & Pick<OzzieApi, 'graph' | 'runStep'>;
  readonly board: IPromptParts['board'] & Pick<TaskBoard, 'taskChanged' | 'renewed' | 'isPartOf' | 'row'>;
  readonly onStop: (taskId: string) => void;
  readonly onAct: (act: TaskAct, taskId: string) => void;
  readonly onTask: (taskId: string) => void;
  /** The outputs of a run's cell changed: its saved picture may be there. */
  readonly onOutputs: () => void;
}

interface IDrawn {
  readonly run: ITopRun;
  readonly area: HTMLElement;
  readonly node: HTMLElement;
  readonly root: Root;
  readonly outputs: MutationObserver;
  /** Whether it replaces the kernel's own form, which says less. */
  replacesForm: boolean;
  /** When its end was noticed, in milliseconds. */
  endedAt: number | null;
}

const drawn = new WeakMap<ICells, Map<string, IDrawn>>();

interface ICellRunProps extends IRunParts {
  readonly runId: string;
  /** Whether to show its name: the cell says something else. */
  readonly isNamed: boolean;
  readonly onDrawn: (isDrawn: boolean) => void;
}

/** A run in a cell. */
export function CellRun(props: ICellRunProps): React.JSX.Element {
  const { runId, isNamed, api, board, trans, onDrawn, onLeave, onStop, onAct, onTask } = props;
  const { run, width, ref } = useRunGraph(runId, api, board);
  useChanges(board.changed);
  const row = board.row(runId);
  const isGoingOn = row !== undefined && isOpen(row);
  const now = useNow(isGoingOn);
  const { graph } = run;
  const isDrawn = graph !== null;
  // A graph from before the end has running steps.
  const summaryText = graph && (isGoingOn || graph.running === 0) ? summary(graph, trans) : '';
  React.useLayoutEffect(() => {
    onDrawn(isDrawn);
  }, [isDrawn, onDrawn]);
  const label = row ? `${visibleLabel(row.title)}, ${shownWord(row, trans)}` : '';
  return (
    <div ref={ref} role="group" aria-label={label}>
      {row && graph && (
        <>
          <StateLine
            row={row}
            name={isNamed ? visibleLabel(row.title) : ''}
            summaryText={summaryText}
            now={now}
            trans={trans}
            onStop={isGoingOn ? onStop : null}
            onAct={onAct}
          />
          <GraphView {...{ graph, api, width, now, trans, isNamed, onTask, onLeave }} />
        </>
      )}
      {row && <StepPrompts {...props} waiting={row.waiting} isAlone={(graph?.running ?? 0) === 0} />}
    </div>
  );
}

interface IStateLineProps {
  readonly row: TaskRow;
  /** Empty if the cell says it. */
  readonly name: string;
  readonly summaryText: string;
  readonly now: number;
  readonly trans: ITranslate;
  readonly onStop: ((taskId: string) => void) | null;
  readonly onAct: (act: TaskAct, taskId: string) => void;
}

/** One line that never wraps: without room, parts are dropped, figures first. */
function StateLine({ row, name, summaryText, now, trans, onStop, onAct }: IStateLineProps): React.JSX.Element {
  const parts = [
    pauseText(row, trans),
    elapsed((row.finishedAt ?? now) - row.createdAt, trans),
    summaryText,
    row.tokens > 0 ? trans.__('%1 tokens', row.tokens.toLocaleString()) : '',
    row.cost ? money(row.cost) : ''
  ];
  return (
    <div className="jp-Ozzie-stateLine">
      <StateIcon row={row} />
      {name && <span className="jp-Ozzie-runName">{name}</span>}
      <b>{shownWord(row, trans)}</b>
      <span className="jp-Ozzie-stateParts">
        {parts.filter(Boolean).map((part, at) => (
          <span key={at}>{part}</span>
        ))}
      </span>
      {onStop && <ActButton className="jp-Ozzie-actRun" {...{ row, trans, onAct }} />}
      {onStop && (
        <button className="jp-Ozzie-stopRun" disabled={row.isStopping} onClick={() => onStop(row.taskId)}>
          <Stop />
          {row.isStopping ? trans.__('Stopping…') : trans.__('Stop')}
        </button>
      )}
    </div>
  );
}

/** Draw these runs below their cells, in this order. Remove ended ones when `isOver`, or after a while. */
export function drawRuns(
  notebook: ICells,
  runs: readonly ITopRun[],
  parts: IRunParts,
  isOver: (run: ITopRun) => boolean
): void {
  const known = drawn.get(notebook) ?? new Map<string, IDrawn>();
  drawn.set(notebook, known);
  /** By cell: the node to insert the next run before. */
  const next = new Map<HTMLElement, HTMLElement>();
  for (const run of [...runs].reverse()) {
    const { taskId } = run.row;
    const cell = notebook.widgets.find(each => each.model.id === run.turn.cellId);
    const area = cell?.node.querySelector<HTMLElement>('.jp-Cell-outputArea') ?? null;
    const old = known.get(taskId);
    const isThere = old !== undefined && area !== null && area.contains(old.node);
    if (isThere) {
      old.endedAt = null; // retried
    } else if (old) {
      remove(known, old);
    }
    if (area) {
      const { node } = isThere ? old : draw(known, run, area, next.get(area) ?? null, parts);
      next.set(area, node);
    }
  }
  for (const old of [...known.values()]) {
    const { taskId } = old.run.row;
    if (runs.some(({ row }) => row.taskId === taskId)) {
      continue;
    }
    const row = parts.board.row(taskId);
    const turn = parts.board.row(old.run.turn.taskId);
    old.endedAt ??= Date.now();
    const isShown = row !== undefined && !isOpen(row) && old.area.isConnected;
    // The turn's own prompts are below it and must not move under the pointer.
    const isLate = Date.now() - old.endedAt > STAYS_MS && !(turn && needsPerson(turn));
    if (!isShown || isOver(old.run) || isLate) {
      remove(known, old);
    }
  }
}

export function hasRuns(notebook: ICells): boolean {
  return (drawn.get(notebook)?.size ?? 0) > 0;
}

function draw(
  known: Map<string, IDrawn>,
  run: ITopRun,
  area: HTMLElement,
  next: HTMLElement | null,
  parts: IRunParts
): IDrawn {
  const node = document.createElement('div');
  node.className = `${IN_CELL} ${RUN}`;
  // The turn's own prompts come last.
  area.insertBefore(node, next ?? area.querySelector(`:scope > .${IN_CELL}:not(.${RUN})`));
  const isNamed = isDelegated(run);
  const root = createRoot(node);
  const outputs = new MutationObserver(() => parts.onOutputs());
  outputs.observe(area, { childList: true });
  const made: IDrawn = { run, area, node, root, outputs, replacesForm: false, endedAt: null };
  known.set(run.row.taskId, made);
  const onDrawn = (isDrawn: boolean): void => {
    made.replacesForm = isDrawn && !isNamed;
    hideForm(known, area);
  };
  root.render(<CellRun {...parts} {...{ isNamed, onDrawn }} runId={run.row.taskId} />);
  return made;
}

/** Hide the kernel's form while any run in the cell replaces it. */
function hideForm(known: ReadonlyMap<string, IDrawn>, area: HTMLElement): void {
  area.classList.toggle(
    DRAWN,
    [...known.values()].some(each => each.area === area && each.replacesForm)
  );
}

function remove(known: Map<string, IDrawn>, old: IDrawn): void {
  old.outputs.disconnect();
  takeOut(old.node);
  old.root.unmount();
  known.delete(old.run.row.taskId);
  hideForm(known, old.area);
}
