/** Tells kernels that this page draws the cards of what turns ask. */

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';

export const widgetsPlugin: JupyterFrontEndPlugin<void> = {
  id: '@ozzie/labextension:widgets',
  description: 'Tells kernels that this page draws the cards of what turns ask.',
  autoStart: true,
  activate: async (app: JupyterFrontEnd): Promise<void> => {
    const registry = await registryOf(app);
    if (registry) {
      const { CARDS, cardsWidgets } = await import('../widgets/cardsModel');
      registry.registerWidget({ name: CARDS.module, version: CARDS.version, exports: cardsWidgets });
    }
  }
};

/** A token that is not there can't be named among the optional ones: the module that has it is not there either. */
async function registryOf(app: JupyterFrontEnd) {
  const base = await import('@jupyter-widgets/base').catch(() => null);
  return base && app.resolveOptionalService(base.IJupyterWidgetRegistry);
}
