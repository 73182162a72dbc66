/** What "Don't ask again" lets through from now on, and the button that says so. */

import * as React from 'react';

import type { ITranslate } from '../model/wording';
import { Spans } from './approvalParts';
import { useArming } from './arming';

export interface IStandingLineProps {
  /** What is let through, in the gateway's words. */
  readonly standing: string;
  readonly trans: ITranslate;
  readonly isFree: boolean;
  readonly onStand: () => void;
  readonly onClose: () => void;
}

/** Its sentence takes the focus, as a person opened it. The button comes under a hand that has just clicked: it is deaf for
 * a moment. */
export function StandingLine({ standing, trans, isFree, onStand, onClose }: IStandingLineProps): React.JSX.Element {
  const sentence = React.useRef<HTMLParagraphElement>(null);
  const arming = useArming<HTMLDivElement>();
  React.useEffect(() => sentence.current?.focus(), []);
  return (
    <div
      className="jp-Ozzie-standing"
      ref={arming.ref}
      onKeyDown={event => {
        if (event.key === 'Escape') {
          event.stopPropagation();
          onClose();
        }
      }}
    >
      <p ref={sentence} tabIndex={-1}>
        <Spans
          text={trans.__(
            'From now on, %1 run without asking, in every session and also when nobody is there, unless content from ' +
              'outside is behind them. To take it back: `ozzie policy revoke`.',
            standing
          )}
        />
      </p>
      <button
        className="jp-Ozzie-button"
        aria-disabled={!isFree || !arming.isArmed}
        onClick={() => {
          if (isFree && arming.mayAct()) {
            onStand();
          }
        }}
      >
        {trans.__('Approve, and don’t ask again')}
      </button>
    </div>
  );
}
