/** Follows the turns of an open notebook that its kernel can't show in this page, and writes their ends into it. */

import type { IOutput } from '@jupyterlab/nbformat';

import type { Task, TaskOutput } from '../api/protocol.gen';
import type { OzzieApi } from '../api/requests';
import type { TaskBoard } from './board';
import { isOpen, rowOf, type TaskRow } from './fold';
import type { Leadership } from './leadership';
import { isFinished, nextAction, outputsBefore, sessionOf, shownTurn, taskOf, withEnd } from './outputs';
import { isDelegated, type ITopRun } from './topRuns';
import type { PageView } from './pageView';

/** How often a running turn is redrawn. Slow is enough: the page that began it shows it live. */
const DRAW_MS = 1_000;
/** How long the kernel has to write the end of a turn begun in this page. */
const KERNEL_MS = 3_000;
const REFRESH_MS = 500;
const MAX_TASKS = 200;
/** A foreign session may become this notebook's through another page: check again after this time. */
const FOREIGN_MS = 60_000;

/** The part of an open notebook that is needed here. */
export interface INotebook {
  /** As in the contents API. */
  readonly path: string;
  /** When its file was written, in milliseconds. */
  readonly savedAt: number;
  /** The ids of its code cells. */
  readonly cellIds: readonly string[];
  readonly isDirty: boolean;
  /** Whether this page is connected to the kernel. */
  readonly hasKernel: boolean;
  /** Null if the cell is gone. */
  outputs(cellId: string): readonly IOutput[] | null;
  /** Replace the outputs, and mark the notebook as unsaved or not. */
  setOutputs(cellId: string, outputs: readonly IOutput[], toBeSaved: boolean): void;
  /** Record the session in the notebook's metadata. */
  note(sessionId: string): void;
  /**
   * Draw a running turn below the first `staying` outputs of the cell, hiding the others; null ends that. The notebook
   * is not changed.
   */
  draw(cellId: string, html: string | null, staying: number): void;
  /** The outputs of the cell in the notebook's file. */
  savedOutputs(cellId: string): Promise<readonly IOutput[]>;
  /** Reload the file: another page has saved it. */
  revert(): Promise<void>;
  markToBeSaved(): void;
}

/** A turn drawn below its cell, with its last output. */
interface IFollowed {
  readonly taskId: string;
  output: TaskOutput | null;
}

export class NotebookTurns {
  constructor(
    private readonly notebook: INotebook,
    private readonly api: Pick<OzzieApi, 'tasks' | 'output'>,
    private readonly board: Pick<TaskBoard, 'rows' | 'row' | 'openRuns' | 'taskChanged' | 'renewed' | 'state'>,
    private readonly leadership: Pick<Leadership, 'isHeld' | 'take' | 'inherited'>,
    private readonly page: PageView = document
  ) {
    board.taskChanged.connect(this.onTask);
    board.renewed.connect(this.onRenewed);
    leadership.inherited.connect(this.onInherited);
    page.addEventListener('visibilitychange', this.onVisibility);
  }

  dispose(): void {
    this._isDisposed = true;
    this.board.taskChanged.disconnect(this.onTask);
    this.board.renewed.disconnect(this.onRenewed);
    this.leadership.inherited.disconnect(this.onInherited);
    this.page.removeEventListener('visibilitychange', this.onVisibility);
    clearTimeout(this._refreshTimer);
    clearTimeout(this._drawing);
    this._waiting.forEach(timer => clearTimeout(timer));
  }

  /** The newest open turn of this notebook. */
  get openTask(): TaskRow | undefined {
    return this.board.rows.find(row => isOpen(row) && this.isOfThis(row));
  }

  /** The open runs of skills in its cells, the oldest first, including those that a turn delegated to. */
  get openRuns(): readonly ITopRun[] {
    const inCells = this.board.openRuns.filter(({ turn }) => turn.cellId !== '' && this.isOfThis(turn));
    return inCells.filter(({ turn }) => !this.isOvertaken(turn.cellId, turn.taskId));
  }

  /**
   * Whether an ended run need not be shown any longer: its picture is in the cell, or the cell was run again. Delegated
   * runs have no picture.
   */
  isOver(run: ITopRun): boolean {
    const { cellId, taskId } = run.turn;
    const isSaved = !isDelegated(run) && isFinished(this.notebook.outputs(cellId) ?? [], taskId);
    return isSaved || this.isOvertaken(cellId, taskId);
  }

