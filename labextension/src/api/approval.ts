/** Approvals as REST tells them (SPEC.md), by shorter names. */

import type { Approval, ApprovalGranted, Card } from './protocol.gen';

export type { Approval };
export type ApprovalCard = Card;
export type ApprovalStatus = Approval['status'];
export type Extent = ApprovalGranted['extent'];
