/** The field for the reason of a rejection. */

import * as React from 'react';

import type { ITranslate } from '../model/wording';

/** The gateway's limit. */
const MAX_CHARACTERS = 2_000;

export interface IRejectLineProps {
  readonly trans: ITranslate;
  readonly isFree: boolean;
  readonly onReject: (comment: string) => void;
  readonly onClose: () => void;
}

/** It takes the focus, as a person opened it. */
export function RejectLine({ trans, isFree, onReject, onClose }: IRejectLineProps): React.JSX.Element {
  const [comment, setComment] = React.useState('');
  const field = React.useRef<HTMLInputElement>(null);
  React.useEffect(() => field.current?.focus(), []);
  const send = (): void => {
    if (isFree) {
      onReject(comment);
    }
  };
  return (
    <form
      className="jp-Ozzie-reject"
      onSubmit={event => {
        event.preventDefault();
        send();
      }}
      onKeyDown={event => {
        if (event.key === 'Escape') {
          event.stopPropagation();
          onClose();
        } else if (event.key === 'Enter' && event.target === field.current && !event.nativeEvent.isComposing) {
          // Inside a cell, Enter submits no form by itself.
          event.preventDefault();
          send();
        }
      }}
    >
      <input
        ref={field}
        value={comment}
        maxLength={MAX_CHARACTERS}
        aria-label={trans.__('Tell Ozzie why (optional)')}
        placeholder={trans.__('Tell Ozzie why (optional)')}
        onChange={event => setComment(event.target.value)}
      />
      <button className="jp-Ozzie-button" type="submit" aria-disabled={!isFree}>
        {trans.__('Reject')}
      </button>
    </form>
  );
}
