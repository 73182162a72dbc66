/**
 * A run of a skill that goes on, below its cell: its state, its graph, and what its steps ask. As a question does, it
 * stands beside Lab's outputs and never in them (docs/adr/0040).
 */

import * as React from 'react';
import { createRoot, type Root } from 'react-dom/client';

import type { OzzieApi } from '../api/requests';
import { isOpen, shownState, type TaskRow } from '../model/fold';
import type { TaskBoard } from '../model/board';
import { summary } from '../model/graphWording';
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
import { StepAsks } from './stepAsks';

/** What is drawn here need not stand in the kernel's own form as well. */
const DRAWN = 'jp-Ozzie-mod-graphed';
const RUN = 'jp-Ozzie-cellRun';
/** So long the graph stays after the run has ended, unless its saved picture is there before. */
export const STAYS_MS = 4_000;

export interface IRunParts extends Omit<IAskParts, 'api' | 'board'> {
  readonly api: IAskParts['api'] & Pick<OzzieApi, 'graph' | 'runStep'>;
  readonly board: IAskParts['board'] & Pick<TaskBoard, 'taskChanged' | 'renewed' | 'runOf' | 'row'>;
  readonly onStop: (taskId: string) => void;
  readonly onAct: (act: TaskAct, taskId: string) => void;
  readonly onTask: (taskId: string) => void;
  /** The outputs of a cell with a run have changed: its saved picture may be there. */
  readonly onOutputs: () => void;
}

interface IDrawn {
  readonly area: HTMLElement;
  readonly node: HTMLElement;
  readonly root: Root;
  readonly outputs: MutationObserver;
  /** When it was seen to have ended, in milliseconds. */
  endedAt: number | null;
}

const drawn = new WeakMap<ICells, Map<string, IDrawn>>();

/** The run of a cell, as it is drawn there. */
export function CellRun(props: IRunParts & { runId: string; onDrawn: (isDrawn: boolean) => void }): React.JSX.Element {
  const { runId, api, board, trans, onDrawn, onLeave, onStop, onAct, onTask } = props;
  const { run, width, ref } = useRunGraph(runId, api, board);
  useChanges(board.changed);
  const row = board.row(runId);
  const isGoingOn = row !== undefined && isOpen(row);
  const now = useNow(isGoingOn);
  const { graph } = run;
  const isDrawn = graph !== null;
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
            told={summary(graph, trans)}
            now={now}
            trans={trans}
            onStop={isGoingOn ? onStop : null}
            onAct={onAct}
          />
          <GraphView {...{ graph, api, width, now, trans, onTask, onLeave }} />
        </>
      )}
      {row && <StepAsks {...props} waiting={row.waiting} isAlone={(graph?.running ?? 0) === 0} />}
    </div>
  );
}

interface IStateLineProps {
  readonly row: TaskRow;
  readonly told: string;
  readonly now: number;
  readonly trans: ITranslate;
  readonly onStop: ((taskId: string) => void) | null;
  readonly onAct: (act: TaskAct, taskId: string) => void;
}

/** One line that never wraps: what has no room is left out, the figures first (UX §1, §2.1). */
function StateLine({ row, told, now, trans, onStop, onAct }: IStateLineProps): React.JSX.Element {
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
 * Draw these runs below their cells in a notebook, and take away what ended: once `isSaved` says that its picture stands
 * in the cell, or after a while.
 */
export function drawRuns(
  notebook: ICells,
  runs: readonly TaskRow[],
  parts: IRunParts,
  isSaved: (row: TaskRow) => boolean
): void {
  const known = drawn.get(notebook) ?? new Map<string, IDrawn>();
  drawn.set(notebook, known);
  for (const row of runs) {
    const cell = notebook.widgets.find(each => each.model.id === row.cellId);
    const area = cell?.node.querySelector<HTMLElement>('.jp-Cell-outputArea') ?? null;
    const old = known.get(row.taskId);
    if (old && area?.contains(old.node)) {
      continue;
    }
    if (old) {
      takeAway(known, row.taskId, old);
    }
    if (area) {
      known.set(row.taskId, draw(area, row.taskId, parts));
    }
  }
  for (const [runId, old] of known) {
    if (runs.some(row => row.taskId === runId)) {
      continue;
    }
    const row = parts.board.row(runId);
    old.endedAt ??= Date.now();
    const isShown = row !== undefined && !isOpen(row) && old.area.isConnected;
    if (!isShown || isSaved(row) || Date.now() - old.endedAt > STAYS_MS) {
      takeAway(known, runId, old);
    }
  }
}

/** Whether a run of the notebook is drawn. */
export function hasRuns(notebook: ICells): boolean {
  return (drawn.get(notebook)?.size ?? 0) > 0;
}

function draw(area: HTMLElement, runId: string, parts: IRunParts): IDrawn {
  const node = document.createElement('div');
  node.className = `${IN_CELL} ${RUN}`;
  area.insertBefore(node, area.querySelector(`:scope > .${IN_CELL}`));
  const root = createRoot(node);
  const onDrawn = (isDrawn: boolean): void => void area.classList.toggle(DRAWN, isDrawn);
  root.render(<CellRun {...parts} runId={runId} onDrawn={onDrawn} />);
  const outputs = new MutationObserver(() => parts.onOutputs());
  outputs.observe(area, { childList: true });
  return { area, node, root, outputs, endedAt: null };
}

function takeAway(known: Map<string, IDrawn>, runId: string, { root, node, area, outputs }: IDrawn): void {
  outputs.disconnect();
  root.unmount();
  node.remove();
  area.classList.remove(DRAWN);
  known.delete(runId);
}