  /** Load the turns of this notebook and find those that this page missed. Changes nothing in the gateway. */
  async refresh(): Promise<void> {
    const unknown = [...this._unknown];
    this._unknown.clear();
    let tasks: readonly Task[];
    try {
      tasks = await this.api.tasks({ notebook: this.notebook.path, limit: MAX_TASKS });
    } catch {
      return; // no Ozzie, or no connection: the board shows it and reports when it is back
    }
    const rows = tasks.map(task => this.board.row(task.task_id) ?? rowOf(task));
    for (const row of rows) {
      this._sessions.add(row.sessionId);
    }
    for (const sessionId of unknown) {
      this._foreign.set(sessionId, Date.now());
    }
    for (const cellId of this.notebook.cellIds) {
      const outputs = this.notebook.outputs(cellId);
      const known = rows.filter(row => !this.isBefore(cellId, row.taskId));
      const row = outputs && taskOf(cellId, shownTurn(outputs), known);
      if (row) {
        this.consider(cellId, row);
      }
    }
  }

  /** A cell begins to run in this page: its kernel shows the outputs. */
  cellStarted(cellId: string): void {
    this.leadership.take();
    this._foreign.clear();
    this._own.add(cellId);
    // Its former outputs are gone: ignore its earlier turns from now on.
    const newest = this.board.rows.reduce((last, row) => (row.taskId > last ? row.taskId : last), '');
    this._before.set(cellId, newest);
    this.unfollow(cellId);
  }

  /** A cell that ran in this page has ended, as far as the page knows. */
  cellEnded(cellId: string): void {
    this._own.delete(cellId);
    this._foreign.clear();
    const outputs = this.notebook.outputs(cellId) ?? [];
    const shown = shownTurn(outputs);
    if (shown && isFinished(outputs, shown.taskId)) {
      this._ended.add(shown.taskId);
    }
    const session = sessionOf(outputs);
    if (session) {
      this._sessions.add(session);
      this.notebook.note(session);
    }
  }

  /** The kernel died or restarts: it shows nothing more, but a turn may go on without it. */
  kernelGone(): void {
    if (this._own.size > 0) {
      this._own.clear();
      this.refreshSoon();
    }
  }

  private readonly onTask = (_: unknown, row: TaskRow): void => {
    if (!row.cellId || !this.notebook.cellIds.includes(row.cellId)) {
      return;
    }
    if (this._sessions.has(row.sessionId)) {
      this.consider(row.cellId, row);
    } else if (Date.now() - (this._foreign.get(row.sessionId) ?? -Infinity) > FOREIGN_MS) {
      // A copy of this notebook has the same cell ids: only the server knows whose turn it is.
      this._unknown.add(row.sessionId);
      this.refreshSoon();
    }
  };

  private readonly onRenewed = (): void => {
    this._foreign.clear();
    this.refreshSoon();
  };

  private readonly onVisibility = (): void => {
    if (!this.page.hidden && !this._isDrawing) {
      clearTimeout(this._drawing);
      this._drawing = undefined;
      this.drawSoon(0);
    }
  };

  private readonly refreshSoon = (): void => {
    this._refreshTimer ??= setTimeout(() => {
      this._refreshTimer = undefined;
      void this.refresh();
    }, REFRESH_MS);
  };

  private readonly onInherited = (): void => {
    const [cellId] = this._unsaved;
    if (cellId !== undefined) {
      void this.checkSaved(cellId);
    }
  };

  private consider(cellId: string, row: TaskRow): void {
    const outputs = this.notebook.outputs(cellId);
    if (outputs === null || this._isDisposed || this.isBefore(cellId, row.taskId)) {
      return;
    }
    if (isOpen(row)) {
      this._ended.delete(row.taskId); // retried
    }
    // This page also ends the turns that it follows or has begun, whenever the file was written.
    const isMine = this._own.has(cellId) || this._followed.get(cellId)?.taskId === row.taskId;
    switch (nextAction(shownTurn(outputs), row, isMine ? 0 : this.notebook.savedAt)) {
      case 'follow':
        if (!this._own.has(cellId) || !this.notebook.hasKernel) {
          if (this._followed.get(cellId)?.taskId !== row.taskId) {
            this._followed.set(cellId, { taskId: row.taskId, output: null });
          }
          this.drawSoon(0);
        }
        break;
      case 'finish':
        if (!this._ended.has(row.taskId)) {
          this.finishSoon(cellId, row.taskId);
        }
        break;
      case 'nothing':
        this.unfollow(cellId);
    }
  }

  private finishSoon(cellId: string, taskId: string): void {
    const key = `${cellId} ${taskId}`;
    if (!this._waiting.has(key)) {
      const wait = this._own.has(cellId) ? KERNEL_MS : 0;
      const timer = setTimeout(() => {
        this._waiting.delete(key);
        if (!this._ended.has(taskId)) {
          void this.finish(cellId, taskId);
        }
      }, wait);
      this._waiting.set(key, timer);
    }
  }

