/** Announces approvals to screen readers: new ones at once, and those about to expire. */

import * as React from 'react';

import type { ApprovalBook, ApprovalRow } from '../model/approvals';
import { plain } from '../model/approvalWording';
import type { ITranslate } from '../model/wording';

const LOOK_MS = 1_000;
const NEARLY_UP_MS = 60_000;

/** Must never be hidden: hidden text is not read out. */
export function ApprovalAnnouncer({
  approvals,
  trans
}: {
  approvals: ApprovalBook;
  trans: ITranslate;
}): React.JSX.Element {
  const [text, setText] = React.useState('');
  React.useEffect(() => {
    const announce = (_: ApprovalBook, row: ApprovalRow): void =>
      setText(trans.__('Approval needed: %1 Alt Shift A to go there.', plain(row.sentence)));
    approvals.requested.connect(announce);
    const timer = setInterval(() => {
      const row = approvals.pending.find(pending => isNearlyUp(pending, Date.now()));
      if (row) {
        setText(trans.__('1 minute left: %1', plain(row.sentence)));
      }
    }, LOOK_MS);
    return () => {
      approvals.requested.disconnect(announce);
      clearInterval(timer);
    };
  }, [approvals, trans]);
  return (
    <span className="jp-Ozzie-announcer" aria-live="assertive">
      {text}
    </span>
  );
}

/** True at exactly one check. */
function isNearlyUp(row: ApprovalRow, now: number): boolean {
  const left = Date.parse(row.expires_at) - now;
  return left <= NEARLY_UP_MS && left > NEARLY_UP_MS - LOOK_MS;
}
