/** The approvals of all sessions: one row each, which opens its card in place. */

import * as React from 'react';

import type { OzzieApi } from '../api/requests';
import type { ApprovalBook, ApprovalRow } from '../model/approvals';
import { plain, shortExpiry, spokenExpiry } from '../model/approvalWording';
import type { TaskBoard } from '../model/board';
import { stepOf, type TaskRow } from '../model/fold';
import { visibleLabel } from '../model/visible';
import type { ITranslate } from '../model/wording';
import { ApprovalCard } from './approvalCard';
import { useChanges } from './useChanges';
import { ApprovalIcon } from './icons';

export interface INeedsYouProps {
  readonly approvals: ApprovalBook;
  readonly board: TaskBoard;
  readonly api: Pick<OzzieApi, 'approvalCard' | 'artifactText'>;
  readonly trans: ITranslate;
  readonly now: number;
  readonly showNotebook: (approvalId: string) => void;
}

/** All approvals, the oldest first; nothing if there are none. */
export function NeedsYou(props: INeedsYouProps): React.JSX.Element | null {
  const { approvals, trans } = props;
  useChanges(approvals.changed);
  const rows = approvals.shown;
  if (rows.length === 0) {
    return null;
  }
  return (
    <>
      <h3 className="jp-Ozzie-section jp-Ozzie-mod-plain">
        {trans.__('Needs you')} <span className="jp-Ozzie-count">{approvals.pending.length || ''}</span>
      </h3>
      <ul className="jp-Ozzie-needs" aria-label={trans.__('Needs you')}>
        {rows.map((row, at) => (
          <Need key={row.approval_id} row={row} isFirst={at === 0} {...props} />
        ))}
      </ul>
    </>
  );
}

interface INeedProps extends INeedsYouProps {
  readonly row: ApprovalRow;
  readonly isFirst: boolean;
}

/** The first starts open; none opens by itself later, as that would push those below. */
function Need({ row, isFirst, approvals, board, api, trans, now, showNotebook }: INeedProps): React.JSX.Element {
  const [isOpen, setOpen] = React.useState(isFirst);
  const task = board.row(row.task_id);
  const from = originText(task, board, trans);
  const isPending = row.status === 'pending';
  const toggle = (): void => setOpen(!isOpen);
  if (!isPending || isOpen) {
    const origin = (
      <button className="jp-Ozzie-origin" aria-expanded={true} title={from} onClick={toggle}>
        {from}
      </button>
    );
    return (
      <li>
        <ApprovalCard
          row={row}
          book={approvals}
          api={api}
          trans={trans}
          isConnected={board.state === 'ready'}
          origin={origin}
        />
        {isPending && channelOf(task, board) === 'notebook' && (
          <button className="jp-Ozzie-link" onClick={() => showNotebook(row.approval_id)}>
            {trans.__('Show in notebook')}
          </button>
        )}
      </li>
    );
  }
  return (
    <li>
      <button className="jp-Ozzie-need" aria-expanded={false} title={plain(row.sentence)} onClick={toggle}>
        <ApprovalIcon status={row.status} />
        <span className="jp-Ozzie-grow">
          <span className="jp-Ozzie-title">{plain(row.sentence)}</span>
          <span className="jp-Ozzie-sub">{[from, stakesText(row, trans)].filter(Boolean).join(' · ')}</span>
        </span>
        <span className="jp-Ozzie-figure" role="timer" aria-label={spokenExpiry(row, now, trans)}>
          {shortExpiry(row, now)}
        </span>
      </button>
    </li>
  );
}

/** Name the task that asks: a turn by its title, a step with its run, an agent with the task it works for. */
function originText(task: TaskRow | undefined, board: TaskBoard, trans: ITranslate): string {
  if (!task?.parentId) {
    return visibleLabel(task?.title ?? '') || trans.__('Approval needed');
  }
  const { skill, step } = stepOf(task);
  const above = visibleLabel(board.row(board.runOf(task))?.title ?? skill);
  if (!skill) {
    return trans.__('“%1” for %2', visibleLabel(step), above);
  }
  return trans.__('Step “%1” of %2', visibleLabel(step), above);
}

function channelOf(task: TaskRow | undefined, board: TaskBoard): string | undefined {
  return task?.parentId ? board.row(board.runOf(task))?.channel : task?.channel;
}

function stakesText(row: ApprovalRow, trans: ITranslate): string {
  if (row.side_effect === 'irreversible') {
    return trans.__('cannot be undone');
  }
  return row.risk_level === 'high' ? trans.__('high risk') : '';
}
