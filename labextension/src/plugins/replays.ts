/** Shows the output of a replay also after its kernel has ended. */

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { INotebookTracker, type NotebookPanel } from '@jupyterlab/notebook';

import { drawReplays } from '../widgets/replayOutput';

export const replaysPlugin: JupyterFrontEndPlugin<void> = {
  id: '@ozzie/labextension:replays',
  description: 'Shows the output of a replay also after its kernel has ended.',
  autoStart: true,
  requires: [INotebookTracker],
  activate: (_: JupyterFrontEnd, tracker: INotebookTracker): void => {
    const draw = ({ content, sessionContext }: NotebookPanel): void => {
      drawReplays(content.rendermime, sessionContext.ready);
    };
    tracker.widgetAdded.connect((_, panel) => draw(panel));
    tracker.forEach(draw);
  }
};
