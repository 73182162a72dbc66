/** Parts of the cards of approvals. */

import * as React from 'react';

import type { ApprovalRow } from '../model/approvals';
import { expiryText, shortExpiry, spans, spokenExpiry, targetLines } from '../model/approvalWording';
import { visibleLabel } from '../model/visible';
import type { ITranslate } from '../model/wording';

const TICK_MS = 1_000;

interface IPartProps {
  readonly row: ApprovalRow;
  readonly trans: ITranslate;
}

interface IExpiryProps extends IPartProps {
  readonly isShort: boolean;
}

/** When the request expires, counted down. */
export function Expiry({ row, trans, isShort }: IExpiryProps): React.JSX.Element {
  const [now, setNow] = React.useState(() => Date.now());
  React.useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), TICK_MS);
    return () => clearInterval(timer);
  }, []);
  return (
    <span className="jp-Ozzie-figure" role="timer" aria-live="off" aria-label={spokenExpiry(row, now, trans)}>
      {isShort ? shortExpiry(row, now) : expiryText(row, now, trans)}
    </span>
  );
}

/** A sentence from the gateway: text in backticks is drawn as code. */
export function Spans({ text }: { text: string }): React.JSX.Element {
  return (
    <>
      {spans(text).map((span, at) =>
        span.isCode ? (
          <bdi key={at} dir="ltr">
            <code>{span.text}</code>
          </bdi>
        ) : (
          <React.Fragment key={at}>{span.text}</React.Fragment>
        )
      )}
    </>
  );
}

/** What the call names, one line for each argument, and where these names come from. */
export function Targets({ row, trans }: IPartProps): React.JSX.Element {
  return (
    <>
      <TargetLines row={row} trans={trans} />
      {row.known_from && <p className="jp-Ozzie-note">{visibleLabel(row.known_from)}</p>}
    </>
  );
}

function TargetLines({ row, trans }: IPartProps): React.JSX.Element | null {
  const lines = targetLines(row, trans);
  if (lines.length === 0) {
    return null;
  }
  return (
    <dl className="jp-Ozzie-targets">
      {lines.map(({ word, names, rest }, at) => (
        <React.Fragment key={at}>
          <dt>{word}</dt>
          <dd>
            {names.map(({ text, note }, index) => (
              <React.Fragment key={index}>
                {index > 0 && ', '}
                <bdi dir="ltr" className="jp-Ozzie-named">
                  {text}
                </bdi>
                {note && (
                  <>
                    {' ('}
                    <bdi dir="ltr">{note}</bdi>)
                  </>
                )}
              </React.Fragment>
            ))}
            {rest}
          </dd>
        </React.Fragment>
      ))}
    </dl>
  );
}

/** A name and a value, for a list of both. */
export function Fact({ name, value }: { name: string; value: string }): React.JSX.Element {
  return (
    <>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </>
  );
}
