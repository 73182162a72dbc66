/** The approvals that a page knows, and their answers: first from REST, then from the feed. */

import { type ISignal, Signal } from '@lumino/signaling';

import type { Approval, ApprovalScope } from '../api/approval';
import type { FeedEvent, RecordedEvent } from '../api/frames';
import { type OzzieApi, RequestError } from '../api/requests';
import type { FeedSocket } from '../api/socket';
import type { TaskBoard } from './board';
import { needsPerson } from './fold';

/** An approval as a page shows it, from REST or from events. */
export type ApprovalRow = Omit<Approval, 'in_force_until' | 'notebook' | 'run_id' | 'step'>;

export type Answer =
  | { readonly act: 'approve'; readonly extent: ApprovalScope; readonly binds: string }
  | { readonly act: 'reject'; readonly comment: string }
  | { readonly act: 'renew' };

/** An answer not accepted within this time counts as not sent. */
const NO_ANSWER_MS = 5_000;
/** How long an answered approval stays listed, so that nothing disappears at once. */
export const STAYS_MS = 10_000;
const MAX_PENDING = 1_000;
/** Limit of one task's approvals. */
const MAX_OF_TASK = 20;
/** Number of answered approvals kept; a page may be open for weeks. */
const MAX_ANSWERED = 500;

