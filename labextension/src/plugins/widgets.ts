/** Approvals in the cells that ask for them, as widgets (NB-3). Without the widgets' own extension, there are none. */

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import type { ICellModel } from '@jupyterlab/cells';
import { INotebookTracker, NotebookActions } from '@jupyterlab/notebook';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { IOzzie } from '../tokens';
import { WIDGETS } from '../widgets/widgetNames';

export const widgetsPlugin: JupyterFrontEndPlugin<void> = {
  id: '@ozzie/labextension:widgets',
  description: 'Shows approvals in the cells that ask for them.',
  autoStart: true,
  requires: [IOzzie],
  optional: [INotebookTracker, ITranslator],
  activate: async (
    app: JupyterFrontEnd,
    { api, approvals, board }: IOzzie,
    tracker: INotebookTracker | null,
    translator: ITranslator | null
  ): Promise<void> => {
    const run = new WeakSet<ICellModel>();
    NotebookActions.executionScheduled.connect((_, { cell }) => run.add(cell.model));

    /**
     * Save the notebook, so that the card comes back after a reload. Only what the gateway says that this notebook asks,
     * in a cell that was run in this page: opening a notebook saves none (THREATS 4). Not by the command
     * `docmanager:save`, which saves whatever is in front.
     */
    const save = async (approvalId: string, node: HTMLElement): Promise<void> => {
      const panel = tracker?.find(open => open.node.contains(node));
      const cell = panel?.content.widgets.find(each => each.node.contains(node));
      if (!panel || !cell || !run.has(cell.model)) {
        return;
      }
      const { context } = panel;
      const canSave = context.contentsModel?.writable !== false && !context.model.readOnly && context.model.dirty;
      const asked = canSave ? await api.approval(approvalId) : null;
      if (asked?.status === 'pending' && asked.notebook === context.path) {
        await context.save();
      }
    };

    const registry = await registryOf(app);
    registry?.registerWidget({
      name: WIDGETS.module,
      version: WIDGETS.version,
      exports: async () => {
        const { approvalWidget } = await import('../widgets/approvalView');
        return approvalWidget({
          approvals,
          board,
          api,
          trans: (translator ?? nullTranslator).load('ozzie'),
          onAsked: (approvalId, node) => void save(approvalId, node).catch(() => undefined),
          onLeave: () => void app.commands.execute('notebook:enter-command-mode')
        });
      }
    });
  }
};

/** A token that is not there can't be named among the optional ones: the module that has it is not there either. */
async function registryOf(app: JupyterFrontEnd) {
  const base = await import('@jupyter-widgets/base').catch(() => null);
  return base && app.resolveOptionalService(base.IJupyterWidgetRegistry);
}
