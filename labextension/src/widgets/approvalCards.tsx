/** The approvals of a task: a card each, and one card for alike calls, which lists each and answers each by itself. */

import * as React from 'react';

import { errorText } from '../api/requests';
import { alikeGroups } from '../model/alike';
import type { Answer, ApprovalRow } from '../model/approvals';
import { becauseText, isHighStakes, plain, worstText } from '../model/approvalWording';
import { visibleLabel } from '../model/visible';
import { ApprovalCard, type IApprovalCardProps } from './approvalCard';
import { Expiry, Spans, Targets } from './approvalParts';
import { useArming } from './arming';
import { ApprovalIcon } from './icons';
import { handleCardKey } from './nextApproval';
import { Proof } from './proof';
import { RejectLine } from './rejectLine';
import { StandingLine } from './standingLine';

export interface IApprovalCardsProps extends Omit<IApprovalCardProps, 'row' | 'origin'> {
  /** The oldest first. */
  readonly rows: readonly ApprovalRow[];
}

export function ApprovalCards({ rows, ...props }: IApprovalCardsProps): React.JSX.Element {
  const [apart, setApart] = React.useState<ReadonlySet<string>>(new Set());
  const [problem, setProblem] = React.useState('');
  const groups = alikeGroups(rows);
  const { book, trans } = props;
  /** Send an answer for each. The cards show what became of them. */
  const answer = async (group: readonly ApprovalRow[], answerTo: (row: ApprovalRow) => Answer): Promise<void> => {
    setProblem('');
    const ends = await Promise.allSettled(group.map(row => book.answer(row.approval_id, answerTo(row))));
    const failed = ends.filter(end => end.status === 'rejected');
    if (failed[0] !== undefined) {
      const why = errorText(failed[0].reason);
      setProblem(
        trans._n('One answer was not taken: %2', '%1 answers were not taken: %2', failed.length, failed.length, why)
      );
    }
  };
  return (
    <>
      {groups.map(group =>
        group.length > 1 && !group.some(row => apart.has(row.approval_id) || book.isChanged(row)) ? (
          <AlikeCard
            key={`alike ${group[0]?.approval_id}`}
            group={group}
            onAnswer={answer}
            onApart={() => setApart(new Set([...apart, ...group.map(row => row.approval_id)]))}
            {...props}
          />
        ) : (
          group.map(row => <ApprovalCard key={row.approval_id} row={row} {...props} />)
        )
      )}
      {problem && <p role="alert">{problem}</p>}
    </>
  );
}

interface IAlikeCardProps extends Omit<IApprovalCardsProps, 'rows'> {
  readonly group: readonly ApprovalRow[];
  readonly onAnswer: (group: readonly ApprovalRow[], answerTo: (row: ApprovalRow) => Answer) => Promise<void>;
  /** Called to have a card each. */
  readonly onApart: () => void;
}

