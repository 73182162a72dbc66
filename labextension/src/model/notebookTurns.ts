/** The turns of one open notebook that its kernel can't show in this page: follows them, and puts their end there. */

import type { IOutput } from '@jupyterlab/nbformat';

import type { Task, TaskOutput } from '../api/protocol.gen';
import type { OzzieApi } from '../api/requests';
import type { TaskBoard } from './board';
import { isOpen, rowOf, type TaskRow } from './fold';
import type { Lead } from './lead';
import { finished, isFinished, sessionOf, shownTurn, staying, taskOf, toDo } from './outputs';
import { type IOwnRun, isHandedOver } from './ownRuns';
import type { PageView } from './pageView';

/** How often it is looked how a turn goes on: calm, as whoever began it sees it live in its own page. */
const DRAW_MS = 1_000;
/** How long the kernel has to put the end of a turn that was begun in this page there itself. */
const KERNEL_MS = 3_000;
const LOOK_AGAIN_MS = 500;
const MOST_TASKS = 200;
/** A session that is none of this notebook's may become one by a word in another page: it is asked about again. */
const FOREIGN_MS = 60_000;

/** An open notebook, as far as it is needed here. */
export interface INotebook {
  /** Of the contents API. */
  readonly path: string;
  /** When its file was written, in milliseconds. */
  readonly savedAt: number;
  /** The ids of its code cells. */
  readonly cellIds: readonly string[];
  readonly isDirty: boolean;
  /** Whether this page hears from the kernel. */
  readonly hasKernel: boolean;
  /** Null where the cell is gone. */
  outputs(cellId: string): readonly IOutput[] | null;
  /** Put these there; the notebook is then to be saved, or not. */
  setOutputs(cellId: string, outputs: readonly IOutput[], toBeSaved: boolean): void;
  /** Note the session in the notebook's metadata. */
  note(sessionId: string): void;
  /** Draw a turn that goes on below the first `staying` outputs of the cell, in place of the others; null: no more.
   * Nothing of it gets into the notebook. */
  draw(cellId: string, html: string | null, staying: number): void;
  /** The outputs of the cell in the notebook's file. */
  savedOutputs(cellId: string): Promise<readonly IOutput[]>;
  /** Take up what stands in the file: another page has saved it. */
  revert(): Promise<void>;
  markToBeSaved(): void;
}

/** A turn that is drawn below its cell, with what was told of it last. */
interface IFollowed {
  readonly taskId: string;
  told: TaskOutput | null;
}

export class NotebookTurns {
  constructor(
    private readonly notebook: INotebook,
    private readonly api: Pick<OzzieApi, 'tasks' | 'output'>,
    private readonly board: Pick<TaskBoard, 'rows' | 'row' | 'openRuns' | 'taskChanged' | 'renewed' | 'state'>,
    private readonly lead: Pick<Lead, 'isHeld' | 'take' | 'inherited'>,
    private readonly page: PageView = document
  ) {
    board.taskChanged.connect(this.onTask);
    board.renewed.connect(this.onRenewed);
    lead.inherited.connect(this.onInherited);
    page.addEventListener('visibilitychange', this.onVisibility);
  }

  dispose(): void {
    this._isDisposed = true;
    this.board.taskChanged.disconnect(this.onTask);
    this.board.renewed.disconnect(this.onRenewed);
    this.lead.inherited.disconnect(this.onInherited);
    this.page.removeEventListener('visibilitychange', this.onVisibility);
    clearTimeout(this._looking);
    clearTimeout(this._drawing);
    this._waiting.forEach(timer => clearTimeout(timer));
  }

  /** The newest turn of this notebook that goes on. */
  get openTask(): TaskRow | undefined {
    return this.board.rows.find(row => isOpen(row) && this.isOfThis(row));
  }

  /** The runs of skills that go on in its cells, the oldest first: those, too, that a turn has handed work over to. */
  get openRuns(): readonly IOwnRun[] {
    const inCells = this.board.openRuns.filter(({ turn }) => turn.cellId !== '' && this.isOfThis(turn));
    return inCells.filter(({ turn }) => !this.isOvertaken(turn.cellId, turn.taskId));
  }

