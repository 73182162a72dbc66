/**
 * Runs of skills that go on, below their cells: the state of each, its graph, and what its steps ask. As a question
 * does, it stands beside Lab's outputs and never in them (docs/adr/0040).
 */

import * as React from 'react';
import { createRoot, type Root } from 'react-dom/client';

import type { OzzieApi } from '../api/requests';
import { isOpen, needsPerson, shownState, type TaskRow } from '../model/fold';
import type { TaskBoard } from '../model/board';
import { summary } from '../model/graphWording';
import { type IOwnRun, isHandedOver } from '../model/ownRuns';
import { visibleLabel } from '../model/visible';
import type { TaskAct } from '../model/taskActs';
import { elapsed, heldText, type ITranslate, money, stateWord } from '../model/wording';
import { ActButton } from './actButton';
import type { IAskParts, ICells } from './cellAsks';
import { useChanges } from './following';
import { GraphView } from './graph/graphView';
import { useNow, useRunGraph } from './graph/useRunGraph';
import { StateIcon, Stop } from './icons';
import { IN_CELL } from './liveTurn';
import { takeOut } from './outOfView';
import { StepAsks } from './stepAsks';

/** A run that the cell itself is need not stand in the kernel's own form as well. */
const DRAWN = 'jp-Ozzie-mod-graphed';
const RUN = 'jp-Ozzie-cellRun';
/** So long the graph stays after the run has ended, unless its saved picture is there before. */
export const STAYS_MS = 4_000;

export interface IRunParts extends Omit<IAskParts, 'api' | 'board'> {
  readonly api: IAskParts['api'] & Pick<OzzieApi, 'graph' | 'runStep'>;
  readonly board: IAskParts['board'] & Pick<TaskBoard, 'taskChanged' | 'renewed' | 'isPartOf' | 'row'>;
  readonly onStop: (taskId: string) => void;
  readonly onAct: (act: TaskAct, taskId: string) => void;
  readonly onTask: (taskId: string) => void;
  /** The outputs of a cell with a run have changed: its saved picture may be there. */
  readonly onOutputs: () => void;
}

interface IDrawn {
  readonly run: IOwnRun;
  readonly area: HTMLElement;
  readonly node: HTMLElement;
  readonly root: Root;
  readonly outputs: MutationObserver;
  /** Whether the kernel's own form says less, and nothing else. */
  isInstead: boolean;
  /** When it was seen to have ended, in milliseconds. */
  endedAt: number | null;
}

const drawn = new WeakMap<ICells, Map<string, IDrawn>>();

interface ICellRunProps extends IRunParts {
  readonly runId: string;
  /** Whether it has to be named: the cell says something else. */
  readonly isNamed: boolean;
  readonly onDrawn: (isDrawn: boolean) => void;
}

/** A run, as it is drawn in a cell. */
export function CellRun(props: ICellRunProps): React.JSX.Element {
  const { runId, isNamed, api, board, trans, onDrawn, onLeave, onStop, onAct, onTask } = props;
  const { run, width, ref } = useRunGraph(runId, api, board);
  useChanges(board.changed);
  const row = board.row(runId);
  const isGoingOn = row !== undefined && isOpen(row);
  const now = useNow(isGoingOn);
  const { graph } = run;
  const isDrawn = graph !== null;
  // A graph of before the end has steps that run.
  const told = graph && (isGoingOn || graph.running === 0) ? summary(graph, trans) : '';
  React.useLayoutEffect(() => {
    onDrawn(isDrawn);
  }, [isDrawn, onDrawn]);
  const label = row ? `${visibleLabel(row.title)}, ${stateWord(shownState(row), trans)}` : '';
  return (
    <div ref={ref} role="group" aria-label={label}>
      {row && graph && (
        <>
          <StateLine
            row={row}
            name={isNamed ? visibleLabel(row.title) : ''}
            told={told}
            now={now}
            trans={trans}
            onStop={isGoingOn ? onStop : null}
            onAct={onAct}
          />
          <GraphView {...{ graph, api, width, now, trans, isNamed, onTask, onLeave }} />
        </>
      )}
      {row && <StepAsks {...props} waiting={row.waiting} isAlone={(graph?.running ?? 0) === 0} />}
    </div>
  );
}

