/** All tasks that a page knows: first from REST, then from the feed. */

import { type ISignal, Signal } from '@lumino/signaling';

import type { FeedEvent } from '../api/frames';
import type { Health, Task } from '../api/protocol.gen';
import { type OzzieApi, RequestError } from '../api/requests';
import type { FeedSocket } from '../api/socket';
import { fold, isOpen, isQueued, mergeTask, needsPerson, type TaskRow } from './fold';
import { ordered } from './order';
import { ancestors, type ITopRun, openRuns, shownIn, totalsWith } from './topRuns';
import type { PageView } from './pageView';
import type { TaskAct } from './taskActs';

export type BoardState = 'loading' | 'ready' | 'reconnecting' | 'absent' | 'refused' | 'updated';

/** How many of the newest tasks are loaded; and up to MAX_OPEN open ones, more than a page can show. */
const NEWEST = 200;
export const MAX_OPEN = 5_000;
const SUM_UP_MS = 400;
const MAX_AT_ONCE = 8;
/** How many tasks are kept, plus all open ones: a page may be open for weeks. */
export const MAX_KEPT = 1_000;
const TRY_AGAIN_MS = 5_000;
const OPEN_STATES: readonly Task['status'][] = [
  'CREATED',
  'QUEUED',
  'RUNNING',
  'WAITING_INPUT',
  'WAITING_APPROVAL',
  'PAUSED'
];

export class TaskBoard {
  constructor(
    private readonly api: OzzieApi,
    private readonly socket: FeedSocket,
    private readonly now: () => number = Date.now,
    private readonly page: PageView = document
  ) {
    page.addEventListener('visibilitychange', () => this.sumUpSoon());
    socket.received.connect((_, events) => this.take(events));
    socket.stateChanged.connect((_, state) => {
      if (state === 'reconnecting' && (this._state === 'ready' || this._state === 'loading')) {
        this.become('reconnecting');
      } else if (state === 'connected' && this._state === 'reconnecting') {
        void this.resume();
      }
    });
    socket.erased.connect(() => void this.load());
    socket.outdated.connect(() => {
      // Load a changed log at once, but wait between attempts if the server keeps refusing.
      const soon = this.now() - this._outdatedAt < TRY_AGAIN_MS;
      this._outdatedAt = this.now();
      if (soon) {
        this.become('reconnecting');
        clearTimeout(this._again);
        this._again = setTimeout(() => void this.load(), TRY_AGAIN_MS);
      } else {
        void this.load();
      }
    });
  }

  get state(): BoardState {
    return this._state;
  }

  /** Why there is nothing to show, if the state is `refused`. */
  get problem(): RequestError | null {
    return this._problem;
  }

  /** When news last arrived; while disconnected, the page shows that state. */
  get asOf(): number {
    return this._asOf;
  }

  get health(): Health | null {
    return this._health;
  }

  /** Cost of models today, in 1e-9 USD; null if a price is unknown. */
  get costToday(): number | null {
    return this._costToday;
  }

  /** The tasks that nobody delegated, in display order: a step is part of its run's row. */
  get rows(): readonly TaskRow[] {
    return (this._ordered ??= ordered(this.all.filter(row => !row.parentId).map(row => this.withWaiting(row))));
  }

  /** All tasks, including steps of runs. */
  get all(): readonly TaskRow[] {
    return [...this._rows.values()];
  }

  /** Whether no other tasks exist. */
  get isWhole(): boolean {
    return this._isWhole;
  }

  /** Whether all open tasks are known. */
  get hasAllOpen(): boolean {
    return this._hasAllOpen;
  }

  get running(): number {
    return this.rows.filter(row => row.status === 'RUNNING').length;
  }

  /** How many wait for others to end. */
  get queued(): number {
    return this.rows.filter(isQueued).length;
  }

  get needYou(): number {
    return this.all.filter(needsPerson).length;
  }

  row(taskId: string): TaskRow | undefined {
    const row = this._rows.get(taskId);
    return row && this.withWaiting(row);
  }

  /** Return the top task above this one, or its own id. */
  runOf(row: TaskRow): string {
    return ancestors(row, this._rows).at(-1) ?? row.taskId;
  }

