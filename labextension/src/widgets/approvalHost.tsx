/** The card of one approval of which only the id is known, as the gateway's record has it. */

import * as React from 'react';

import type { OzzieApi } from '../api/requests';
import type { ApprovalBook } from '../model/approvals';
import type { TaskBoard } from '../model/board';
import type { ITranslate } from '../model/wording';
import { ApprovalCard } from './approvalCard';
import { useChanges } from './following';

const LOOK_AGAIN_MS = 2_000;

export interface IApprovalHostProps {
  readonly approvalId: string;
  readonly approvals: ApprovalBook;
  readonly board: Pick<TaskBoard, 'changed' | 'state'>;
  readonly api: Pick<OzzieApi, 'artifactText'>;
  readonly trans: ITranslate;
  /** Told when there is a card that waits for an answer. */
  readonly onAsked: () => void;
  readonly onLeave: () => void;
}

/** Nothing until the gateway has told what was asked, and where it knows of no such approval. */
export function ApprovalHost(props: IApprovalHostProps): React.JSX.Element | null {
  const { approvalId, approvals, board, api, trans, onAsked, onLeave } = props;
  useChanges(approvals.changed, board.changed);
  const textOf = React.useCallback((artifactId: string) => api.artifactText(artifactId), [api]);
  const row = approvals.get(approvalId);
  const isKnown = row !== undefined;
  React.useEffect(() => {
    if (isKnown || !approvalId) {
      return undefined;
    }
    let timer: ReturnType<typeof setTimeout> | undefined;
    let isWanted = true;
    const look = (): void => {
      // What has no answer is asked for once more: the connection may be back.
      approvals.look(approvalId).catch(() => {
        timer = isWanted ? setTimeout(look, LOOK_AGAIN_MS) : undefined;
      });
    };
    look();
    return () => {
      isWanted = false;
      clearTimeout(timer);
    };
  }, [approvals, approvalId, isKnown]);
  const isAsked = row?.status === 'pending';
  React.useEffect(() => {
    if (isAsked) {
      onAsked();
    }
  }, [isAsked, onAsked]);
  return row === undefined ? null : (
    <ApprovalCard
      row={row}
      book={approvals}
      textOf={textOf}
      trans={trans}
      isConnected={board.state === 'ready'}
      onLeave={onLeave}
    />
  );
}
