/** What a person may do to a task beside stopping it: hold it, let it go on, have it tried again; pure. */

import { isOpen, type TaskRow } from './fold';
import type { ITranslate } from './wording';

export type TaskAct = 'pause' | 'resume' | 'retry';

type Standing = Pick<TaskRow, 'status' | 'isPausing' | 'isStopping' | 'parentId'>;

/** The one that fits as the task stands; null where none does. A part of a run goes with its run. */
export function actOf(row: Standing): TaskAct | null {
  if (row.parentId) {
    return null;
  }
  if (isOpen(row)) {
    return row.isStopping ? null : row.status === 'PAUSED' || row.isPausing ? 'resume' : 'pause';
  }
  return row.status === 'SUCCEEDED' ? null : 'retry';
}

export function actLabel(act: TaskAct, trans: ITranslate): string {
  switch (act) {
    case 'pause':
      return trans.__('Pause');
    case 'resume':
      return trans.__('Resume');
    case 'retry':
      return trans.__('Retry');
  }
}
