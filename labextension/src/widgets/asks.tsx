/** What is asked for is said to a screen reader at once, and when its time is nearly up. */

import * as React from 'react';

import type { ApprovalBook, ApprovalRow } from '../model/approvals';
import { plain } from '../model/approvalWording';
import type { ITranslate } from '../model/wording';

const LOOK_MS = 1_000;
const NEARLY_UP_MS = 60_000;

/** It stands where it is never hidden: what is not displayed is not read out. */
export function Asks({ approvals, trans }: { approvals: ApprovalBook; trans: ITranslate }): React.JSX.Element {
  const [said, setSaid] = React.useState('');
  React.useEffect(() => {
    const say = (_: ApprovalBook, row: ApprovalRow): void =>
      setSaid(trans.__('Approval needed: %1 Alt Shift A to go there.', plain(row.sentence)));
    approvals.asked.connect(say);
    const timer = setInterval(() => {
      const row = approvals.pending.find(asked => isNearlyUp(asked, Date.now()));
      if (row) {
        setSaid(trans.__('1 minute left: %1', plain(row.sentence)));
      }
    }, LOOK_MS);
    return () => {
      approvals.asked.disconnect(say);
      clearInterval(timer);
    };
  }, [approvals, trans]);
  return (
    <span className="jp-Ozzie-announcer" aria-live="assertive">
      {said}
    </span>
  );
}

/** At one look in its time. */
function isNearlyUp(row: ApprovalRow, now: number): boolean {
  const left = Date.parse(row.expires_at) - now;
  return left <= NEARLY_UP_MS && left > NEARLY_UP_MS - LOOK_MS;
}
