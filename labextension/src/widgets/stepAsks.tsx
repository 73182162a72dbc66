/**
 * What the steps of a run ask a person, or the skills that a turn has handed work over to: a card each, the oldest first,
 * while the others go on.
 */

import * as React from 'react';

import type { OzzieApi } from '../api/requests';
import type { ApprovalBook, ApprovalRow } from '../model/approvals';
import type { TaskBoard } from '../model/board';
import { stepOf, type TaskRow } from '../model/fold';
import { visibleLabel } from '../model/visible';
import { type ITranslate, partName } from '../model/wording';
import { ApprovalCard } from './approvalCard';
import { useChanges } from './following';
import { QuestionCard } from './questionCard';

export interface IStepAsksProps {
  readonly runId: string;
  /** Those that wait. */
  readonly waiting: readonly TaskRow[];
  /** Whether nothing of the run goes on meanwhile. */
  readonly isAlone: boolean;
  readonly api: Pick<OzzieApi, 'task' | 'answer' | 'approvalCard' | 'artifactText'>;
  readonly approvals: ApprovalBook;
  readonly board: Pick<TaskBoard, 'changed' | 'state' | 'row' | 'isPartOf'>;
  /** Whether it is shown here what a task asks; unless it is given, of all that is part of the run. */
  readonly isHere?: (row: TaskRow) => boolean;
  readonly trans: ITranslate;
  readonly onLeave?: () => void;
}

export function StepAsks(props: IStepAsksProps): React.JSX.Element {
  const { runId, waiting, isAlone, api, approvals, board, trans, onLeave } = props;
  const isHere = props.isHere ?? ((row: TaskRow) => board.isPartOf(row, runId));
  useChanges(approvals.changed, board.changed);
  /** Of a skill that a step runs: "step “review” of letter". */
  const named = (taskId: string): string => {
    const row = board.row(taskId);
    const name = partName(row ?? { title: '' }, trans);
    const { skill } = stepOf(row ?? { title: '' });
    return skill && row?.parentId !== runId ? trans.__('%1 of %2', name, visibleLabel(skill)) : name;
  };
  const isShown = (asked: ApprovalRow): boolean => {
    const row = board.row(asked.task_id);
    return row !== undefined && isHere(row);
  };
  return (
    <>
      {approvals.shown.filter(isShown).map(asked => (
        <ApprovalCard
          key={asked.approval_id}
          row={asked}
          book={approvals}
          api={api}
          trans={trans}
          isConnected={board.state === 'ready'}
          kicker={trans.__('Approval needed by %1', named(asked.task_id))}
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
            kicker={trans.__('Question from %1', named(row.taskId))}
          />
        ))}
    </>
  );
}
