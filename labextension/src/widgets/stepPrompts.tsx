/** Prompts of a run's steps, or of skills that a turn delegated to: a card each, the oldest first. */

import * as React from 'react';

import type { OzzieApi } from '../api/requests';
import type { ApprovalBook, ApprovalRow } from '../model/approvals';
import type { TaskBoard } from '../model/board';
import { stepOf, type TaskRow } from '../model/fold';
import { visibleLabel } from '../model/visible';
import { type ITranslate, partName } from '../model/wording';
import { ApprovalCard } from './approvalCard';
import { useChanges } from './useChanges';
import { QuestionCard } from './questionCard';

export interface IStepPromptsProps {
  readonly runId: string;
  /** The tasks that wait. */
  readonly waiting: readonly TaskRow[];
  /** Whether nothing else in the run is going on. */
  readonly isAlone: boolean;
  readonly api: Pick<OzzieApi, 'task' | 'answer' | 'approvalCard' | 'artifactText'>;
  readonly approvals: ApprovalBook;
  readonly board: Pick<TaskBoard, 'changed' | 'state' | 'row' | 'isPartOf'>;
  /** Whether a task's prompts are shown here; by default, those of all parts of the run. */
  readonly isHere?: (row: TaskRow) => boolean;
  readonly trans: ITranslate;
  readonly onLeave?: () => void;
}

export function StepPrompts(props: IStepPromptsProps): React.JSX.Element {
  const { runId, waiting, isAlone, api, approvals, board, trans, onLeave } = props;
  const isHere = props.isHere ?? ((row: TaskRow) => board.isPartOf(row, runId));
  useChanges(approvals.changed, board.changed);
  /** Name a step, including one of a nested skill: "step “review” of letter". */
  const nameOf = (taskId: string): string => {
    const row = board.row(taskId);
    const name = partName(row ?? { title: '' }, trans);
    const { skill } = stepOf(row ?? { title: '' });
    return skill && row?.parentId !== runId ? trans.__('%1 of %2', name, visibleLabel(skill)) : name;
  };
  const isShown = (approval: ApprovalRow): boolean => {
    const row = board.row(approval.task_id);
    return row !== undefined && isHere(row);
  };
  return (
    <>
      {approvals.shown.filter(isShown).map(approval => (
        <ApprovalCard
          key={approval.approval_id}
          row={approval}
          book={approvals}
          api={api}
          trans={trans}
          isConnected={board.state === 'ready'}
          kicker={trans.__('Approval needed by %1', nameOf(approval.task_id))}
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
            kicker={trans.__('Question from %1', nameOf(row.taskId))}
          />
        ))}
    </>
  );
}
