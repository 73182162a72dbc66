/** What a person does to a task, from wherever it is shown; a refusal is said in words. */

import { Dialog, Notification, showDialog } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';

import { AskError } from '../api/requests';
import { mayHaveEffect } from '../model/fold';
import type { TaskAct } from '../model/taskActs';
import type { IOzzie } from '../tokens';

const SHOWN_MS = 8_000;

/** Stop a task; a person is asked first only where an effect is under way. */
export async function stop(taskId: string, { board }: IOzzie, trans: TranslationBundle): Promise<void> {
  const row = board.row(taskId);
  if (row && mayHaveEffect(row)) {
    const name = row.calls.filter(call => call.started && !call.onlyReads).at(-1)?.name ?? '';
    const asked = await showDialog({
      title: trans.__('Stop "%1"?', row.title),
      body: trans.__('%1 has started and may still complete.', name),
      buttons: [Dialog.cancelButton(), Dialog.warnButton({ label: trans.__('Stop') })]
    });
    if (!asked.button.accept) {
      return;
    }
  }
  try {
    await board.cancel(taskId);
  } catch (error) {
    // One that has ended meanwhile is what was wanted.
    if (error instanceof AskError && error.code !== 'task.ended') {
      Notification.error(told(error), { autoClose: SHOWN_MS });
    }
  }
}

/** Hold a task, let it go on, or have it tried again. */
export async function act(what: TaskAct, taskId: string, { board }: IOzzie): Promise<void> {
  try {
    await board.act(what, taskId);
  } catch (error) {
    Notification.error(told(error), { autoClose: SHOWN_MS });
  }
}

export function told(error: unknown): string {
  return error instanceof AskError ? `${error.message} ${error.hint}`.trim() : String(error);
}
