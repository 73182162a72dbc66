/**
 * What a turn asks, below its cell: its approvals, or a question; or what skills ask that it has handed work over to, but
 * for runs, which are drawn with what they ask. It stands beside Lab's outputs and never in them: nothing
 * of it is saved, and it is there without the kernel (docs/adr/0027).
 */

import * as React from 'react';
import { createRoot, type Root } from 'react-dom/client';

import type { OzzieApi } from '../api/requests';
import type { ApprovalBook } from '../model/approvals';
import type { TaskBoard } from '../model/board';
import { needsPerson, type TaskRow } from '../model/fold';
import { isRun } from '../model/ownRuns';
import type { ITranslate } from '../model/wording';
import { ApprovalCard } from './approvalCard';
import { useChanges } from './following';
import { IN_CELL } from './liveTurn';
import { QuestionCard } from './questionCard';
import { StepAsks } from './stepAsks';

/** As far as a notebook is needed here. */
export interface ICells {
  readonly widgets: readonly { readonly model: { readonly id: string }; readonly node: HTMLElement }[];
}

export type Asking = Pick<TaskRow, 'taskId' | 'cellId' | 'mode' | 'position' | 'status' | 'waiting'>;

/** What the cards are drawn with. */
export interface IAskParts {
  readonly api: Pick<OzzieApi, 'task' | 'answer' | 'approvalCard' | 'artifactText'>;
  readonly approvals: ApprovalBook;
  readonly board: Pick<TaskBoard, 'changed' | 'state' | 'row' | 'isPartOf' | 'shownIn'>;
  readonly trans: ITranslate;
  /** Leave a card by Esc. */
  readonly onLeave: () => void;
}

/** What the extension shows itself need not stand in the kernel's own form as well. */
const ASKING = 'jp-Ozzie-mod-asking';
const cards = new WeakMap<ICells, CellAsks>();

class CellAsks {
  constructor(
    private task: Asking,
    private readonly area: HTMLElement,
    private readonly parts: IAskParts
  ) {
    this.node = area.appendChild(document.createElement('div'));
    this.node.className = IN_CELL;
    this.root = createRoot(this.node);
    this.render();
  }

  dispose(): void {
    this.root.unmount();
    this.node.remove();
    this.area.classList.remove(ASKING);
  }

  isOf(task: Asking, area: HTMLElement | null): boolean {
    return this.task.taskId === task.taskId && area !== null && area.contains(this.node);
  }

  /** The task was heard of since: it may ask something else. */
  heard(task: Asking): void {
    if (task.position !== this.task.position || task.status !== this.task.status) {
      this.task = task;
      this.render();
    }
  }

  private render(): void {
    const { taskId, position, status } = this.task;
    const { api, trans } = this.parts;
    this.root.render(
      status === 'WAITING_APPROVAL' ? (
        <CellApprovals taskId={taskId} {...this.parts} onShown={this.onShown} />
      ) : status === 'WAITING_INPUT' ? (
        <QuestionCard taskId={taskId} version={position} api={api} trans={trans} onShown={this.onShown} />
      ) : (
        <HandedOverAsks taskId={taskId} {...this.parts} />
      )
    );
  }

  private readonly onShown = (isShown: boolean): void => {
    this.area.classList.toggle(ASKING, isShown);
  };

  private readonly node: HTMLElement;
  private readonly root: Root;
}

interface ICellApprovalsProps extends IAskParts {
  readonly taskId: string;
  readonly onShown: (isShown: boolean) => void;
}

/** The approvals of a task, the oldest first, each with its own buttons. */
function CellApprovals(props: ICellApprovalsProps): React.JSX.Element {
  const { taskId, approvals, board, api, trans, onLeave, onShown } = props;
  useChanges(approvals.changed, board.changed);
  const rows = approvals.of(taskId);
  const isShown = rows.length > 0;
  React.useEffect(() => {
    onShown(isShown);
    return () => onShown(false);
  }, [isShown, onShown]);
  return (
    <>
      {rows.map(row => (
        <ApprovalCard
          key={row.approval_id}
          row={row}
          book={approvals}
          api={api}
          trans={trans}
          isConnected={board.state === 'ready'}
          onLeave={onLeave}
        />
      ))}
    </>
  );
}

/** What is asked by whom a turn has handed work over to. */
function HandedOverAsks(props: IAskParts & { taskId: string }): React.JSX.Element {
  const { taskId, board } = props;
  useChanges(board.changed);
  const isHere = (row: TaskRow): boolean => board.isPartOf(row, taskId) && board.shownIn(row) === taskId;
  const waiting = (board.row(taskId)?.waiting ?? []).filter(isHere);
  return <StepAsks {...props} runId={taskId} isAlone={true} {...{ waiting, isHere }} />;
}

/** Whether a turn has something to ask in its cell, itself or by whom it has handed work over to. */
export function asksInCell(task: Asking, board: Pick<TaskBoard, 'shownIn'>): boolean {
  return needsPerson(task) || (!isRun(task) && task.waiting.some(row => board.shownIn(row) === task.taskId));
}

/** Draw what `task` asks below its cell, and take away what another one asked; without a task, only that. */
export function drawAsks(notebook: ICells, task: Asking | undefined, parts: IAskParts): void {
  const drawn = cards.get(notebook);
  const cell = task && notebook.widgets.find(each => each.model.id === task.cellId);
  const area = cell?.node.querySelector<HTMLElement>('.jp-Cell-outputArea') ?? null;
  if (drawn && task && drawn.isOf(task, area)) {
    drawn.heard(task);
    return;
  }
  drawn?.dispose();
  cards.delete(notebook);
  if (task && area) {
    cards.set(notebook, new CellAsks(task, area, parts));
  }
}
