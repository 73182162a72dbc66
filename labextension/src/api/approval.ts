/** Approvals as REST tells them (SPEC.md), by shorter names. */

import type { Approval, ApprovalGranted } from './protocol.gen';

export type { Approval };
export type ApprovalStatus = Approval['status'];
export type Extent = ApprovalGranted['extent'];
