/** The graph of one run, kept up to date: asked for anew whenever something is heard of the run or of its steps. */

import { type ISignal, Signal } from '@lumino/signaling';

import type { TaskGraph } from '../api/protocol.gen';
import { AskError, type OzzieApi } from '../api/requests';
import type { TaskBoard } from './board';
import type { TaskRow } from './fold';
import type { PageView } from './pageView';

/** How long is between two questions; of many steps much is told, and little of it can be seen. */
const ASK_MS = 250;
const ASK_MANY_MS = 1_000;
const MANY = 60;
const TRY_AGAIN_MS = 2_000;
/** Widths that differ by less are one: a scrollbar that comes and goes lays nothing out anew. */
const GRID_PX = 10;

export class RunGraph {
  constructor(
    readonly runId: string,
    private readonly api: Pick<OzzieApi, 'graph'>,
    private readonly board: Pick<TaskBoard, 'taskChanged' | 'renewed' | 'isPartOf'>,
    private readonly page: PageView = document
  ) {
    board.taskChanged.connect(this.onTask);
    board.renewed.connect(this.soon);
    page.addEventListener('visibilitychange', this.soon);
  }

  dispose(): void {
    this._isDisposed = true;
    this.board.taskChanged.disconnect(this.onTask);
    this.board.renewed.disconnect(this.soon);
    this.page.removeEventListener('visibilitychange', this.soon);
    clearTimeout(this._timer);
    Signal.clearData(this);
  }

  /** As it was told last; null before that. */
  get graph(): TaskGraph | null {
    return this._graph;
  }

  /** Whether the task is one that has none, such as a skill that is one agent. */
  get isAbsent(): boolean {
    return this._isAbsent;
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** So many px there are for it. Nothing is asked for before that is known. */
  setWidth(width: number): void {
    const fits = Math.floor(width / GRID_PX) * GRID_PX;
    if (fits > 0 && fits !== this._width) {
      this._width = fits;
      this._askedAt = -Infinity;
      this.soon();
    }
  }

  private readonly onTask = (_: unknown, row: TaskRow): void => {
    if (row.taskId === this.runId || this.board.isPartOf(row, this.runId)) {
      this.soon();
    }
  };

  private readonly soon = (): void => {
    if (this._isAsking) {
      this._isWanted = true;
    } else if (this._timer === undefined && this._width > 0 && !this._isDisposed && !this._isAbsent) {
      const pause = (this._graph?.steps.length ?? 0) > MANY ? ASK_MANY_MS : ASK_MS;
      this._timer = setTimeout(() => void this.ask(), Math.max(0, this._askedAt + pause - Date.now()));
    }
  };

  private async ask(): Promise<void> {
    this._timer = undefined;
    if (this.page.hidden) {
      return; // whoever looks at it again has it asked for
    }
    this._isAsking = true;
    this._isWanted = false;
    this._askedAt = Date.now();
    const width = this._width;
    try {
      const told = await this.api.graph(this.runId, width, this._graph?.version);
      if (told && !this._isDisposed) {
        this._graph = told;
        this._changed.emit();
      }
    } catch (error) {
      if (error instanceof AskError && error.status === 404) {
        this._isAbsent = true;
        this._changed.emit();
      } else if (!this._isDisposed) {
        this._timer = setTimeout(() => void this.ask(), TRY_AGAIN_MS);
      }
    }
    this._isAsking = false;
    if (this._isWanted || width !== this._width) {
      this.soon();
    }
  }

  private _graph: TaskGraph | null = null;
  private _isAbsent = false;
  private _isDisposed = false;
  private _isAsking = false;
  private _isWanted = false;
  private _askedAt = -Infinity;
  private _width = 0;
  private _timer: ReturnType<typeof setTimeout> | undefined;
  private readonly _changed = new Signal<this, void>(this);
}
