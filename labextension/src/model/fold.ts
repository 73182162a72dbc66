/** A task as the sidebar shows it, folded from REST answers and events; pure. */

import type { FeedEvent, RecordedEvent } from '../api/frames';
import type { Task } from '../api/protocol.gen';

export type TaskState = Task['status'];

/** A tool call without an outcome yet. */
export interface RunningCall {
  readonly callId: string;
  readonly name: string;
  /** Whether the rules call it read-only: interrupting it has no effect. */
  readonly onlyReads: boolean;
  readonly started: boolean;
}

export interface TaskRow {
  readonly taskId: string;
  readonly sessionId: string;
  /** The notebook cell it came from, or empty. */
  readonly cellId: string;
  readonly title: string;
  /** A run of a skill is of mode GRAPH. */
  readonly mode: string;
  /** The task that delegated it, or empty. */
  readonly parentId: string;
  /** The topmost task, if REST has reported it; else empty: `TaskBoard.runOf` knows. */
  readonly runId: string;
  /** The parts of it that wait for a person; only the board fills this in. */
  readonly waiting: readonly TaskRow[];
  readonly channel: string;
  readonly model: string;
  readonly status: TaskState;
  /** The reason for its state: an error message, who paused it. */
  readonly reason: string;
  /** Whether it ended with an effect whose outcome nobody knows. */
  readonly isUncertain: boolean;
  /** Whether a stop was requested and is pending. */
  readonly isStopping: boolean;
  /** Whether it will pause after its current work. */
  readonly isPausing: boolean;
  /** Milliseconds since 1970, as is `finishedAt`. */
  readonly createdAt: number;
  readonly finishedAt: number | null;
  /** Time of its newest event, in microseconds since 1970. */
  readonly updatedAt: number;
  /** `updatedAt` of the last REST answer; 0 before the first. */
  readonly reportedAt: number;
  /** Position of its newest folded event; 0 before the first. */
  readonly position: number;
  /** In 1e-9 USD; null if a price is unknown. */
  readonly cost: number | null;
  readonly tokens: number;
  readonly calls: readonly RunningCall[];
  /** Its current activity, unless that is a tool call. */
  readonly step: string;
  /** How many turns of its session come first. */
  readonly ahead: number;
  /** Whether its totals are out of date: only the server can sum up. */
  readonly stale: boolean;
}

/** Error code of a task with an effect whose outcome nobody knows. */
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

const isWaiting = (status: TaskState): boolean => status === 'WAITING_APPROVAL' || status === 'WAITING_INPUT';

/** Whether the task itself asks a person. A run waits because its steps do. */
export const needsPerson = (row: Pick<TaskRow, 'status' | 'mode'>): boolean =>
  row.mode !== 'GRAPH' && isWaiting(row.status);

/** Whether the task or a step of it waits. */
export const waits = (row: Pick<TaskRow, 'status' | 'waiting'>): boolean => isWaiting(shownState(row));

/** Whether it is a run that waits for a signal. */
export const awaitsSignal = (row: Pick<TaskRow, 'status' | 'mode' | 'waiting'>): boolean =>
  row.mode === 'GRAPH' && row.status === 'WAITING_INPUT' && row.waiting.length === 0;

/** Return the state to show: a run waits if a step of it does. */
export const shownState = (row: Pick<TaskRow, 'status' | 'waiting'>): TaskState =>
  isOpen(row) ? (row.waiting[0]?.status ?? row.status) : row.status;

/** The skill and step of a delegated task, whose title is like "sums: gate". */
export function stepOf({ title }: Pick<TaskRow, 'title'>): { skill: string; step: string } {
  const at = title.indexOf(': ');
  return at < 0 ? { skill: '', step: title } : { skill: title.slice(0, at), step: title.slice(at + 2) };
}

/** Whether stopping now may leave an effect half done, so that a person is asked first. */
export const mayHaveEffect = (row: TaskRow): boolean => row.calls.some(call => call.started && !call.onlyReads);

/** Return the row for a REST answer. */
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
    reportedAt: microseconds(task.updated_at),
    position: 0,
    cost: task.cost,
    tokens: task.token_usage.input + task.token_usage.output,
    calls: [],
    step: '',
    ahead: 0,
    stale: false
  };
}

/** Merge a REST answer into the row. Events that arrived meanwhile are newer and stay. */
export function mergeTask(row: TaskRow | undefined, task: Task): TaskRow {
  const reported = rowOf(task);
  if (!row) {
    return reported;
  }
  if (reported.updatedAt < row.updatedAt) {
    return { ...row, cost: reported.cost, tokens: reported.tokens };
  }
  const { calls, step, ahead } = row;
  const goesOn = isOpen(reported) && { calls, step, ahead };
  return { ...reported, position: row.position, ...goesOn };
}

/**
 * Return the row after an event; undefined if only the server knows the task's beginning. Events that the row already
 * includes change nothing.
 */
export function fold(row: TaskRow | undefined, event: FeedEvent): TaskRow | undefined {
  if (event.canonical === 'task.progress') {
    return row && { ...row, step: event.step, ahead: event.ahead ?? row.ahead };
  }
  const at = microseconds(event.ts);
  if (row && event.position <= row.position) {
    return row;
  }
  if (row && at < row.reportedAt) {
    // REST knew of it already, or the server's clock was set back: fetch the task once more.
    return { ...row, position: event.position, stale: true };
  }
  const before = row ?? newRow(event);
  return before && { ...before, ...changesOf(before, event), position: event.position, updatedAt: at };
}

function newRow(event: RecordedEvent): TaskRow | undefined {
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
    reportedAt: 0,
    position: 0,
    cost: 0,
    tokens: 0,
    calls: [],
    step: '',
    ahead: 0,
    stale: false
  };
}

function changesOf(row: TaskRow, event: RecordedEvent): Partial<TaskRow> {
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
    case 'prompt.requested': // while a server asks, its call goes on: no other event says that somebody has to answer
      return event.payload.kind === 'server' ? { status: 'WAITING_INPUT', reason: event.payload.question } : {};
    case 'prompt.answered':
      return row.status === 'WAITING_INPUT' ? { status: 'RUNNING', reason: '' } : {};
    case 'task.pausing':
      return { isPausing: event.payload.wanted }; // its current work goes on to its end
    case 'task.paused':
      return { status: 'PAUSED', reason: event.payload.reason, isPausing: false };
    case 'task.resumed':
      return { status: 'RUNNING', reason: '', calls: [], step: '', isPausing: false };
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
      if (event.payload.step_id) {
        return {}; // the run's graph shows what its steps called
      }
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
      return {}; // the effect on the task is an event of its own
    default:
      return unreachable(event);
  }
}

function ended(event: RecordedEvent): Partial<TaskRow> {
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

/** Parse a time from the server. Two events of a task may be less than a millisecond apart. */
export function microseconds(time: string): number {
  const fraction = /\.\d{3}(\d{1,3})/.exec(time)?.[1] ?? '';
  return Date.parse(time) * 1000 + Number(fraction.padEnd(3, '0') || 0);
}

function unreachable(event: never): never {
  throw new Error(`Nobody folds ${JSON.stringify(event)}.`);
}
