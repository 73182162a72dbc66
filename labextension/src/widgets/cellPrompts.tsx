/**
 * A turn's prompts below its cell: approvals, a question, or those of skills it delegated to, except runs, which show
 * their own. They are beside Lab's outputs, never in them: nothing is saved, and no kernel is needed (docs/adr/0027).
 */

import * as React from 'react';
import { createRoot, type Root } from 'react-dom/client';

import type { OzzieApi } from '../api/requests';
import type { ApprovalBook } from '../model/approvals';
import type { TaskBoard } from '../model/board';
import { needsPerson, type TaskRow } from '../model/fold';
import { isRun } from '../model/topRuns';
import type { ITranslate } from '../model/wording';
import { ApprovalCards } from './approvalCards';
import { useChanges } from './useChanges';
import { IN_CELL } from './liveTurn';
import { QuestionCard } from './questionCard';
import { StepPrompts } from './stepPrompts';

/** The part of a notebook that is needed here. */
export interface ICells {
  readonly widgets: readonly { readonly model: { readonly id: string }; readonly node: HTMLElement }[];
}

export type PromptingTask = Pick<TaskRow, 'taskId' | 'cellId' | 'mode' | 'position' | 'status' | 'waiting'>;

export interface IPromptParts {
  readonly api: Pick<OzzieApi, 'task' | 'answer' | 'approvalCard' | 'artifactText'>;
  readonly approvals: ApprovalBook;
  readonly board: Pick<TaskBoard, 'changed' | 'state' | 'row' | 'isPartOf' | 'shownIn'>;
  readonly trans: ITranslate;
  /** Called on Esc in a card. */
  readonly onLeave: () => void;
}

/** Hides the kernel's form of prompts shown here. */
const PROMPTING = 'jp-Ozzie-mod-asking';
const cards = new WeakMap<ICells, CellPrompts>();

class CellPrompts {
  constructor(
    private task: PromptingTask,
    private readonly area: HTMLElement,
    private readonly parts: IPromptParts
  ) {
    this.node = area.appendChild(document.createElement('div'));
    this.node.className = IN_CELL;
    this.root = createRoot(this.node);
    this.render();
  }

  dispose(): void {
    this.root.unmount();
    this.node.remove();
    this.area.classList.remove(PROMPTING);
  }

  isOf(task: PromptingTask, area: HTMLElement | null): boolean {
    return this.task.taskId === task.taskId && area !== null && area.contains(this.node);
  }

  /** Redraw if the task has changed: it may ask something else. */
  update(task: PromptingTask): void {
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
        <DelegatedPrompts taskId={taskId} {...this.parts} />
      )
    );
  }

  private readonly onShown = (isShown: boolean): void => {
    this.area.classList.toggle(PROMPTING, isShown);
  };

  private readonly node: HTMLElement;
  private readonly root: Root;
}

interface ICellApprovalsProps extends IPromptParts {
  readonly taskId: string;
  readonly onShown: (isShown: boolean) => void;
}

/** A task's approvals, the oldest first. */
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
    <ApprovalCards
      rows={rows}
      book={approvals}
      api={api}
      trans={trans}
      isConnected={board.state === 'ready'}
      onLeave={onLeave}
    />
  );
}

/** Prompts of the skills that a turn delegated to. */
function DelegatedPrompts(props: IPromptParts & { taskId: string }): React.JSX.Element {
  const { taskId, board } = props;
  useChanges(board.changed);
  const isHere = (row: TaskRow): boolean => board.isPartOf(row, taskId) && board.shownIn(row) === taskId;
  const waiting = (board.row(taskId)?.waiting ?? []).filter(isHere);
  return <StepPrompts {...props} runId={taskId} isAlone={true} {...{ waiting, isHere }} />;
}

/** Whether a turn, or a skill it delegated to, has something to ask in its cell. */
export function hasPrompts(task: PromptingTask, board: Pick<TaskBoard, 'shownIn'>): boolean {
  return needsPerson(task) || (!isRun(task) && task.waiting.some(row => board.shownIn(row) === task.taskId));
}

/** Draw what `task` asks below its cell, in place of any other task's; without a task, only remove that. */
export function drawPrompts(notebook: ICells, task: PromptingTask | undefined, parts: IPromptParts): void {
  const drawn = cards.get(notebook);
  const cell = task && notebook.widgets.find(each => each.model.id === task.cellId);
  const area = cell?.node.querySelector<HTMLElement>('.jp-Cell-outputArea') ?? null;
  if (drawn && task && drawn.isOf(task, area)) {
    drawn.update(task);
    return;
  }
  drawn?.dispose();
  cards.delete(notebook);
  if (task && area) {
    cards.set(notebook, new CellPrompts(task, area, parts));
  }
}
