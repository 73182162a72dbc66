/** What the steps of a run ask a person: a card each, the oldest first, while the other steps go on (UX §3). */

import * as React from 'react';

import type { OzzieApi } from '../api/requests';
import type { ApprovalBook, ApprovalRow } from '../model/approvals';
import type { TaskBoard } from '../model/board';
import { stepOf, type TaskRow } from '../model/fold';
import { visibleLabel } from '../model/visible';
import type { ITranslate } from '../model/wording';
import { ApprovalCard } from './approvalCard';
import { useChanges } from './following';
import { QuestionCard } from './questionCard';

export interface IStepAsksProps {
  readonly runId: string;
  /** The steps that wait. */
  readonly waiting: readonly TaskRow[];
  /** Whether nothing of the run goes on meanwhile. */
  readonly isAlone: boolean;
  readonly api: Pick<OzzieApi, 'task' | 'answer' | 'artifactText'>;
  readonly approvals: ApprovalBook;
  readonly board: Pick<TaskBoard, 'changed' | 'state' | 'row' | 'isPartOf'>;
  readonly trans: ITranslate;
  readonly onLeave?: () => void;
}

export function StepAsks(props: IStepAsksProps): React.JSX.Element {
  const { runId, waiting, isAlone, api, approvals, board, trans, onLeave } = props;
  useChanges(approvals.changed, board.changed);
  const textOf = React.useCallback((artifactId: string) => api.artifactText(artifactId), [api]);
  /** "“publish”"; of a skill that a step runs "“review” of letter". */
  const stepNamed = (taskId: string): string => {
    const row = board.row(taskId);
    const { skill, step } = stepOf(row ?? { title: '' });
    const named = `“${visibleLabel(step)}”`;
    return row?.parentId === runId ? named : trans.__('%1 of %2', named, visibleLabel(skill));
  };
  const isOfRun = (asked: ApprovalRow): boolean => {
    const row = board.row(asked.task_id);
    return row !== undefined && board.isPartOf(row, runId);
  };
  return (
    <>
      {approvals.shown.filter(isOfRun).map(asked => (
        <ApprovalCard
          key={asked.approval_id}
          row={asked}
          book={approvals}
          textOf={textOf}
          trans={trans}
          isConnected={board.state === 'ready'}
          kicker={trans.__('Approval needed by step %1', stepNamed(asked.task_id))}
          note={isAlone ? '' : trans.__('The other steps go on meanwhile.')}
          onLeave={onLeave}
        />
      ))}
      {waiting
        .filter(row => row.status === 'WAITING_INPUT')
        .map(row => (
          <QuestionCard
            key={row.taskId}
            taskId={row.taskId}
            version={row.position}
            api={api}
            trans={trans}
            kicker={trans.__('Question from step %1', stepNamed(row.taskId))}
          />
        ))}
    </>
  );
}