  /** Write the end of the turn, unless that has happened or the cell was run again. */
  private async finish(cellId: string, taskId: string): Promise<void> {
    let output: TaskOutput | null;
    try {
      output = await this.api.output(taskId);
    } catch {
      return; // after a reconnect, all turns are loaded again
    }
    const outputs = this.notebook.outputs(cellId);
    if (outputs === null || output === null || this._isDisposed || isOpen(output) || this.isOvertaken(cellId, taskId)) {
      return;
    }
    if (!isFinished(outputs, taskId)) {
      this.notebook.setOutputs(cellId, withEnd(outputs, output), this.leadership.isHeld);
      if (this.leadership.isHeld) {
        this.notebook.note(sessionOf(this.notebook.outputs(cellId) ?? []));
      } else {
        this._unsaved.add(cellId);
      }
    }
    this.unfollow(cellId);
  }

  private isOfThis({ sessionId, cellId }: TaskRow): boolean {
    return this._sessions.has(sessionId) || (cellId !== '' && this._own.has(cellId));
  }

  /** Whether the cell was run again, or has a newer turn from elsewhere. */
  private isOvertaken(cellId: string, taskId: string): boolean {
    return (
      this.isBefore(cellId, taskId) ||
      this.board.rows.some(row => row.cellId === cellId && row.taskId > taskId && this._sessions.has(row.sessionId))
    );
  }

  /** Whether the task is older than the last run of the cell in this page: ids grow. */
  private isBefore(cellId: string, taskId: string): boolean {
    return taskId <= (this._before.get(cellId) ?? '');
  }

  /** Save this end if the page that led until now has not. */
  private async checkSaved(cellId: string): Promise<void> {
    this._unsaved.clear();
    const shown = shownTurn(this.notebook.outputs(cellId) ?? []);
    try {
      const saved = shownTurn(await this.notebook.savedOutputs(cellId));
      if (shown && saved?.taskId === shown.taskId && saved.isFinal) {
        if (!this.notebook.isDirty) {
          await this.notebook.revert();
        }
        return;
      }
    } catch {
      // If in doubt, save.
    }
    this.notebook.markToBeSaved();
  }

  private unfollow(cellId: string): void {
    this._followed.delete(cellId);
    this.notebook.draw(cellId, null, 0);
  }

  /** A hidden page draws nothing; turns that end are still written. */
  private drawSoon(wait: number): void {
    if (this._drawing === undefined && this._followed.size > 0 && !this._isDisposed && !this.page.hidden) {
      this._drawing = setTimeout(() => void this.drawAll(), wait);
    }
  }

  private async drawAll(): Promise<void> {
    if (!this.page.hidden) {
      this._isDrawing = true;
      await Promise.allSettled([...this._followed].map(([cellId, followed]) => this.drawOne(cellId, followed)));
      this._isDrawing = false;
    }
    this._drawing = undefined;
    this.drawSoon(DRAW_MS);
  }

  private async drawOne(cellId: string, followed: IFollowed): Promise<void> {
    const { taskId } = followed;
    const output = (await this.api.output(taskId, followed.output?.version)) ?? followed.output;
    const outputs = this.notebook.outputs(cellId) ?? [];
    if (output === null || this._followed.get(cellId) !== followed || this._isDisposed) {
      return;
    }
    followed.output = output;
    if (isFinished(outputs, taskId)) {
      this.unfollow(cellId); // the kernel came back and was faster
    } else if (isOpen(output)) {
      this.notebook.draw(cellId, output.html, outputsBefore(outputs, taskId).length);
    } else {
      this.finishSoon(cellId, taskId);
    }
  }

  private _isDisposed = false;
  private _refreshTimer: ReturnType<typeof setTimeout> | undefined;
  private _drawing: ReturnType<typeof setTimeout> | undefined;
  private _isDrawing = false;
  private readonly _waiting = new Map<string, ReturnType<typeof setTimeout>>();
  /** Known sessions of this notebook. */
  private readonly _sessions = new Set<string>();
  /** Sessions with turns in the same cell ids, to be looked up. */
  private readonly _unknown = new Set<string>();
  /** Sessions that belong to another notebook, and when the server said so. */
  private readonly _foreign = new Map<string, number>();
  /** Cells that are running in this page. */
  private readonly _own = new Set<string>();
  /** The turns whose ends a kernel has shown in this page: an end that is gone was removed by somebody. */
  private readonly _ended = new Set<string>();
  /** By cell: the newest task at its last run in this page. */
  private readonly _before = new Map<string, string>();
  /** By cell: the turn drawn below it. */
  private readonly _followed = new Map<string, IFollowed>();
  /** Cells whose end another page should save. */
  private readonly _unsaved = new Set<string>();
}
