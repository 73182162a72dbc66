/** The button to pause, resume or retry a task. It stays in its place and keeps the focus. */

import * as React from 'react';

import type { TaskRow } from '../model/fold';
import { actLabel, actOf, type TaskAct } from '../model/taskActs';
import type { ITranslate } from '../model/wording';
import { Pause, Resume, Retry } from './icons';

export interface IActButtonProps {
  readonly row: TaskRow;
  readonly className: string;
  readonly isDisabled?: boolean;
  readonly trans: ITranslate;
  readonly onAct: (act: TaskAct, taskId: string) => void;
}

const ICONS = { pause: Pause, resume: Resume, retry: Retry };

export function ActButton({ row, className, isDisabled, trans, onAct }: IActButtonProps): React.JSX.Element | null {
  const act = actOf(row);
  if (act === null) {
    return null;
  }
  const Icon = ICONS[act];
  const label = actLabel(act, trans);
  return (
    <button className={className} disabled={isDisabled} title={label} onClick={() => onAct(act, row.taskId)}>
      <Icon />
      <span>{label}</span>
    </button>
  );
}
