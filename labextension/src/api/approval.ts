/** Approvals as REST tells them (SPEC.md); what is recorded of them is among the generated types. */

import type { ApprovalExpired, ApprovalGranted, ApprovalRequested, Way } from './protocol.gen';

export type ApprovalStatus = 'pending' | 'granted' | 'rejected' | 'expired';
export type Extent = ApprovalGranted['extent'];

/** What was asked, and what became of it. Times are RFC 3339 in UTC. */
export interface Approval extends Omit<ApprovalRequested, 'cover'> {
  readonly session_id: string;
  readonly task_id: string;
  readonly status: ApprovalStatus;
  /** Of an expired one: its time was up, the call would do something else by now, its task ended. Of a void yes, too. */
  readonly why: '' | 'task' | ApprovalExpired['why'];
  /** What a yes for the session would cover, told to people; null where none is offered. */
  readonly session_cover: string | null;
  readonly requested_at: string;
  readonly answered_at: string | null;
  readonly extent: '' | Extent;
  readonly by: string;
  readonly way: '' | Way;
  readonly comment: string;
  /** Of a yes for the session. */
  readonly in_force_until: string | null;
  /** The path of the session's notebook; empty where it has none. */
  readonly notebook: string;
}