/** There are no keys for an answer: nobody should press one letter for several calls. */
function AlikeCard(props: IAlikeCardProps): React.JSX.Element | null {
  const { group, api, trans, isConnected, kicker, note, onAnswer, onApart, onLeave } = props;
  const arming = useArming<HTMLDivElement>(true, group.map(row => row.approval_id).join(' '));
  const [isSending, setSending] = React.useState(false);
  const [isRejecting, setRejecting] = React.useState(false);
  const [isStanding, setStanding] = React.useState(false);
  const standingButton = React.useRef<HTMLButtonElement>(null);
  const [whole, setWhole] = React.useState<ReadonlySet<string>>(new Set());
  const id = React.useId();
  const textOf = React.useCallback((artifactId: string) => api.artifactText(artifactId), [api]);
  const [first] = group;
  if (first === undefined) {
    return null;
  }
  const highStakes = isHighStakes(first);
  const isFree = isConnected && !isSending;
  const canApprove = !highStakes || group.every(row => row.shown === '' || whole.has(row.approval_id));
  const send = (answerTo: (row: ApprovalRow) => Answer): void => {
    setSending(true);
    void onAnswer(group, answerTo).finally(() => setSending(false));
  };
  const offersStanding = !highStakes && first.standing !== '' && group.every(row => row.standing === first.standing);
  const count = group.length.toLocaleString();
  return (
    <div
      className="jp-Ozzie-approval"
      role="group"
      aria-labelledby={id}
      tabIndex={-1}
      data-armed={arming.isArmed}
      data-lm-suppress-shortcuts="true"
      onKeyDown={event => handleCardKey(event, onLeave)}
    >
      <div className="jp-Ozzie-kicker">
        <ApprovalIcon status="pending" />
        <span className="jp-Ozzie-grow">{kicker ?? trans.__('Approval needed')}</span>
        <Expiry row={first} trans={trans} isShort={false} />
      </div>
      <p className="jp-Ozzie-sentence" id={id} tabIndex={-1}>
        {trans.__('Make these %1 calls of %2?', count, visibleLabel(first.name))}
      </p>
      <p>{[becauseText(first.reason, trans), worstText(first, trans), note].filter(Boolean).join(' ')}</p>
      {first.made_from && <p>{trans.__('Made from %1.', visibleLabel(first.made_from))}</p>}
      {first.checked && <p>{visibleLabel(first.checked)}</p>}
      <ol className="jp-Ozzie-alike">
        {group.map(row => (
          <li key={row.approval_id} data-approval-id={row.approval_id} aria-label={plain(row.sentence)}>
            <p>
              <Spans text={row.sentence} />
            </p>
            <Targets row={row} trans={trans} />
            <Proof
              row={row}
              isOpen={highStakes}
              textOf={textOf}
              trans={trans}
              onWhole={() =>
                setWhole(known => (known.has(row.approval_id) ? known : new Set([...known, row.approval_id])))
              }
            />
          </li>
        ))}
      </ol>
      <div className="jp-Ozzie-answers" ref={arming.ref}>
        <button
          className={`jp-Ozzie-button ${highStakes ? 'jp-Ozzie-mod-warn' : 'jp-Ozzie-mod-accept'}`}
          aria-disabled={!isFree || !canApprove}
          onClick={() => {
            if (isFree && canApprove && arming.mayAct()) {
              send(row => ({ act: 'approve', extent: 'once', binds: row.binds }));
            }
          }}
        >
          {isSending ? trans.__('Sending…') : trans.__('Approve these %1', count)}
        </button>
        <button
          className="jp-Ozzie-button"
          aria-disabled={!isFree}
          aria-expanded={isRejecting}
          onClick={() => {
            if (isFree && arming.mayAct()) {
              setStanding(false);
              setRejecting(true);
            }
          }}
        >
          {trans.__('Reject these %1…', count)}
        </button>
        {offersStanding && (
          <button
            ref={standingButton}
            className="jp-Ozzie-link"
            aria-disabled={!isFree}
            aria-expanded={isStanding}
            onClick={() => {
              if (isFree && arming.mayAct()) {
                setRejecting(false);
                setStanding(true);
              }
            }}
          >
            {trans.__('Don’t ask again…')}
          </button>
        )}
        <button className="jp-Ozzie-link" onClick={onApart}>
          {trans.__('One by one')}
        </button>
        <span className="jp-Ozzie-note">
          {isConnected ? trans.__('Each is answered by itself.') : trans.__('when reconnected')}
        </span>
      </div>
      {isRejecting && (
        <RejectLine
          trans={trans}
          isFree={isFree}
          onReject={comment => send(() => ({ act: 'reject', comment }))}
          onClose={() => {
            setRejecting(false);
            arming.ref.current?.querySelector<HTMLElement>('[aria-expanded]')?.focus();
          }}
        />
      )}
      {isStanding && offersStanding && (
        <StandingLine
          standing={first.standing}
          trans={trans}
          isFree={isFree && canApprove}
          onStand={() => {
            if (isFree && canApprove && arming.mayAct()) {
              send(row => ({ act: 'approve', extent: 'standing', binds: row.binds }));
            }
          }}
          onClose={() => {
            setStanding(false);
            standingButton.current?.focus();
          }}
        />
      )}
    </div>
  );
}
