/** Messages of the WebSocket, read once and strictly: what is none of our frames is passed over. */

import { NOTEBOOK_ASKED, type NotebookAsked, readAsked } from './notebookFrames';
import type { EventBodies, EventFrame, Response } from './protocol.gen';

export type Canonical = keyof EventBodies;

/** A recorded event that the page knows. */
export type Recorded = {
  [Name in Canonical]: {
    readonly canonical: Name;
    readonly payload: EventBodies[Name];
    readonly position: number;
    readonly taskId: string;
    readonly sessionId: string;
    readonly ts: string;
  };
}[Canonical];

/** What a task does at this moment; never in the log. */
export interface Progress {
  readonly canonical: 'task.progress';
  readonly position: null;
  readonly taskId: string;
  readonly step: string;
  readonly ahead: number | null;
}

export type Followed = Recorded | Progress;

export type Frame =
  | ({ readonly kind: 'response' } & Response)
  | { readonly kind: 'event'; readonly event: Followed }
  | { readonly kind: 'asked'; readonly asked: NotebookAsked }
  | null;

/** The canonical names of what the page follows; the compiler holds it to the generated types. */
const FOLLOWED: Record<Followed['canonical'], true> = {
  'approval.expired': true,
  'approval.granted': true,
  'approval.rejected': true,
  'approval.requested': true,
  'checkpoint.saved': true,
  'message.received': true,
  'model.call.completed': true,
  'model.call.failed': true,
  'model.call.started': true,
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
export const FOLLOWED_TYPES = Object.keys(FOLLOWED) as Followed['canonical'][];

/** The frames of one message; empty for what is no JSON. */
export function readMessage(data: unknown): Frame[] {
  let said: unknown;
  try {
    said = typeof data === 'string' ? JSON.parse(data) : null;
  } catch {
    return [];
  }
  return (Array.isArray(said) ? said : [said]).map(readFrame);
}

function readFrame(said: unknown): Frame {
  if (typeof said !== 'object' || said === null) {
    return null;
  }
  const { type, ...rest } = said as { type?: unknown } & Record<string, unknown>;
  if (type === 'res' && typeof rest.id === 'string') {
    return { kind: 'response', ...(rest as unknown as Response) };
  }
  if (type === 'event' && rest.canonical === NOTEBOOK_ASKED) {
    const asked = readAsked(rest.payload);
    return asked && { kind: 'asked', asked };
  }
  const event = type === 'event' ? readEvent(rest as unknown as EventFrame) : null;
  return event && { kind: 'event', event };
}

function readEvent(frame: EventFrame): Followed | null {
  const { canonical, task_id: taskId, position } = frame;
  if (typeof taskId !== 'string' || !taskId || !canonical || !Object.hasOwn(FOLLOWED, canonical)) {
    return null;
  }
  // One of another shape than ours still says that something happened: whoever can't fold it asks the server.
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
  return { canonical, payload, position, taskId, sessionId: sessionId ?? '', ts: ts ?? '' } as unknown as Recorded;
}
