/** Lets Ozzie read and change open notebooks in this page, not behind its back in their files (docs/adr/0036). */

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { INotebookTracker, type NotebookPanel } from '@jupyterlab/notebook';

import { IOzzie } from '../tokens';
import { type Context, LabNotebook } from './labNotebook';

export const openNotebooksPlugin: JupyterFrontEndPlugin<void> = {
  id: '@ozzie/labextension:open-notebooks',
  description: 'Lets Ozzie change an open notebook in this page once a person has approved.',
  autoStart: true,
  requires: [IOzzie, INotebookTracker],
  activate: (app: JupyterFrontEnd, { notebooks }: IOzzie, tracker: INotebookTracker): void => {
    const open = new Map<Context, LabNotebook>();
    const { contents } = app.serviceManager;

    const watch = async (panel: NotebookPanel): Promise<void> => {
      const { context } = panel;
      await context.ready;
      // Skip collaborative documents, which are changed as such, and other drives, which aren't the server's files.
      if (panel.isDisposed || context.model.collaborative || contents.driveName(context.path)) {
        return;
      }
      const notebook = open.get(context) ?? new LabNotebook(context);
      notebook.panels.add(panel);
      panel.disposed.connect(() => {
        notebook.panels.delete(panel);
        if (notebook.panels.size === 0) {
          open.delete(context);
          notebooks.closed(notebook);
        }
      });
      if (!open.has(context)) {
        open.set(context, notebook);
        context.pathChanged.connect(() => notebooks.moved(notebook));
        notebooks.opened(notebook);
      }
    };
    // A notebook that can't be opened is never ready.
    const watchSoon = (panel: NotebookPanel): void => void watch(panel).catch(() => undefined);
    tracker.widgetAdded.connect((_, panel) => watchSoon(panel));
    tracker.forEach(watchSoon);
  }
};