  /** Whether a task was delegated by the other, however deep. */
  isPartOf(row: TaskRow, taskId: string): boolean {
    return ancestors(row, this._rows).includes(taskId);
  }

  /** Return the task with which a task's prompts are shown in a cell: its run or its turn. */
  shownIn(row: TaskRow): string {
    return shownIn(row, this._rows);
  }

  /** The open runs of skills that are outside other runs, oldest first. */
  get openRuns(): readonly ITopRun[] {
    return openRuns(this._rows);
  }

  /** Load a task if it is unknown. */
  learn(taskId: string): void {
    if (!this._rows.has(taskId)) {
      this._unknown.add(taskId);
      this.sumUpSoon();
    }
  }

  /** Emitted when any of the above changes. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Emitted with the row whenever news of a task arrives. */
  get taskChanged(): ISignal<this, TaskRow> {
    return this._taskChanged;
  }

  /** Emitted after a gap: whoever loaded more than the rows loads again. */
  get renewed(): ISignal<this, void> {
    return this._renewed;
  }

  /** Load everything, and follow the feed from there. */
  async load(): Promise<void> {
    clearTimeout(this._again);
    const loading = ++this._loading;
    try {
      const health = await this.api.health();
      // The feed reports everything after this position.
      const [newest, open] = await Promise.all([
        this.api.tasksUpTo(NEWEST),
        this.api.tasksUpTo(MAX_OPEN, { status: [...OPEN_STATES], all: true })
      ]);
      if (loading !== this._loading) {
        return;
      }
      this._health = health;
      this._problem = null;
      this._rows = new Map([...newest.tasks, ...open.tasks].map(task => [task.task_id, mergeTask(undefined, task)]));
      this._isWhole = newest.isAll;
      this._hasAllOpen = open.isAll;
      this.markCurrent();
      this.become('ready');
      this.socket.follow(health.position);
      this._renewed.emit();
      void this.sumUpToday();
    } catch (error) {
      if (loading === this._loading) {
        this.loadFailed(error);
      }
    }
  }

  /** Stop a task. Raises RequestError. */
  async cancel(taskId: string): Promise<void> {
    await this.api.cancel(taskId);
  }

  /** Pause, resume or retry a task. Raises RequestError. */
  async act(act: TaskAct, taskId: string): Promise<void> {
    await this.api.act(act, taskId);
  }

  private loadFailed(error: unknown): void {
    const problem =
      error instanceof RequestError
        ? error
        : new RequestError(0, 'page.bug', 'Ozzie could not be loaded.', String(error));
    this._problem = problem;
    if (problem.status === 0 || (problem.status >= 502 && problem.code === '')) {
      this.become('reconnecting');
    } else {
      this.become(problem.isAbsent ? 'absent' : 'refused');
    }
    // The cause may end by itself: another server stops, a gateway starts.
    if (!problem.isAbsent) {
      this._again = setTimeout(() => void this.load(), TRY_AGAIN_MS);
    }
  }

  /** Continue after a reconnect, unless it is another Ozzie. The feed reports what happened meanwhile. */
  private async resume(): Promise<void> {
    if (this._health === null) {
      return this.load();
    }
    try {
      const health = await this.api.health();
      if (health.home !== this._health.home) {
        await this.load();
        return;
      }
      this.become(health.version === this._health.version ? 'ready' : 'updated');
      this._health = health;
      this._renewed.emit();
      void this.sumUpToday();
    } catch (error) {
      this.loadFailed(error);
    }
  }

  private take(events: readonly FeedEvent[]): void {
    for (const event of events) {
      const row = this.folded(event);
      if (row) {
        this.put(row);
      } else {
        this._unknown.add(event.taskId);
      }
    }
    this.forgetOld();
    this.markCurrent();
    this.sumUpSoon();
    this._changed.emit();
  }

  /** Return undefined if only the server knows the task's new state. */
  private folded(event: FeedEvent): TaskRow | undefined {
    try {
      return fold(this._rows.get(event.taskId), event);
    } catch {
      return undefined; // an updated server may write a form unknown to this page
    }
  }