interface IStateLineProps {
  readonly row: TaskRow;
  /** Empty where the cell says it. */
  readonly name: string;
  readonly told: string;
  readonly now: number;
  readonly trans: ITranslate;
  readonly onStop: ((taskId: string) => void) | null;
  readonly onAct: (act: TaskAct, taskId: string) => void;
}

/** One line that never wraps: what has no room is left out, the figures first. */
function StateLine({ row, name, told, now, trans, onStop, onAct }: IStateLineProps): React.JSX.Element {
  const parts = [
    heldText(row, trans),
    elapsed((row.finishedAt ?? now) - row.createdAt, trans),
    told,
    row.tokens > 0 ? trans.__('%1 tokens', row.tokens.toLocaleString()) : '',
    row.cost ? money(row.cost) : ''
  ];
  return (
    <div className="jp-Ozzie-stateLine">
      <StateIcon row={row} />
      {name && <span className="jp-Ozzie-runName">{name}</span>}
      <b>{stateWord(shownState(row), trans)}</b>
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

/**
 * Draw these runs below their cells in a notebook, in this order, and take away what ended: once `isOver` says that it
 * need not be shown any longer, or after a while.
 */
export function drawRuns(
  notebook: ICells,
  runs: readonly IOwnRun[],
  parts: IRunParts,
  isOver: (run: IOwnRun) => boolean
): void {
  const known = drawn.get(notebook) ?? new Map<string, IDrawn>();
  drawn.set(notebook, known);
  /** What the one that comes before it stands above, by cell. */
  const next = new Map<HTMLElement, HTMLElement>();
  for (const run of [...runs].reverse()) {
    const { taskId } = run.row;
    const cell = notebook.widgets.find(each => each.model.id === run.turn.cellId);
    const area = cell?.node.querySelector<HTMLElement>('.jp-Cell-outputArea') ?? null;
    const old = known.get(taskId);
    const isThere = old !== undefined && area !== null && area.contains(old.node);
    if (isThere) {
      old.endedAt = null; // one that was tried again goes on
    } else if (old) {
      takeAway(known, old);
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
    // What the turn asks by now stands below it, and does not move from under the hand.
    const isLate = Date.now() - old.endedAt > STAYS_MS && !(turn && needsPerson(turn));
    if (!isShown || isOver(old.run) || isLate) {
      takeAway(known, old);
    }
  }
}

/** Whether a run of the notebook is drawn. */
export function hasRuns(notebook: ICells): boolean {
  return (drawn.get(notebook)?.size ?? 0) > 0;
}

function draw(
  known: Map<string, IDrawn>,
  run: IOwnRun,
  area: HTMLElement,
  next: HTMLElement | null,
  parts: IRunParts
): IDrawn {
  const node = document.createElement('div');
  node.className = `${IN_CELL} ${RUN}`;
  // What the turn itself asks stands last.
  area.insertBefore(node, next ?? area.querySelector(`:scope > .${IN_CELL}:not(.${RUN})`));
  const isNamed = isHandedOver(run);
  const root = createRoot(node);
  const outputs = new MutationObserver(() => parts.onOutputs());
  outputs.observe(area, { childList: true });
  const made: IDrawn = { run, area, node, root, outputs, isInstead: false, endedAt: null };
  known.set(run.row.taskId, made);
  const onDrawn = (isDrawn: boolean): void => {
    made.isInstead = isDrawn && !isNamed;
    hideForm(known, area);
  };
  root.render(<CellRun {...parts} {...{ isNamed, onDrawn }} runId={run.row.taskId} />);
  return made;
}

/** Hide what the kernel shows as long as any run of the cell stands there instead. */
function hideForm(known: ReadonlyMap<string, IDrawn>, area: HTMLElement): void {
  area.classList.toggle(
    DRAWN,
    [...known.values()].some(each => each.area === area && each.isInstead)
  );
}

function takeAway(known: Map<string, IDrawn>, old: IDrawn): void {
  old.outputs.disconnect();
  takeOut(old.node);
  old.root.unmount();
  known.delete(old.run.row.taskId);
  hideForm(known, old.area);
}
