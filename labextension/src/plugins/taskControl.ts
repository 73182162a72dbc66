/** Actions of a person on a task; refusals are shown as notifications. */

import { Dialog, Notification, showDialog } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';

import { errorText, RequestError } from '../api/requests';
import { mayHaveEffect } from '../model/fold';
import type { TaskAct } from '../model/taskActs';
import type { IOzzie } from '../tokens';

const SHOWN_MS = 8_000;

/** Stop a task; ask the person first only if an effect is under way. */
export async function stop(taskId: string, { board }: IOzzie, trans: TranslationBundle): Promise<void> {
  const row = board.row(taskId);
  if (row && mayHaveEffect(row)) {
    const name = row.calls.filter(call => call.started && !call.onlyReads).at(-1)?.name ?? '';
    const answer = await showDialog({
      title: trans.__('Stop "%1"?', row.title),
      body: trans.__('%1 has started and may still complete.', name),
      buttons: [Dialog.cancelButton(), Dialog.warnButton({ label: trans.__('Stop') })]
    });
    if (!answer.button.accept) {
      return;
    }
  }
  try {
    await board.cancel(taskId);
  } catch (error) {
    // A task that has ended meanwhile is no error.
    if (error instanceof RequestError && error.code !== 'task.ended') {
      Notification.error(errorText(error), { autoClose: SHOWN_MS });
    }
  }
}

/** Pause, resume or retry a task. */
export async function act(what: TaskAct, taskId: string, { board }: IOzzie): Promise<void> {
  try {
    await board.act(what, taskId);
  } catch (error) {
    Notification.error(errorText(error), { autoClose: SHOWN_MS });
  }
}
