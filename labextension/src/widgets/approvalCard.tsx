/** The card of an approval, in its cell and in the sidebar: two views of one record. */

import * as React from 'react';

import type { ApprovalScope } from '../api/approval';
import { errorText, type OzzieApi, RequestError } from '../api/requests';
import type { Answer, ApprovalBook, ApprovalRow } from '../model/approvals';
import {
  becauseText,
  effectText,
  endText,
  isHighStakes,
  plain,
  riskText,
  sessionText,
  worstText
} from '../model/approvalWording';
import { visibleLabel, visibleProof } from '../model/visible';
import type { ITranslate } from '../model/wording';
import { Expiry, Fact, Spans, Targets } from './approvalParts';
import { type IArming, useArming } from './arming';
import { ApprovalIcon } from './icons';
import { handleCardKey } from './nextApproval';
import { Proof } from './proof';
import { RejectLine } from './rejectLine';
import { StandingLine } from './standingLine';

export interface IApprovalCardProps {
  readonly row: ApprovalRow;
  readonly book: Pick<ApprovalBook, 'answer' | 'isChanged' | 'isRenewable'>;
  readonly api: Pick<OzzieApi, 'approvalCard' | 'artifactText'>;
  readonly trans: ITranslate;
  /** Without a connection, answers can't be sent. */
  readonly isConnected: boolean;
  /** Where it comes from, if its surroundings don't show that. */
  readonly origin?: React.ReactNode;
  /** Heading, if "Approval needed" says too little. */
  readonly kicker?: string;
  /** A further sentence. */
  readonly note?: string;
  /** Called on Esc. */
  readonly onLeave?: (() => void) | undefined;
}

/** The answer given in this card. */
interface ISending {
  /** The answer being sent: an extent is a yes; empty for none. */
  readonly what: ApprovalScope | 'reject' | 'renew' | '';
  readonly problem: string;
  readonly send: (what: ISending['what'], answer: Answer) => void;
}