  private forgetOld(): void {
    if (this._rows.size > MAX_KEPT * 1.1) {
      const ended = this.all.filter(row => !isOpen(row)).sort((a, b) => (a.taskId < b.taskId ? 1 : -1));
      // Drop steps first: their run shows them.
      ended.sort((a, b) => Number(a.parentId !== '') - Number(b.parentId !== ''));
      const forgotten = ended.slice(Math.max(0, MAX_KEPT - (this._rows.size - ended.length)));
      forgotten.forEach(row => this._rows.delete(row.taskId));
      this._isWhole &&= forgotten.every(row => row.parentId !== '');
    }
  }

  private put(row: TaskRow): void {
    if (row !== this._rows.get(row.taskId)) {
      this._rows.set(row.taskId, row);
      // A step's usage counts for its run: the server sums that up.
      const counted = row.stale ? totalsWith(row, this._rows) : [];
      if (counted.length > 0) {
        this._rows.set(row.taskId, { ...row, stale: false });
        counted.forEach(each => this._rows.set(each.taskId, { ...each, stale: true }));
      }
      this._ordered = this._waiting = null;
      this._taskChanged.emit(row);
    }
  }

  /** Add the parts that wait for a person, however deep. */
  private withWaiting(row: TaskRow): TaskRow {
    this._waiting ??= this.waitingBelow();
    const waiting = this._waiting.get(row.taskId);
    return waiting ? { ...row, waiting } : row;
  }

  private waitingBelow(): Map<string, TaskRow[]> {
    const found = new Map<string, TaskRow[]>();
    const waiting = this.all.filter(each => each.parentId !== '' && needsPerson(each));
    for (const row of waiting.sort((a, b) => (a.taskId < b.taskId ? -1 : 1))) {
      for (const taskId of ancestors(row, this._rows)) {
        found.set(taskId, [...(found.get(taskId) ?? []), row]);
      }
    }
    return found;
  }

  private markCurrent(): void {
    this._asOf = this.now();
    this._ordered = this._waiting = null;
  }

  /** Have the server sum up the tasks with new totals, together rather than at each event. */
  private sumUpSoon(): void {
    const wanting = this._unknown.size > 0 || [...this._rows.values()].some(row => row.stale);
    // A hidden page needs no totals yet; events are handled all the same.
    if (wanting && this._summing === undefined && !this.page.hidden) {
      this._summing = setTimeout(() => void this.sumUp(), SUM_UP_MS);
    }
  }

  private async sumUp(): Promise<void> {
    const stale = [...this._rows.values()].filter(row => row.stale).map(row => row.taskId);
    const wanted = [...this._unknown, ...stale].slice(0, MAX_AT_ONCE);
    for (const taskId of wanted) {
      this._unknown.delete(taskId);
      const row = this._rows.get(taskId);
      if (row) {
        this._rows.set(taskId, { ...row, stale: false });
      }
    }
    await Promise.allSettled(
      wanted.map(async taskId => {
        const task = await this.api.task(taskId);
        this.put(mergeTask(this._rows.get(taskId), task));
      })
    );
    await this.sumUpToday();
    this._summing = undefined;
    this.sumUpSoon();
  }

  private async sumUpToday(): Promise<void> {
    try {
      this._costToday = (await this.api.usageToday()).cost;
    } catch {
      // Keep the figure; the socket reports connection problems.
    }
    this._changed.emit();
  }

  private become(state: BoardState): void {
    this._state = state;
    this._changed.emit();
  }

  private _state: BoardState = 'loading';
  private _problem: RequestError | null = null;
  private _health: Health | null = null;
  private _costToday: number | null = 0;
  private _asOf = 0;
  private _outdatedAt = -Infinity;
  private _rows = new Map<string, TaskRow>();
  private _ordered: readonly TaskRow[] | null = null;
  /** By task: the parts of it that wait for a person. */
  private _waiting: ReadonlyMap<string, readonly TaskRow[]> | null = null;
  private _isWhole = true;
  private _hasAllOpen = true;
  private _unknown = new Set<string>();
  private _loading = 0;
  private _summing: ReturnType<typeof setTimeout> | undefined;
  private _again: ReturnType<typeof setTimeout> | undefined;
  private readonly _changed = new Signal<this, void>(this);
  private readonly _taskChanged = new Signal<this, TaskRow>(this);
  private readonly _renewed = new Signal<this, void>(this);
}
