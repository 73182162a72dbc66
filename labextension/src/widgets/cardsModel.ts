/**
 * With this model a kernel learns that the page draws the cards of turns; otherwise it shows plain buttons. It is
 * invisible, and loaded only if the widgets' own extension is there.
 */

import { type ExportMap, type IBackboneModelOptions, WidgetModel } from '@jupyter-widgets/base';

/** The kernel's name for it; the version is this package's. */
export const CARDS = { module: '@ozzie/labextension', version: '0.1.0', model: 'CardsModel' } as const;

class CardsModel extends WidgetModel {
  override defaults(): ReturnType<WidgetModel['defaults']> {
    return {
      ...super.defaults(),
      _model_name: CARDS.model,
      _model_module: CARDS.module,
      _model_module_version: CARDS.version
    };
  }

  override initialize(attributes: Record<string, unknown>, options: IBackboneModelOptions): void {
    super.initialize(attributes, options);
    // A model restored from a file has no kernel to notify.
    if (this.comm_live) {
      this.send({ here: true });
    }
  }
}

export const cardsWidgets: ExportMap = { [CARDS.model]: CardsModel };
