/** Shorter names for the approvals of the REST interface. */

import type { Approval, ApprovalGranted, Card } from './protocol.gen';

export type { Approval };
export type ApprovalCard = Card;
export type ApprovalStatus = Approval['status'];
export type ApprovalScope = ApprovalGranted['extent'];
