/** WebSocket messages, read once and strictly: unknown frames are ignored. */

import { NOTEBOOK_ASKED, type NotebookRequest, readNotebookRequest } from './notebookFrames';
import type { EventBodies, EventFrame, Response } from './protocol.gen';

export type Canonical = keyof EventBodies;

/** A recorded event that the page knows. */
export type RecordedEvent = {
  [Name in Canonical]: {
    readonly canonical: Name;
    readonly payload: EventBodies[Name];
    readonly position: number;
    readonly taskId: string;
    readonly sessionId: string;
    readonly ts: string;
  };
}[Canonical];

/** A task's current activity; not in the log. */
export interface Progress {
  readonly canonical: 'task.progress';
  readonly position: null;
  readonly taskId: string;
  readonly step: string;
  readonly ahead: number | null;
}

export type FeedEvent = RecordedEvent | Progress;

export type Frame =
  | ({ readonly kind: 'response' } & Response)
  | { readonly kind: 'event'; readonly event: FeedEvent }
  | { readonly kind: 'notebook'; readonly request: NotebookRequest }
  | { readonly kind: 'erased'; readonly position: number }
  | null;

/** The canonical names that the page follows; the compiler checks them against the generated types. */
const FEED_EVENTS: Record<FeedEvent['canonical'], true> = {
  'approval.expired': true,
  'approval.granted': true,
  'approval.rejected': true,
  'approval.requested': true,
  'checkpoint.saved': true,
  'message.received': true,
  'model.call.completed': true,
  'model.call.failed': true,
  'model.call.started': true,
  'prompt.answered': true,
  'prompt.requested': true,
  'step.failed': true,
  'step.skipped': true,
  'step.started': true,
  'task.cancelled': true,
  'task.created': true,
  'task.failed': true,
  'task.paused': true,
  'task.pausing': true,
  'task.progress': true,
  'task.queued': true,
  'task.resumed': true,
  'task.retried': true,
  'task.started': true,
  'task.stopping': true,
  'task.succeeded': true,
  'task.waiting_approval': true,
  'task.waiting_input': true,
  'tool.call.cancelled': true,
  'tool.call.completed': true,
  'tool.call.decided': true,
  'tool.call.failed': true,
  'tool.call.requested': true,
  'tool.call.started': true,
  'tool.call.uncertain': true
};
/** Say that a person erased a session, or a turn: it is gone from what the server answers. */
const ERASURES: readonly string[] = ['message.erased', 'session.erased'];
export const FOLLOWED_TYPES = [...Object.keys(FEED_EVENTS), ...ERASURES];

/** Return the frames of a message; none if it is no JSON. */
export function readMessage(data: unknown): Frame[] {
  let message: unknown;
  try {
    message = typeof data === 'string' ? JSON.parse(data) : null;
  } catch {
    return [];
  }
  return (Array.isArray(message) ? message : [message]).map(readFrame);
}

function readFrame(message: unknown): Frame {
  if (typeof message !== 'object' || message === null) {
    return null;
  }
  const { type, ...rest } = message as { type?: unknown } & Record<string, unknown>;
  if (type === 'res' && typeof rest.id === 'string') {
    return { kind: 'response', ...(rest as unknown as Response) };
  }
  if (type === 'event' && rest.canonical === NOTEBOOK_ASKED) {
    const request = readNotebookRequest(rest.payload);
    return request && { kind: 'notebook', request };
  }
  if (type === 'event' && ERASURES.includes(String(rest.canonical)) && typeof rest.position === 'number') {
    return { kind: 'erased', position: rest.position };
  }
  const event = type === 'event' ? readEvent(rest as unknown as EventFrame) : null;
  return event && { kind: 'event', event };
}

function readEvent(frame: EventFrame): FeedEvent | null {
  const { canonical, task_id: taskId, position } = frame;
  if (typeof taskId !== 'string' || !taskId || !canonical || !Object.hasOwn(FEED_EVENTS, canonical)) {
    return null;
  }
  // An event of an unknown shape still says that something happened: if it can't be folded, the server is asked.
  const payload = typeof frame.payload === 'object' ? (frame.payload ?? {}) : {};
  if (canonical === 'task.progress') {
    const { step, ahead } = payload;
    return {
      canonical,
      position: null,
      taskId,
      step: typeof step === 'string' ? step : '',
      ahead: typeof ahead === 'number' ? ahead : null
    };
  }
  if (typeof position !== 'number') {
    return null;
  }
  const { session_id: sessionId, ts } = frame;
  return { canonical, payload, position, taskId, sessionId: sessionId ?? '', ts: ts ?? '' } as unknown as RecordedEvent;
}
