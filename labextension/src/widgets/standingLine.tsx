/** What "Don't ask again" lets through from now on, and the button that says so. */

import * as React from 'react';

import type { ITranslate } from '../model/wording';
import { Spans } from './approvalParts';

export interface IStandingLineProps {
  /** What is let through, in the gateway's words. */
  readonly standing: string;
  readonly trans: ITranslate;
  readonly isFree: boolean;
  readonly onStand: () => void;
  readonly onClose: () => void;
}

/** It takes the focus, as a person opened it. */
export function StandingLine({ standing, trans, isFree, onStand, onClose }: IStandingLineProps): React.JSX.Element {
  const button = React.useRef<HTMLButtonElement>(null);
  React.useEffect(() => button.current?.focus(), []);
  return (
    <div
      className="jp-Ozzie-standing"
      onKeyDown={event => {
        if (event.key === 'Escape') {
          event.stopPropagation();
          onClose();
        }
      }}
    >
      <p>
        <Spans
          text={trans.__('From now on, %1 run without asking, unless content from outside is behind them.', standing)}
        />{' '}
        <Spans text={trans.__('To take it back: `ozzie policy revoke`.')} />
      </p>
      <button
        ref={button}
        className="jp-Ozzie-button"
        aria-disabled={!isFree}
        onClick={() => {
          if (isFree) {
            onStand();
          }
        }}
      >
        {trans.__('Approve, and don’t ask again')}
      </button>
    </div>
  );
}
