/** A task as the sidebar shows it, folded from what the server tells; pure. */

import type { Followed, Recorded } from '../api/frames';
import type { Task } from '../api/protocol.gen';

export type TaskState = Task['status'];

/** A call of a tool that was begun and has no outcome yet. */
export interface RunningCall {
  readonly callId: string;
  readonly name: string;
  /** Whether the rules said that it only reads; what it is stopped in then has no effect. */
  readonly onlyReads: boolean;
  readonly started: boolean;
}

export interface TaskRow {
  readonly taskId: string;
  readonly sessionId: string;
  /** The notebook's cell that it came from; empty where it came from none. */
  readonly cellId: string;
  readonly title: string;
  /** A run of a skill is of mode GRAPH. */
  readonly mode: string;
  /** The task that delegated it; empty where nobody did. */
  readonly parentId: string;
  /** The one above all of these, as far as REST has told; else empty: `TaskBoard.runOf` knows. */
  readonly runId: string;
  /** What is part of it and waits for a person; only the board knows of other tasks. */
  readonly waiting: readonly TaskRow[];
  readonly channel: string;
  readonly model: string;
  readonly status: TaskState;
  /** Why it is in its state: an error's sentence, who paused it. */
  readonly reason: string;
  /** Whether it ended without anybody knowing what became of an effect of its. */
  readonly isUncertain: boolean;
  /** Whether its end was asked for and has not come. */
  readonly isStopping: boolean;
  /** Whether it is to be held at the end of what it is doing. */
  readonly isPausing: boolean;
  /** Milliseconds since 1970, as the next two. */
  readonly createdAt: number;
  readonly finishedAt: number | null;
  /** Microseconds since 1970: of the newest event that is in it. */
  readonly updatedAt: number;
  /** The same of what REST said last; 0 where it has not been asked. */
  readonly toldAt: number;
  /** Of the newest event that was folded into it; 0 while there was none. */
  readonly position: number;
  /** In 1e-9 USD; null where a price is unknown. */
  readonly cost: number | null;
  readonly tokens: number;
  readonly calls: readonly RunningCall[];
  /** What it does at this moment, where that is no tool. */
  readonly step: string;
  /** Turns of its session that come first. */
  readonly ahead: number;
  /** Whether its figures are older than what is known of it: only the server can sum up. */
  readonly stale: boolean;
}

/** Why a task failed of which nobody knows whether it did something. */
const UNCERTAIN = 'tool.uncertain';

const OPEN: ReadonlySet<TaskState> = new Set([
  'CREATED',
  'QUEUED',
  'RUNNING',
  'WAITING_INPUT',
  'WAITING_APPROVAL',
  'PAUSED'
]);

export const isOpen = (row: Pick<TaskRow, 'status'>): boolean => OPEN.has(row.status);

export const isQueued = (row: Pick<TaskRow, 'status'>): boolean => row.status === 'QUEUED' || row.status === 'CREATED';

export const needsPerson = (row: Pick<TaskRow, 'status'>): boolean =>
  row.status === 'WAITING_APPROVAL' || row.status === 'WAITING_INPUT';

/** What is said of it: a run waits where a step of it does. */
export const shownState = (row: Pick<TaskRow, 'status' | 'waiting'>): TaskState =>
  isOpen(row) ? (row.waiting[0]?.status ?? row.status) : row.status;

/** The skill and the step of a delegated task, which is titled so: "sums: gate". */
export function stepOf({ title }: Pick<TaskRow, 'title'>): { skill: string; step: string } {
  const at = title.indexOf(': ');
  return at < 0 ? { skill: '', step: title } : { skill: title.slice(0, at), step: title.slice(at + 2) };
}

/** Whether stopping it now may leave an effect half done: then a person is asked first. */
export const mayHaveEffect = (row: TaskRow): boolean => row.calls.some(call => call.started && !call.onlyReads);

/** What REST says of a task. */
export function rowOf(task: Task): TaskRow {
  return {
    taskId: task.task_id,
    sessionId: task.session_id ?? '',
    cellId: task.cell_id,
    title: task.title,
    mode: task.mode,
    parentId: task.parent_id ?? '',
    runId: task.run_id,
    waiting: [],
    channel: task.channel,
    model: task.model,
    status: task.status,
    reason: task.error?.message ?? task.reason,
    isUncertain: task.error?.code === UNCERTAIN,
    isStopping: task.stopping,
    isPausing: task.pausing,
    createdAt: Date.parse(task.created_at),
    finishedAt: task.finished_at === null ? null : Date.parse(task.finished_at),
    updatedAt: microseconds(task.updated_at),
    toldAt: microseconds(task.updated_at),
    position: 0,
    cost: task.cost,
    tokens: task.token_usage.input + task.token_usage.output,
    calls: [],
    step: '',
    ahead: 0,
    stale: false
  };
}

/** What is known of a task once REST has answered. Events may have come while it did: what they said stays. */
export function merged(row: TaskRow | undefined, task: Task): TaskRow {
  const told = rowOf(task);
  if (!row) {
    return told;
  }
  if (told.updatedAt < row.updatedAt) {
    return { ...row, cost: told.cost, tokens: told.tokens };
  }
  const { calls, step, ahead } = row;
  const goesOn = isOpen(told) && { calls, step, ahead };
  return { ...told, position: row.position, ...goesOn };
}