export function ApprovalCard(props: IApprovalCardProps): React.JSX.Element {
  const { row, book, trans, onLeave } = props;
  const outer = React.useRef<HTMLDivElement>(null);
  const sending = useSending(row, book, trans);
  const isPending = row.status === 'pending';
  const whole = useWholeRow(props);
  const arming = useArming<HTMLDivElement>(isPending);
  // Keep the focus in the card when its buttons go; read before they do.
  const wasInside = outer.current?.contains(document.activeElement) ?? false;
  React.useLayoutEffect(() => {
    if (!isPending && wasInside) {
      outer.current?.focus();
    }
    // Only the change counts: the focus in an answered card is left alone.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [isPending]);
  const id = React.useId();
  return (
    <div
      className={`jp-Ozzie-approval${isPending ? '' : ' jp-Ozzie-mod-ended'}`}
      ref={outer}
      role="group"
      aria-labelledby={id}
      tabIndex={-1}
      data-approval-id={row.approval_id}
      data-armed={isPending && arming.isArmed}
      data-lm-suppress-shortcuts="true"
      onKeyDown={event => handleCardKey(event, onLeave)}
    >
      {isPending ? (
        <Pending {...props} id={id} sending={sending} arming={arming} whole={whole} />
      ) : (
        <Ended {...props} id={id} sending={sending} />
      )}
      <p className="jp-Ozzie-note" role="status">
        {sending.problem}
      </p>
    </div>
  );
}

/** The approval as shown. `isRead`: `row` includes everything that determines the effect. */
interface IWhole {
  readonly row: ApprovalRow;
  readonly isRead: boolean;
  readonly problem: string;
  /** Its card is out of date and can't be read any more. */
  readonly isGone: boolean;
  readonly read: () => void;
}

/** The stored approval lacks possible secrets, and most of a long list of names. The gateway renders all of it for this
 * page alone. */
function useWholeRow({ row, api, trans, isConnected }: IApprovalCardProps): IWhole {
  const [card, setCard] = React.useState<CardTexts | null>(null);
  const [problem, setProblem] = React.useState('');
  const [isGone, setGone] = React.useState(false);
  const { approval_id, status } = row;
  const isCut = row.card !== '' || row.targets.some(({ more }) => more > 0);
  const isHidden = isCut && status === 'pending';
  const read = React.useCallback((): void => {
    setProblem('');
    api.approvalCard(approval_id).then(
      ({ sentence, proof, shown, undo, arguments: args, targets }) =>
        setCard({ sentence, proof, shown, undo, arguments: args, targets, whole: null }),
      (error: unknown) => {
        setProblem(problemText(error, trans, trans.__('No connection. It can’t be read in full.')));
        setGone(error instanceof RequestError && error.status === 409);
      }
    );
  }, [api, approval_id, trans]);
  React.useEffect(() => {
    if (isHidden && isConnected && card === null) {
      read();
    }
  }, [isHidden, isConnected, card, read]);
  return { row: card === null ? row : { ...row, ...card }, isRead: !isHidden || card !== null, problem, isGone, read };
}

type CardTexts = Pick<ApprovalRow, 'sentence' | 'proof' | 'shown' | 'undo' | 'arguments' | 'targets' | 'whole'>;

function useSending(row: ApprovalRow, book: IApprovalCardProps['book'], trans: ITranslate): ISending {
  const [what, setWhat] = React.useState<ISending['what']>('');
  const [problem, setProblem] = React.useState('');
  const send: ISending['send'] = (given, answer) => {
    setWhat(given);
    setProblem('');
    book
      .answer(row.approval_id, answer)
      .catch((error: unknown) => setProblem(problemText(error, trans)))
      .finally(() => setWhat(''));
  };
  return { what, problem, send };
}

/** Return the gateway's message, or `absent` if nobody answered. */
function problemText(
  error: unknown,
  trans: ITranslate,
  absent = trans.__('No connection. Your answer was not sent.')
): string {
  return error instanceof RequestError && error.status === 0 ? absent : errorText(error);
}

interface IPartProps extends IApprovalCardProps {
  readonly id: string;
  readonly sending: ISending;
}

function Ended({ row, book, trans, isConnected, origin, id, sending }: IPartProps): React.JSX.Element {
  return (
    <div className="jp-Ozzie-endRow">
      <ApprovalIcon status={row.status} />
      <span id={id} title={plain(row.sentence)}>
        {origin !== undefined && (
          <>
            <Spans text={row.sentence} />
            <br />
          </>
        )}
        {endText(row, trans)}
      </span>
      {book.isRenewable(row) && (
        <button
          className="jp-Ozzie-button"
          aria-disabled={!isConnected || sending.what !== ''}
          onClick={() => {
            if (isConnected && sending.what === '') {
              sending.send('renew', { act: 'renew' });
            }
          }}
        >
          {sending.what === 'renew' ? trans.__('Sending…') : trans.__('Ask again')}
        </button>
      )}
    </div>
  );
}

interface IPendingProps extends IPartProps {
  readonly whole: IWhole;
  readonly arming: IArming<HTMLDivElement>;
}

function Pending(props: IPendingProps): React.JSX.Element {
  const { book, api, trans, isConnected, origin, kicker, note, id, sending, arming, whole } = props;
  const { row } = whole;
  const textOf = React.useCallback((artifactId: string) => api.artifactText(artifactId), [api]);
  const args = useArguments(row, api);
  const highStakes = isHighStakes(row);
  const [isWhole, setWhole] = React.useState(false);
  const [isRejecting, setRejecting] = React.useState(false);
  const [isStanding, setStanding] = React.useState(false);
  const standingButton = React.useRef<HTMLButtonElement>(null);
  const onWhole = React.useCallback(() => setWhole(true), []);
  const offersSession = !highStakes && row.session_cover !== null;
  const offersStanding = !highStakes && row.standing !== '';
  // Something irreversible can only be approved if all of it is visible.
  const canApprove = whole.isRead && (!highStakes || isWhole || row.shown === '');
  const isFree = isConnected && sending.what === '';

  const approve = (extent: ApprovalScope): void => {
    if (isFree && canApprove && arming.mayAct()) {
      sending.send(extent, { act: 'approve', extent, binds: row.binds });
    }
  };
  const openReject = (): void => {
    if (isFree && arming.mayAct()) {
      setStanding(false);
      setRejecting(true);
    }
  };
  const openStanding = (): void => {
    if (isFree && arming.mayAct()) {
      setRejecting(false);
      setStanding(true);
    }
  };
  const onKey = (event: React.KeyboardEvent): void => {
    const isTyped = event.target instanceof HTMLInputElement;
    if (highStakes || isTyped || event.repeat || event.ctrlKey || event.metaKey || event.altKey) {
      return;
    }
    const key = event.key.toLowerCase();
    if (key === 'a') {
      approve('once');
    } else if (key === 's' && offersSession) {
      approve('session');
    } else if (key === 'r') {
      event.preventDefault(); // it must not become the first letter of the comment
      openReject();
    }
  };

  return (
    <div onKeyDown={onKey}>
      <div className="jp-Ozzie-kicker">
        <ApprovalIcon status="pending" />
        <span className="jp-Ozzie-grow">{origin ?? kicker ?? trans.__('Approval needed')}</span>
        <Expiry row={row} trans={trans} isShort={origin !== undefined} />
      </div>
      {book.isChanged(row) && <p>{trans.__('The request changed. Please look again.')}</p>}
      <p className="jp-Ozzie-sentence" id={id} tabIndex={-1}>
        <Spans text={row.sentence} />
      </p>
      <Targets row={row} trans={trans} />
      <p>{[becauseText(row.reason, trans), worstText(row, trans), note].filter(Boolean).join(' ')}</p>
      {row.made_from && <p>{trans.__('Made from %1.', visibleLabel(row.made_from))}</p>}
      {row.checked && <p>{visibleLabel(row.checked)}</p>}
      {(row.card !== '' || !whole.isRead) && (
        <WholeNote whole={whole} sending={sending} trans={trans} isConnected={isConnected} />
      )}
      <Proof
        key={whole.isRead ? 'whole' : 'stored'}
        row={row}
        isOpen={highStakes}
        textOf={textOf}
        trans={trans}
        onWhole={onWhole}
      />
      <details
        className="jp-Ozzie-more"
        onToggle={event => {
          if (event.currentTarget.open) {
            args.loadAll();
          }
        }}
      >
        <summary>{trans.__('Arguments, rule and key')}</summary>
        {args.text && (
          <pre className="jp-Ozzie-arguments" dir="ltr">
            {visibleProof(args.text)}
          </pre>
        )}
        <dl className="jp-Ozzie-facts">
          <Fact name={trans.__('Tool')} value={visibleLabel(row.tool_id)} />
          <Fact name={trans.__('Risk')} value={riskText(row, trans)} />
          <Fact name={trans.__('Side effect')} value={effectText(row, trans)} />
          <Fact name={trans.__('Rule')} value={visibleLabel([row.rule, row.place].filter(Boolean).join(' · '))} />
          <Fact name={trans.__('Key')} value={visibleLabel(row.key)} />
          <Fact name={trans.__('Good for')} value={visibleLabel(row.binds)} />
        </dl>
      </details>
      <div className="jp-Ozzie-answers" ref={arming.ref}>
        <button
          className={`jp-Ozzie-button ${highStakes ? 'jp-Ozzie-mod-warn' : 'jp-Ozzie-mod-accept'}`}
          aria-disabled={!isFree || !canApprove}
          onClick={() => approve('once')}
        >
          {sending.what === 'once' ? trans.__('Sending…') : trans.__('Approve once')}
        </button>
        {offersSession && (
          <button className="jp-Ozzie-button" aria-disabled={!isFree} onClick={() => approve('session')}>
            {sending.what === 'session' ? trans.__('Sending…') : trans.__('Approve for this session')}
          </button>
        )}
        <button className="jp-Ozzie-button" aria-disabled={!isFree} aria-expanded={isRejecting} onClick={openReject}>
          {sending.what === 'reject' ? trans.__('Sending…') : trans.__('Reject…')}
        </button>
        {offersStanding && (
          <button
            ref={standingButton}
            className="jp-Ozzie-link"
            aria-disabled={!isFree}
            aria-expanded={isStanding}
            onClick={openStanding}
          >
            {sending.what === 'standing' ? trans.__('Sending…') : trans.__('Don’t ask again…')}
          </button>
        )}
        <span className="jp-Ozzie-note">
          {isConnected ? <Spans text={sessionText(row, trans)} /> : trans.__('when reconnected')}
        </span>
      </div>
      {isRejecting && (
        <RejectLine
          trans={trans}
          isFree={isFree}
          onReject={comment => sending.send('reject', { act: 'reject', comment })}
          onClose={() => {
            setRejecting(false);
            arming.ref.current?.querySelector<HTMLElement>('[aria-expanded]')?.focus();
          }}
        />
      )}
      {isStanding && offersStanding && (
        <StandingLine
          standing={row.standing}
          trans={trans}
          isFree={isFree && canApprove}
          onStand={() => approve('standing')}
          onClose={() => {
            setStanding(false);
            standingButton.current?.focus();
          }}
        />
      )}
    </div>
  );
}

interface IWholeNoteProps extends Pick<IPartProps, 'sending' | 'trans' | 'isConnected'> {
  readonly whole: IWhole;
}

/** Say that only this page shows all of it, since something looks like a secret; or why it can't be read. */
function WholeNote({ whole, sending, trans, isConnected }: IWholeNoteProps): React.JSX.Element {
  if (whole.isRead) {
    return (
      <p className="jp-Ozzie-note">
        {trans.__('Something in it looks like a secret. Notebooks and logs show this question without it.')}
      </p>
    );
  }
  if (!whole.problem) {
    return <p role="status">{trans.__('Reading all of it…')}</p>;
  }
  const isFree = isConnected && sending.what === '';
  return (
    <p role="alert">
      {whole.problem}{' '}
      <button
        className="jp-Ozzie-link"
        aria-disabled={!isFree}
        onClick={() => {
          if (isFree && whole.isGone) {
            sending.send('renew', { act: 'renew' });
          } else if (isFree) {
            whole.read();
          }
        }}
      >
        {whole.isGone ? trans.__('Ask again') : trans.__('Try again')}
      </button>
    </p>
  );
}

/** The arguments of the call. Long ones are shortened until `loadAll`. */
function useArguments(row: ApprovalRow, api: IApprovalCardProps['api']): { text: string; loadAll: () => void } {
  const [text, setText] = React.useState<string | null>(null);
  const loadAll = (): void => {
    api.approvalCard(row.approval_id).then(
      card => setText(card.arguments),
      () => undefined // the shortened ones stay
    );
  };
  return { text: text ?? row.arguments, loadAll };
}
