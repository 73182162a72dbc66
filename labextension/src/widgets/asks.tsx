/** What is asked for is said to a screen reader at once (UX §12). */

import * as React from 'react';

import type { ApprovalBook, ApprovalRow } from '../model/approvals';
import { plain } from '../model/approvalWording';
import type { ITranslate } from '../model/wording';

/** It stands where it is never hidden: what is not displayed is not read out. */
export function Asks({ approvals, trans }: { approvals: ApprovalBook; trans: ITranslate }): React.JSX.Element {
  const [said, setSaid] = React.useState('');
  React.useEffect(() => {
    const say = (_: ApprovalBook, row: ApprovalRow): void =>
      setSaid(trans.__('Approval needed: %1 Alt Shift A to go there.', plain(row.sentence)));
    approvals.asked.connect(say);
    return () => {
      approvals.asked.disconnect(say);
    };
  }, [approvals, trans]);
  return (
    <span className="jp-Ozzie-announcer" aria-live="assertive">
      {said}
    </span>
  );
}
