/** All tasks that a page knows, kept up to date: a first look by REST, then what the feed tells. */

import { type ISignal, Signal } from '@lumino/signaling';

import type { Followed } from '../api/frames';
import type { Health, Task } from '../api/protocol.gen';
import { AskError, type OzzieApi } from '../api/requests';
import type { FeedSocket } from '../api/socket';
import { fold, isOpen, isQueued, merged, needsPerson, type TaskRow } from './fold';
import { ordered } from './order';
import { above, countedFor, type IOwnRun, openRuns, shownIn } from './ownRuns';
import type { PageView } from './pageView';
import type { TaskAct } from './taskActs';

export type BoardState = 'loading' | 'ready' | 'reconnecting' | 'absent' | 'refused' | 'updated';

/** So many of the newest tasks are looked at, and all that are open, unless there are more than any page can show. */
const NEWEST = 200;
export const MOST_OPEN = 5_000;
const SUM_UP_MS = 400;
const MOST_AT_ONCE = 8;
/** So many tasks are kept, and all that are open: a page may be open for weeks. */
export const MOST_KEPT = 1_000;
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
        void this.back();
      }
    });
    socket.outdated.connect(() => {
      // A log that is another one is looked at once; a server that goes on refusing is not asked without a pause.
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

  /** Why there is nothing to show, where the state is `refused`. */
  get problem(): AskError | null {
    return this._problem;
  }

  /** When the last was heard; what is shown while the connection is lost is as of then. */
  get asOf(): number {
    return this._asOf;
  }

  get health(): Health | null {
    return this._health;
  }

  /** What models cost today, in 1e-9 USD; null where a price is unknown. */
  get costToday(): number | null {
    return this._costToday;
  }

  /** Those that nobody delegated, in the order in which they are shown: a step stands in the row of its run. */
  get rows(): readonly TaskRow[] {
    return (this._ordered ??= ordered(this.all.filter(row => !row.parentId).map(row => this.told(row))));
  }

  /** The steps of runs as well. */
  get all(): readonly TaskRow[] {
    return [...this._rows.values()];
  }

  /** Whether these are all tasks that there are. */
  get isWhole(): boolean {
    return this._isWhole;
  }

  /** Whether all are among them that are open. */
  get hasAllOpen(): boolean {
    return this._hasAllOpen;
  }

  get running(): number {
    return this.rows.filter(row => row.status === 'RUNNING').length;
  }

  /** How many wait until others have ended. */
  get queued(): number {
    return this.rows.filter(isQueued).length;
  }

  get needYou(): number {
    return this.all.filter(needsPerson).length;
  }

  row(taskId: string): TaskRow | undefined {
    const row = this._rows.get(taskId);
    return row && this.told(row);
  }

  /** The task that nobody delegated and that this one is a part of; itself where nobody delegated it. */
  runOf(row: TaskRow): string {
    return above(row, this._rows).at(-1) ?? row.taskId;
  }

  /** Whether a task was delegated by another one, however deep. */
  isPartOf(row: TaskRow, taskId: string): boolean {
    return above(row, this._rows).includes(taskId);
  }

  /** Where in a cell it is shown what a task asks: with the run that it is a step of, or with its turn. */
  shownIn(row: TaskRow): string {
    return shownIn(row, this._rows);
  }

  /** The runs of skills that go on and are part of no other run, the oldest first. */
  get openRuns(): readonly IOwnRun[] {
    return openRuns(this._rows);
  }

  /** Have the server tell of a task that is not known. */
  learn(taskId: string): void {
    if (!this._rows.has(taskId)) {
      this._unknown.add(taskId);
      this.sumUpSoon();
    }
  }

  /** Anything above. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** One task, each time that something is heard of it. */
  get taskChanged(): ISignal<this, TaskRow> {
    return this._taskChanged;
  }

  /** What is known may be of before a gap: whoever has looked at more than the rows looks again. */
  get renewed(): ISignal<this, void> {
    return this._renewed;
  }

  /** Look at everything anew, and follow from there. */
  async load(): Promise<void> {
    clearTimeout(this._again);
    const loading = ++this._loading;
    try {
      const health = await this.api.health();
      // Whatever happens from here on, the feed tells as well.
      const [newest, open] = await Promise.all([
        this.api.tasksUpTo(NEWEST),
        this.api.tasksUpTo(MOST_OPEN, { status: [...OPEN_STATES], all: true })
      ]);
      if (loading !== this._loading) {
        return;
      }
      this._health = health;
      this._problem = null;
      this._rows = new Map([...newest.tasks, ...open.tasks].map(task => [task.task_id, merged(undefined, task)]));
      this._isWhole = newest.isAll;
      this._hasAllOpen = open.isAll;
      this._heard();
      this.become('ready');
      this.socket.follow(health.position);
      this._renewed.emit();
      void this.sumUpToday();
    } catch (error) {
      if (loading === this._loading) {
        this.failed(error);
      }
    }
  }

  /** Stop a task. Raises AskError. */
  async cancel(taskId: string): Promise<void> {
    await this.api.cancel(taskId);
  }

  /** Hold a task, let it go on, or have it tried again. Raises AskError. */
  async act(act: TaskAct, taskId: string): Promise<void> {
    await this.api.act(act, taskId);
  }

  private failed(error: unknown): void {
    const problem =
      error instanceof AskError ? error : new AskError(0, 'page.bug', 'Ozzie could not be looked at.', String(error));
    this._problem = problem;
    if (problem.status === 0 || (problem.status >= 502 && problem.code === '')) {
      this.become('reconnecting');
    } else {
      this.become(problem.isAbsent ? 'absent' : 'refused');
    }
    // What keeps Ozzie away may end by itself: another server that goes, a gateway that starts.
    if (!problem.isAbsent) {
      this._again = setTimeout(() => void this.load(), TRY_AGAIN_MS);
    }
  }

  /** The connection stands again, and what happened meanwhile comes by the feed; but is it the same Ozzie? */
  private async back(): Promise<void> {
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
      this.failed(error);
    }
  }

  private take(events: readonly Followed[]): void {
    for (const event of events) {
      const row = this.folded(event);
      if (row) {
        this.put(row);
      } else {
        this._unknown.add(event.taskId);
      }
    }
    this.forgetOld();
    this._heard();
    this.sumUpSoon();
    this._changed.emit();
  }

  /** Undefined where only the server can say what the event makes of the task. */
  private folded(event: Followed): TaskRow | undefined {
    try {
      return fold(this._rows.get(event.taskId), event);
    } catch {
      return undefined; // a server that was updated writes it in a way that this page does not know
    }
  }

  private forgetOld(): void {
    if (this._rows.size > MOST_KEPT * 1.1) {
      const ended = this.all.filter(row => !isOpen(row)).sort((a, b) => (a.taskId < b.taskId ? 1 : -1));
      // Steps go first: their run tells of them.
      ended.sort((a, b) => Number(a.parentId !== '') - Number(b.parentId !== ''));
      const forgotten = ended.slice(Math.max(0, MOST_KEPT - (this._rows.size - ended.length)));
      forgotten.forEach(row => this._rows.delete(row.taskId));
      this._isWhole &&= forgotten.every(row => row.parentId !== '');
    }
  }

  private put(row: TaskRow): void {
    if (row !== this._rows.get(row.taskId)) {
      this._rows.set(row.taskId, row);
      // What a step uses counts for its run: the server sums that up, and not each of its steps.
      const counted = row.stale ? countedFor(row, this._rows) : [];
      if (counted.length > 0) {
        this._rows.set(row.taskId, { ...row, stale: false });
        counted.forEach(each => this._rows.set(each.taskId, { ...each, stale: true }));
      }
      this._ordered = this._waiting = null;
      this._taskChanged.emit(row);
    }
  }

  /** The row with what of it waits for a person, however deep. */
  private told(row: TaskRow): TaskRow {
    this._waiting ??= this.waitingBelow();
    const waiting = this._waiting.get(row.taskId);
    return waiting ? { ...row, waiting } : row;
  }

  private waitingBelow(): Map<string, TaskRow[]> {
    const found = new Map<string, TaskRow[]>();
    const waiting = this.all.filter(each => each.parentId !== '' && needsPerson(each));
    for (const row of waiting.sort((a, b) => (a.taskId < b.taskId ? -1 : 1))) {
      for (const taskId of above(row, this._rows)) {
        found.set(taskId, [...(found.get(taskId) ?? []), row]);
      }
    }
    return found;
  }

  private _heard(): void {
    this._asOf = this.now();
    this._ordered = this._waiting = null;
  }

  /** Have the server sum up the tasks whose figures changed, together and not at each of their events. */
  private sumUpSoon(): void {
    const wanting = this._unknown.size > 0 || [...this._rows.values()].some(row => row.stale);
    // A page that nobody sees can wait for its figures; what happens is heard all the same.
    if (wanting && this._summing === undefined && !this.page.hidden) {
      this._summing = setTimeout(() => void this.sumUp(), SUM_UP_MS);
    }
  }

  private async sumUp(): Promise<void> {
    const stale = [...this._rows.values()].filter(row => row.stale).map(row => row.taskId);
    const wanted = [...this._unknown, ...stale].slice(0, MOST_AT_ONCE);
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
        this.put(merged(this._rows.get(taskId), task));
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
      // The figure stays what it was; whether there is a connection is the socket's to say.
    }
    this._changed.emit();
  }

  private become(state: BoardState): void {
    this._state = state;
    this._changed.emit();
  }

  private _state: BoardState = 'loading';
  private _problem: AskError | null = null;
  private _health: Health | null = null;
  private _costToday: number | null = 0;
  private _asOf = 0;
  private _outdatedAt = -Infinity;
  private _rows = new Map<string, TaskRow>();
  private _ordered: readonly TaskRow[] | null = null;
  /** What was delegated and waits for a person, by each task above it. */
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
