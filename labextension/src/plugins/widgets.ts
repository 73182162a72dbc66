/** Tells kernels that this page draws the cards of turns. */

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';

export const widgetsPlugin: JupyterFrontEndPlugin<void> = {
  id: '@ozzie/labextension:widgets',
  description: 'Tells kernels that this page draws the cards of turns.',
  autoStart: true,
  activate: async (app: JupyterFrontEnd): Promise<void> => {
    const registry = await registryOf(app);
    if (registry) {
      const { CARDS, cardsWidgets } = await import('../widgets/cardsModel');
      registry.registerWidget({ name: CARDS.module, version: CARDS.version, exports: cardsWidgets });
    }
  }
};

/** A missing token can't be an optional dependency, because its module is missing too. */
async function registryOf(app: JupyterFrontEnd) {
  const base = await import('@jupyter-widgets/base').catch(() => null);
  return base && app.resolveOptionalService(base.IJupyterWidgetRegistry);
}
