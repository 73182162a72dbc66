/** The approvals that a page knows, and what became of each: a first look by REST, then what the feed tells. */

import { type ISignal, Signal } from '@lumino/signaling';

import type { Approval, Extent } from '../api/approval';
import type { Followed, Recorded } from '../api/frames';
import { AskError, type OzzieApi } from '../api/requests';
import type { FeedSocket } from '../api/socket';
import type { TaskBoard } from './board';
import { needsPerson } from './fold';

/** An approval as a page shows it: what its facts tell, whoever told of them. */
export type ApprovalRow = Omit<Approval, 'in_force_until' | 'notebook' | 'run_id' | 'step'>;

export type Answer =
  | { readonly act: 'approve'; readonly extent: Extent; readonly binds: string }
  | { readonly act: 'reject'; readonly comment: string }
  | { readonly act: 'renew' };

/** An answer that was not taken after so long counts as not sent. */
const NO_ANSWER_MS = 5_000;
/** So long what was answered is still listed: nothing goes from under the eye at once. */
export const STAYS_MS = 10_000;
const MOST_PENDING = 1_000;
/** Of one task, when it is looked for what it waits for. */
const MOST_OF_TASK = 20;
/** So many that were answered are kept, of all that a page has seen in its weeks. */
const MOST_ANSWERED = 500;

/** The approval after one of its events, or the end of its task. What became of it stays: the first answer counts. */
export function foldApproval(row: ApprovalRow, event: Recorded): ApprovalRow {
  const isPending = row.status === 'pending';
  const ended = { answered_at: event.ts };
  switch (event.canonical) {
    case 'approval.granted': {
      const { extent, by, way } = event.payload;
      return isPending ? { ...row, ...ended, status: 'granted', extent, by, way } : row;
    }
    case 'approval.rejected': {
      const { comment, by, way } = event.payload;
      return isPending ? { ...row, ...ended, status: 'rejected', comment, by, way } : row;
    }
    case 'approval.expired': {
      const { why } = event.payload;
      if (isPending) {
        return { ...row, ...ended, status: 'expired', why };
      }
      return row.status === 'granted' && why !== 'time' ? { ...row, why } : row;
    }
    case 'task.succeeded':
    case 'task.failed':
    case 'task.cancelled':
      return isPending ? { ...row, ...ended, status: 'expired', why: 'task' } : row;
    default:
      return row;
  }
}

function asked(event: Extract<Recorded, { canonical: 'approval.requested' }>): ApprovalRow {
  const { cover, ...request } = event.payload;
  return {
    ...request,
    session_id: event.sessionId,
    task_id: event.taskId,
    status: 'pending',
    why: '',
    session_cover: cover === null ? null : cover.said,
    requested_at: event.ts,
    answered_at: null,
    extent: '',
    by: '',
    way: '',
    comment: ''
  };
}

type Api = Pick<OzzieApi, 'approval' | 'approvals' | 'approve' | 'reject' | 'renew'>;

export class ApprovalBook {
  constructor(
    private readonly api: Api,
    socket: Pick<FeedSocket, 'received'>,
    private readonly board: Pick<TaskBoard, 'renewed' | 'all' | 'row'>
  ) {
    socket.received.connect((_, events) => this.take(events));
    board.renewed.connect(() => void this.load());
  }

  /** Those that wait for an answer, the oldest first. */
  get pending(): readonly ApprovalRow[] {
    return this.sorted(row => row.status === 'pending');
  }

  /** What a person has to do with: what waits, what can be asked anew, and what was answered a moment ago. */
  get shown(): readonly ApprovalRow[] {
    return this.sorted(row => row.status === 'pending' || this._lately.has(row.approval_id) || this.isRenewable(row));
  }

  /** How many things need a person: each approval is one, and each task that waits for anything else. */
  get needYou(): number {
    const { pending } = this;
    const asking = new Set(pending.map(row => row.task_id));
    return pending.length + this.board.all.filter(row => needsPerson(row) && !asking.has(row.taskId)).length;
  }

  get(approvalId: string): ApprovalRow | undefined {
    return this._rows.get(approvalId);
  }

  /** Those of a task, as in `shown`. */
  of(taskId: string): readonly ApprovalRow[] {
    return this.shown.filter(row => row.task_id === taskId);
  }

  /** Whether its time was up and its task still waits, for nothing else: then it can be asked anew. */
  isRenewable(row: ApprovalRow): boolean {
    const isTimeUp = row.status === 'expired' && row.why === 'time';
    return isTimeUp && this.board.row(row.task_id)?.status === 'WAITING_APPROVAL' && !this.isOvertaken(row);
  }

  /** Whether the same call was asked for before, and would have done something else. */
  isChanged(row: ApprovalRow): boolean {
    const others = this.sorted(other => other.call_id === row.call_id && other.approval_id < row.approval_id);
    return others.at(-1)?.why === 'changed';
  }

  /** Anything above. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** A person is asked, now. */
  get asked(): ISignal<this, ApprovalRow> {
    return this._asked;
  }

  /** Look at one of which only its id is known. Raises AskError. */
  async look(approvalId: string): Promise<void> {
    try {
      this.put(await this.api.approval(approvalId));
    } catch (error) {
      if (error instanceof AskError && error.status === 404) {
        this._rows.delete(approvalId);
      } else {
        throw error;
      }
    } finally {
      this._changed.emit();
    }
  }

