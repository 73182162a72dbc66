/** Shorter names for the approvals of the REST interface. */

import type { Approval, ApprovalGranted, Card, CardTarget } from './protocol.gen';

export type { Approval, CardTarget };
export type ApprovalCard = Card;
export type ApprovalStatus = Approval['status'];
export type ApprovalScope = ApprovalGranted['extent'];