/**
 * The row after an event; undefined for a task of which only the server knows the beginning. Events that are in the row
 * already leave it as it is.
 */
export function fold(row: TaskRow | undefined, event: Followed): TaskRow | undefined {
  if (event.canonical === 'task.progress') {
    return row && { ...row, step: event.step, ahead: event.ahead ?? row.ahead };
  }
  const at = microseconds(event.ts);
  if (row && event.position <= row.position) {
    return row;
  }
  if (row && at < row.toldAt) {
    // REST knew of it already, unless the server's clock was put back: it is asked once more.
    return { ...row, position: event.position, stale: true };
  }
  const before = row ?? begun(event);
  return before && { ...before, ...changed(before, event), position: event.position, updatedAt: at };
}

function begun(event: Recorded): TaskRow | undefined {
  if (event.canonical !== 'message.received' && event.canonical !== 'task.created') {
    return undefined;
  }
  return {
    taskId: event.taskId,
    sessionId: event.sessionId,
    cellId: '',
    title: '',
    mode: '',
    parentId: '',
    runId: '',
    waiting: [],
    channel: '',
    model: '',
    status: 'CREATED',
    reason: '',
    isUncertain: false,
    isStopping: false,
    isPausing: false,
    createdAt: Date.parse(event.ts),
    finishedAt: null,
    updatedAt: 0,
    toldAt: 0,
    position: 0,
    cost: 0,
    tokens: 0,
    calls: [],
    step: '',
    ahead: 0,
    stale: false
  };
}

function changed(row: TaskRow, event: Recorded): Partial<TaskRow> {
  switch (event.canonical) {
    case 'message.received':
      return { cellId: event.payload.origin.cell_id, channel: event.payload.origin.channel };
    case 'task.created':
      return {
        title: event.payload.title,
        mode: event.payload.mode,
        parentId: event.payload.parent ?? '',
        channel: event.payload.channel,
        model: event.payload.model
      };
    case 'task.queued':
      return { status: 'QUEUED', calls: [], step: '', finishedAt: null };
    case 'task.started':
      return { status: 'RUNNING', reason: '', ahead: 0, finishedAt: null, isUncertain: false };
    case 'task.waiting_approval':
      return { status: 'WAITING_APPROVAL', reason: '' };
    case 'task.waiting_input':
      return { status: 'WAITING_INPUT', reason: event.payload.question };
    case 'task.pausing':
      return { isPausing: event.payload.wanted }; // what it is doing goes on to its end
    case 'task.paused':
      return { status: 'PAUSED', reason: event.payload.reason, isPausing: false };
    case 'task.resumed':
      return { status: 'RUNNING', reason: '', isPausing: false };
    case 'task.retried':
      return { status: 'QUEUED', reason: '', finishedAt: null };
    case 'task.stopping':
      return { isStopping: true };
    case 'task.succeeded':
      return { ...ended(event), status: 'SUCCEEDED', reason: '' };
    case 'task.failed':
      return {
        ...ended(event),
        status: 'FAILED',
        reason: event.payload.message,
        isUncertain: event.payload.code === UNCERTAIN
      };
    case 'task.cancelled':
      return { ...ended(event), status: 'CANCELLED', reason: event.payload.reason };
    case 'model.call.started':
      return event.payload.purpose === 'check' ? {} : { step: '' };
    case 'model.call.completed':
    case 'model.call.failed':
      return { stale: true };
    case 'tool.call.requested': {
      const { call_id: callId, name } = event.payload;
      return { calls: [...without(row, callId), { callId, name, onlyReads: false, started: false }] };
    }
    case 'tool.call.decided': {
      const onlyReads = event.payload.rule === 'default.read_only';
      return { calls: withCall(row, event.payload.call_id, call => ({ ...call, onlyReads })) };
    }
    case 'tool.call.started':
      return { calls: withCall(row, event.payload.call_id, call => ({ ...call, started: true })) };
    case 'tool.call.completed':
    case 'tool.call.failed':
    case 'tool.call.cancelled':
    case 'tool.call.uncertain':
      return { calls: without(row, event.payload.call_id) };
    case 'approval.requested':
    case 'approval.granted':
    case 'approval.rejected':
    case 'approval.expired':
    case 'checkpoint.saved':
    case 'step.failed':
    case 'step.skipped':
    case 'step.started':
      return {}; // what becomes of the task for it is an event of its own
    default:
      return unreachable(event);
  }
}

function ended(event: Recorded): Partial<TaskRow> {
  return {
    finishedAt: Date.parse(event.ts),
    calls: [],
    step: '',
    ahead: 0,
    isStopping: false,
    isPausing: false,
    stale: true
  };
}

function without(row: TaskRow, callId: string): RunningCall[] {
  return row.calls.filter(call => call.callId !== callId);
}

function withCall(row: TaskRow, callId: string, change: (call: RunningCall) => RunningCall): RunningCall[] {
  return row.calls.map(call => (call.callId === callId ? change(call) : call));
}

/** Of a time as the server writes it. Two events of a task may lie less than a millisecond apart. */
export function microseconds(time: string): number {
  const fraction = /\.\d{3}(\d{1,3})/.exec(time)?.[1] ?? '';
  return Date.parse(time) * 1000 + Number(fraction.padEnd(3, '0') || 0);
}

function unreachable(event: never): never {
  throw new Error(`Nobody folds ${JSON.stringify(event)}.`);
}