  /** Answer one. What became of it is known afterwards, whoever was first. Raises AskError. */
  async answer(approvalId: string, answer: Answer): Promise<void> {
    const late = new AbortController();
    const timer = setTimeout(() => late.abort(), NO_ANSWER_MS);
    try {
      await this.send(approvalId, answer, late.signal);
    } catch (error) {
      if (error instanceof AskError && error.status === 409) {
        await this.look(approvalId).catch(() => undefined); // the feed tells it too
      }
      throw error;
    } finally {
      clearTimeout(timer);
    }
    await this.look(approvalId).catch(() => undefined);
  }

  private async send(approvalId: string, answer: Answer, signal: AbortSignal): Promise<void> {
    switch (answer.act) {
      case 'approve':
        return this.api.approve(approvalId, { extent: answer.extent, binds: answer.binds }, signal);
      case 'reject':
        return this.api.reject(approvalId, { comment: answer.comment }, signal);
      case 'renew':
        return this.api.renew(approvalId, signal);
    }
  }

  /** Whether its task waits for another answer, or the same call was asked for again. */
  private isOvertaken(row: ApprovalRow): boolean {
    const isLater = (other: ApprovalRow): boolean =>
      other.call_id === row.call_id && other.approval_id > row.approval_id;
    return this.sorted(other => other.task_id === row.task_id).some(
      other => other.status === 'pending' || isLater(other)
    );
  }

  /** Look at all that wait. What the feed tells meanwhile may be newer than what is answered. */
  private async load(): Promise<void> {
    const loading = ++this._loading;
    const before = this.pending;
    const meanwhile: Recorded[] = [];
    this._meanwhile = meanwhile;
    try {
      const told = await this.api.approvals(MOST_PENDING, { status: ['pending'] });
      if (loading !== this._loading) {
        return;
      }
      told.forEach(row => this.put(row));
      meanwhile.forEach(event => this.fold(event));
      this._changed.emit();
      const gone = before.filter(row => told.every(other => other.approval_id !== row.approval_id));
      await Promise.allSettled([...gone.map(row => this.look(row.approval_id)), ...this.lookForExpired()]);
    } catch {
      // Whether there is a connection is the board's to say: with the next one, this is looked at again.
    } finally {
      if (this._meanwhile === meanwhile) {
        this._meanwhile = null;
      }
    }
  }

  /** A task that waits for an approval while none is pending: its time was up before this page was there. */
  private lookForExpired(): Promise<void>[] {
    const asking = new Set(this.pending.map(row => row.task_id));
    return this.board.all
      .filter(row => row.status === 'WAITING_APPROVAL' && !asking.has(row.taskId))
      .map(async row => {
        const told = await this.api.approvals(MOST_OF_TASK, { task_id: row.taskId });
        told.forEach(approval => this.put(approval));
        this._changed.emit();
      });
  }

  private take(events: readonly Followed[]): void {
    let isChanged = false;
    const known = new Set(this._rows.keys());
    for (const event of events) {
      if (event.canonical !== 'task.progress' && this.fold(event)) {
        this._meanwhile?.push(event);
        isChanged = true;
      }
    }
    if (isChanged) {
      this._changed.emit();
      // What was answered in the same breath, as after a cut of the network, nobody is asked any more.
      this.pending.filter(row => !known.has(row.approval_id)).forEach(row => this._asked.emit(row));
    }
  }

  /** Whether the event says something of approvals. */
  private fold(event: Recorded): boolean {
    switch (event.canonical) {
      case 'approval.requested':
        // What a second model is asked is answered in the same breath, and nobody else's to answer.
        if (event.payload.needs !== 'model' && !this._rows.has(event.payload.approval_id)) {
          this._rows.set(event.payload.approval_id, asked(event));
        }
        return true;
      case 'approval.granted':
      case 'approval.rejected':
      case 'approval.expired': {
        const row = this._rows.get(event.payload.approval_id);
        if (row) {
          this.set(row, foldApproval(row, event));
        }
        return true;
      }
      case 'task.succeeded':
      case 'task.failed':
      case 'task.cancelled':
        this.sorted(row => row.task_id === event.taskId).forEach(row => this.set(row, foldApproval(row, event)));
        return true;
      default:
        // Whether one can be asked anew hangs on the state of its task.
        return this._rows.size > 0 && event.canonical.startsWith('task.');
    }
  }

  private put(told: ApprovalRow): void {
    const known = this._rows.get(told.approval_id);
    // What was answered by now stays answered, whatever was on its way before.
    if (!known || known.status === 'pending' || told.status !== 'pending') {
      this.set(known, told);
    }
  }

  private set(before: ApprovalRow | undefined, row: ApprovalRow): void {
    this._rows.set(row.approval_id, row);
    if (before?.status === 'pending' && row.status !== 'pending') {
      this._lately.add(row.approval_id);
      setTimeout(() => {
        this._lately.delete(row.approval_id);
        this._changed.emit();
      }, STAYS_MS);
      this.forgetOld();
    }
  }

  private forgetOld(): void {
    const answered = this.sorted(row => row.status !== 'pending');
    answered.slice(0, Math.max(0, answered.length - MOST_ANSWERED)).forEach(row => this._rows.delete(row.approval_id));
  }

  private sorted(isWanted: (row: ApprovalRow) => boolean): ApprovalRow[] {
    return [...this._rows.values()].filter(isWanted).sort((a, b) => (a.approval_id < b.approval_id ? -1 : 1));
  }

  private _rows = new Map<string, ApprovalRow>();
  private readonly _lately = new Set<string>();
  /** What came while all were looked at; null while they are not. */
  private _meanwhile: Recorded[] | null = null;
  private _loading = 0;
  private readonly _changed = new Signal<this, void>(this);
  private readonly _asked = new Signal<this, ApprovalRow>(this);
}