  /**
   * Whether a run that has ended need not be shown any longer: its picture stands in the cell, or that was run again.
   * Of what a turn has handed over there is no picture.
   */
  isOver(run: IOwnRun): boolean {
    const { cellId, taskId } = run.turn;
    const isSaved = !isHandedOver(run) && isFinished(this.notebook.outputs(cellId) ?? [], taskId);
    return isSaved || this.isOvertaken(cellId, taskId);
  }

  /** Look which turns there are, and which of them this page has missed. Asks, and changes nothing in the gateway. */
  async look(): Promise<void> {
    const asked = [...this._unknown];
    this._unknown.clear();
    let tasks: readonly Task[];
    try {
      tasks = await this.api.tasks({ notebook: this.notebook.path, limit: MOST_TASKS });
    } catch {
      return; // no Ozzie, or no connection: the board says so, and whoever comes back looks again
    }
    const rows = tasks.map(task => this.board.row(task.task_id) ?? rowOf(task));
    for (const row of rows) {
      this._sessions.add(row.sessionId);
    }
    for (const sessionId of asked) {
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

  /** A cell is run in this page: its kernel shows what comes. */
  begun(cellId: string): void {
    this.lead.take();
    this._foreign.clear();
    this._own.add(cellId);
    // What it showed is gone, and its earlier turns with it, whatever is still heard of them.
    const newest = this.board.rows.reduce((last, row) => (row.taskId > last ? row.taskId : last), '');
    this._before.set(cellId, newest);
    this.letGo(cellId);
  }

  /** A cell that was run in this page has ended, as far as the page was told. */
  ended(cellId: string): void {
    this._own.delete(cellId);
    this._foreign.clear();
    const session = sessionOf(this.notebook.outputs(cellId) ?? []);
    if (session) {
      this._sessions.add(session);
      this.notebook.note(session);
    }
  }

  /** The kernel died, or is started again: it shows nothing more of what ran, and a turn may go on without it. */
  kernelGone(): void {
    if (this._own.size > 0) {
      this._own.clear();
      this.lookSoon();
    }
  }

  private readonly onTask = (_: unknown, row: TaskRow): void => {
    if (!row.cellId || !this.notebook.cellIds.includes(row.cellId)) {
      return;
    }
    if (this._sessions.has(row.sessionId)) {
      this.consider(row.cellId, row);
    } else if (Date.now() - (this._foreign.get(row.sessionId) ?? -Infinity) > FOREIGN_MS) {
      // A copy of this notebook has cells of the same ids: only the server knows whose turn it is.
      this._unknown.add(row.sessionId);
      this.lookSoon();
    }
  };

  private readonly onRenewed = (): void => {
    this._foreign.clear();
    this.lookSoon();
  };

  private readonly onVisibility = (): void => {
    if (!this.page.hidden && !this._isDrawing) {
      clearTimeout(this._drawing);
      this._drawing = undefined;
      this.drawSoon(0);
    }
  };

  private readonly lookSoon = (): void => {
    this._looking ??= setTimeout(() => {
      this._looking = undefined;
      void this.look();
    }, LOOK_AGAIN_MS);
  };

  private readonly onInherited = (): void => {
    const [cellId] = this._owed;
    if (cellId !== undefined) {
      void this.payBack(cellId);
    }
  };

  private consider(cellId: string, row: TaskRow): void {
    const outputs = this.notebook.outputs(cellId);
    if (outputs === null || this._isDisposed || this.isBefore(cellId, row.taskId)) {
      return;
    }
    // What this page follows, or has begun, it also ends, whenever the file was written.
    const isMine = this._own.has(cellId) || this._followed.get(cellId)?.taskId === row.taskId;
    switch (toDo(shownTurn(outputs), row, isMine ? 0 : this.notebook.savedAt)) {
      case 'follow':
        if (!this._own.has(cellId) || !this.notebook.hasKernel) {
          if (this._followed.get(cellId)?.taskId !== row.taskId) {
            this._followed.set(cellId, { taskId: row.taskId, told: null });
          }
          this.drawSoon(0);
        }
        break;
      case 'finish':
        this.finishSoon(cellId, row.taskId);
        break;
      case 'nothing':
        this.letGo(cellId);
    }
  }

  private finishSoon(cellId: string, taskId: string): void {
    const key = `${cellId} ${taskId}`;
    if (!this._waiting.has(key)) {
      const wait = this._own.has(cellId) ? KERNEL_MS : 0;
      const timer = setTimeout(() => {
        this._waiting.delete(key);
        void this.finish(cellId, taskId);
      }, wait);
      this._waiting.set(key, timer);
    }
  }

  /** Put the end of the turn there, unless somebody did, or the cell was run again. */
  private async finish(cellId: string, taskId: string): Promise<void> {
    let told: TaskOutput | null;
    try {
      told = await this.api.output(taskId);
    } catch {
      return; // when the connection is back, all is looked at again
    }
    const outputs = this.notebook.outputs(cellId);
    if (outputs === null || told === null || this._isDisposed || isOpen(told) || this.isOvertaken(cellId, taskId)) {
      return;
    }
    if (!isFinished(outputs, taskId)) {
      this.notebook.setOutputs(cellId, finished(outputs, told), this.lead.isHeld);
      if (this.lead.isHeld) {
        this.notebook.note(sessionOf(this.notebook.outputs(cellId) ?? []));
      } else {
        this._owed.add(cellId);
      }
    }
    this.letGo(cellId);
  }

  private isOfThis({ sessionId, cellId }: TaskRow): boolean {
    return this._sessions.has(sessionId) || (cellId !== '' && this._own.has(cellId));
  }

  /** Whether the cell was run again since, or a newer turn of it has begun elsewhere. */
  private isOvertaken(cellId: string, taskId: string): boolean {
    return (
      this.isBefore(cellId, taskId) ||
      this.board.rows.some(row => row.cellId === cellId && row.taskId > taskId && this._sessions.has(row.sessionId))
    );
  }

  /** Whether the task was there before the cell was run in this page last: ids grow. */
  private isBefore(cellId: string, taskId: string): boolean {
    return taskId <= (this._before.get(cellId) ?? '');
  }

  /** What another page was to save, it may not have: then it is for this one to do. */
  private async payBack(cellId: string): Promise<void> {
    this._owed.clear();
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
      // Nothing is lost by a notebook that is to be saved.
    }
    this.notebook.markToBeSaved();
  }

  private letGo(cellId: string): void {
    this._followed.delete(cellId);
    this.notebook.draw(cellId, null, 0);
  }

  /** Nothing is asked for a page that nobody sees; what ends is put there all the same. */
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
    const told = (await this.api.output(taskId, followed.told?.version)) ?? followed.told;
    const outputs = this.notebook.outputs(cellId) ?? [];
    if (told === null || this._followed.get(cellId) !== followed || this._isDisposed) {
      return;
    }
    followed.told = told;
    if (isFinished(outputs, taskId)) {
      this.letGo(cellId); // the kernel came back, and was faster
    } else if (isOpen(told)) {
      this.notebook.draw(cellId, told.html, staying(outputs, taskId).length);
    } else {
      this.finishSoon(cellId, taskId);
    }
  }

  private _isDisposed = false;
  private _looking: ReturnType<typeof setTimeout> | undefined;
  private _drawing: ReturnType<typeof setTimeout> | undefined;
  private _isDrawing = false;
  private readonly _waiting = new Map<string, ReturnType<typeof setTimeout>>();
  /** Sessions that this notebook is known to have had. */
  private readonly _sessions = new Set<string>();
  /** Sessions with turns in cells of the same ids that are to be asked about. */
  private readonly _unknown = new Set<string>();
  /** Those of which the server said that they are another notebook's, and when. */
  private readonly _foreign = new Map<string, number>();
  /** Cells that run in this page. */
  private readonly _own = new Set<string>();
  /** The newest task that there was when each of the cells was run in this page. */
  private readonly _before = new Map<string, string>();
  /** The turn that is drawn below each cell that has one. */
  private readonly _followed = new Map<string, IFollowed>();
  /** Cells whose end this page shows and leaves to another to save. */
  private readonly _owed = new Set<string>();
}