/** Return the approval after one of its events, or after the end of its task. The first answer counts. */
export function foldApproval(row: ApprovalRow, event: RecordedEvent): ApprovalRow {
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

function requestedRow(event: Extract<RecordedEvent, { canonical: 'approval.requested' }>): ApprovalRow {
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

  /** The approvals that wait for an answer, the oldest first. */
  get pending(): readonly ApprovalRow[] {
    return this.sorted(row => row.status === 'pending');
  }

  /** The approvals to show: pending, renewable, and answered a moment ago. */
  get shown(): readonly ApprovalRow[] {
    return this.sorted(row => row.status === 'pending' || this._lately.has(row.approval_id) || this.isRenewable(row));
  }

  /** How many things need a person: pending approvals, and tasks that wait for anything else. */
  get needYou(): number {
    const { pending } = this;
    const asking = new Set(pending.map(row => row.task_id));
    return pending.length + this.board.all.filter(row => needsPerson(row) && !asking.has(row.taskId)).length;
  }

  get(approvalId: string): ApprovalRow | undefined {
    return this._rows.get(approvalId);
  }

  /** The shown approvals of a task. */
  of(taskId: string): readonly ApprovalRow[] {
    return this.shown.filter(row => row.task_id === taskId);
  }

  /** Whether it expired and its task still waits, only for it: then it can be requested again. */
  isRenewable(row: ApprovalRow): boolean {
    const isTimeUp = row.status === 'expired' && row.why === 'time';
    return isTimeUp && this.board.row(row.task_id)?.status === 'WAITING_APPROVAL' && !this.isOvertaken(row);
  }

  /** Whether an earlier request for the same call was for something else. */
  isChanged(row: ApprovalRow): boolean {
    const others = this.sorted(other => other.call_id === row.call_id && other.approval_id < row.approval_id);
    return others.at(-1)?.why === 'changed';
  }

  /** Emitted when any of the above changes. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Emitted for each new request. */
  get requested(): ISignal<this, ApprovalRow> {
    return this._requested;
  }

  /** Load an approval by its id. Raises RequestError. */
  async fetch(approvalId: string): Promise<void> {
    try {
      this.put(await this.api.approval(approvalId));
    } catch (error) {
      if (error instanceof RequestError && error.status === 404) {
        this._rows.delete(approvalId);
      } else {
        throw error;
      }
    } finally {
      this._changed.emit();
    }
  }

  /** Answer an approval, then load its state, whoever was first. Raises RequestError. */
  async answer(approvalId: string, answer: Answer): Promise<void> {
    const late = new AbortController();
    const timer = setTimeout(() => late.abort(), NO_ANSWER_MS);
    try {
      await this.send(approvalId, answer, late.signal);
    } catch (error) {
      if (error instanceof RequestError && error.status === 409) {
        await this.fetch(approvalId).catch(() => undefined); // the feed reports it too
      }
      throw error;
    } finally {
      clearTimeout(timer);
    }
    await this.fetch(approvalId).catch(() => undefined);
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

  /** Whether its task waits for another answer, or the same call was requested again. */
  private isOvertaken(row: ApprovalRow): boolean {
    const isLater = (other: ApprovalRow): boolean =>
      other.call_id === row.call_id && other.approval_id > row.approval_id;
    return this.sorted(other => other.task_id === row.task_id).some(
      other => other.status === 'pending' || isLater(other)
    );
  }

  /** Load all pending approvals. Events that arrive meanwhile may be newer than the response. */
  private async load(): Promise<void> {
    const loading = ++this._loading;
    const before = this.pending;
    const meanwhile: RecordedEvent[] = [];
    this._meanwhile = meanwhile;
    try {
      const loaded = await this.api.approvals(MAX_PENDING, { status: ['pending'] });
      if (loading !== this._loading) {
        return;
      }
      loaded.forEach(row => this.put(row));
      meanwhile.forEach(event => this.fold(event));
      this._changed.emit();
      const gone = before.filter(row => loaded.every(other => other.approval_id !== row.approval_id));
      await Promise.allSettled([...gone.map(row => this.fetch(row.approval_id)), ...this.fetchExpired()]);
    } catch {
      // The board reports connection problems; this runs again after a reconnect.
    } finally {
      if (this._meanwhile === meanwhile) {
        this._meanwhile = null;
      }
    }
  }

  /** Load approvals that expired before this page was opened: their tasks wait and none is pending. */
  private fetchExpired(): Promise<void>[] {
    const asking = new Set(this.pending.map(row => row.task_id));
    return this.board.all
      .filter(row => needsPerson(row) && row.status === 'WAITING_APPROVAL' && !asking.has(row.taskId))
      .map(async row => {
        const loaded = await this.api.approvals(MAX_OF_TASK, { task_id: row.taskId });
        loaded.forEach(approval => this.put(approval));
        this._changed.emit();
      });
  }

  private take(events: readonly FeedEvent[]): void {
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
      // Don't announce requests answered in the same batch, as after a lost connection.
      this.pending.filter(row => !known.has(row.approval_id)).forEach(row => this._requested.emit(row));
    }
  }

  /** Fold the event; return whether it may affect approvals. */
  private fold(event: RecordedEvent): boolean {
    switch (event.canonical) {
      case 'approval.requested':
        // A second model's check is answered at once, and by nobody else.
        if (event.payload.needs !== 'model' && !this._rows.has(event.payload.approval_id)) {
          this._rows.set(event.payload.approval_id, requestedRow(event));
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
        // An approval's task state decides whether it is renewable.
        return this._rows.size > 0 && event.canonical.startsWith('task.');
    }
  }

  private put(loaded: ApprovalRow): void {
    const known = this._rows.get(loaded.approval_id);
    // An answered approval stays so, whatever was on its way.
    if (!known || known.status === 'pending' || loaded.status !== 'pending') {
      this.set(known, loaded);
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
    answered.slice(0, Math.max(0, answered.length - MAX_ANSWERED)).forEach(row => this._rows.delete(row.approval_id));
  }

  private sorted(isWanted: (row: ApprovalRow) => boolean): ApprovalRow[] {
    return [...this._rows.values()].filter(isWanted).sort((a, b) => (a.approval_id < b.approval_id ? -1 : 1));
  }

  private _rows = new Map<string, ApprovalRow>();
  private readonly _lately = new Set<string>();
  /** Events during `load`; null outside it. */
  private _meanwhile: RecordedEvent[] | null = null;
  private _loading = 0;
  private readonly _changed = new Signal<this, void>(this);
  private readonly _requested = new Signal<this, ApprovalRow>(this);
}
