/** The graph of one run, loaded again whenever the run or one of its steps changes. */

import { type ISignal, Signal } from '@lumino/signaling';

import type { TaskGraph } from '../api/protocol.gen';
import { type OzzieApi, RequestError } from '../api/requests';
import type { TaskBoard } from './board';
import type { TaskRow } from './fold';
import type { PageView } from './pageView';

/** Pause between two requests; longer for many steps, which change often and show little. */
const LOAD_MS = 250;
const LOAD_MANY_MS = 1_000;
const MANY = 60;
const TRY_AGAIN_MS = 2_000;
/** Round widths, so that a scrollbar that comes and goes causes no new layout. */
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

  /** The latest graph; null before the first. */
  get graph(): TaskGraph | null {
    return this._graph;
  }

  /** Whether the task has no graph, such as a skill that is one agent. */
  get isAbsent(): boolean {
    return this._isAbsent;
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Set the available width in px. Nothing is requested before that. */
  setWidth(width: number): void {
    const fits = Math.floor(width / GRID_PX) * GRID_PX;
    if (fits > 0 && fits !== this._width) {
      this._width = fits;
      this._requestedAt = -Infinity;
      this.soon();
    }
  }

  private readonly onTask = (_: unknown, row: TaskRow): void => {
    if (row.taskId === this.runId || this.board.isPartOf(row, this.runId)) {
      this.soon();
    }
  };

  private readonly soon = (): void => {
    if (this._isLoading) {
      this._isWanted = true;
    } else if (this._timer === undefined && this._width > 0 && !this._isDisposed && !this._isAbsent) {
      const pause = (this._graph?.steps.length ?? 0) > MANY ? LOAD_MANY_MS : LOAD_MS;
      this._timer = setTimeout(() => void this.load(), Math.max(0, this._requestedAt + pause - Date.now()));
    }
  };

  private async load(): Promise<void> {
    this._timer = undefined;
    if (this.page.hidden) {
      return; // requested when the page becomes visible
    }
    this._isLoading = true;
    this._isWanted = false;
    this._requestedAt = Date.now();
    const width = this._width;
    try {
      const graph = await this.api.graph(this.runId, width, this._graph?.version);
      if (graph && !this._isDisposed) {
        this._graph = graph;
        this._changed.emit();
      }
    } catch (error) {
      if (error instanceof RequestError && error.status === 404) {
        this._isAbsent = true;
        this._changed.emit();
      } else if (!this._isDisposed) {
        this._timer = setTimeout(() => void this.load(), TRY_AGAIN_MS);
      }
    }
    this._isLoading = false;
    if (this._isWanted || width !== this._width) {
      this.soon();
    }
  }

  private _graph: TaskGraph | null = null;
  private _isAbsent = false;
  private _isDisposed = false;
  private _isLoading = false;
  private _isWanted = false;
  private _requestedAt = -Infinity;
  private _width = 0;
  private _timer: ReturnType<typeof setTimeout> | undefined;
  private readonly _changed = new Signal<this, void>(this);
}
