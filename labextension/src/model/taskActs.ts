/** Actions on a task other than stopping: pause, resume, retry; pure. */

import { isOpen, type TaskRow } from './fold';
import type { ITranslate } from './wording';

export type TaskAct = 'pause' | 'resume' | 'retry';

type TaskFlags = Pick<TaskRow, 'status' | 'isPausing' | 'isStopping' | 'parentId'>;

/** Return the action that applies in this state, or null. Parts of a run have none of their own. */
export function actOf(row: TaskFlags): TaskAct | null {
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
