/**
 * The view of an approval in its cell, for a widget of the kernel's. All that it takes from the kernel is which approval it
 * is: what is shown is the gateway's record, and the answer goes from the page to the gateway (DESIGN §2.6).
 *
 * Loaded only where the widgets' own extension is there.
 */

import { DOMWidgetModel, DOMWidgetView, type ExportMap, type IBackboneModelOptions } from '@jupyter-widgets/base';
import * as React from 'react';
import { createRoot, type Root } from 'react-dom/client';

import { ApprovalHost, type IApprovalHostProps } from './approvalHost';
import { WIDGETS } from './widgetNames';

/** What the page gives a view. */
export interface IApprovalViewParts extends Pick<IApprovalHostProps, 'approvals' | 'board' | 'api' | 'trans'> {
  /** A card came up in that node. */
  readonly onAsked: (approvalId: string, node: HTMLElement) => void;
  readonly onLeave: () => void;
}

/** The classes by the names that the kernel calls them by. */
export function approvalWidget(parts: IApprovalViewParts): ExportMap {
  class ApprovalModel extends DOMWidgetModel {
    override defaults(): ReturnType<DOMWidgetModel['defaults']> {
      return {
        ...super.defaults(),
        _model_name: WIDGETS.model,
        _model_module: WIDGETS.module,
        _model_module_version: WIDGETS.version,
        _view_name: WIDGETS.view,
        _view_module: WIDGETS.module,
        _view_module_version: WIDGETS.version,
        approval_id: '',
        task_id: ''
      };
    }

    override initialize(attributes: Record<string, unknown>, options: IBackboneModelOptions): void {
      super.initialize(attributes, options);
      // Without this, the kernel shows plain buttons. One that was put back from a file has no kernel to tell.
      if (this.comm_live) {
        this.send({ here: true });
      }
    }
  }

  class ApprovalView extends DOMWidgetView {
    override render(): void {
      this.root = createRoot(this.el);
      this.model.on('change:approval_id', () => this.draw());
      this.draw();
    }

    override remove(): void {
      this.root?.unmount();
      this.root = null;
      super.remove();
    }

    private draw(): void {
      const given: unknown = this.model.get('approval_id');
      const approvalId = typeof given === 'string' ? given : '';
      this.root?.render(
        <ApprovalHost
          {...parts}
          key={approvalId}
          approvalId={approvalId}
          onAsked={() => parts.onAsked(approvalId, this.el)}
        />
      );
    }

    private root: Root | null = null;
  }

  return { [WIDGETS.model]: ApprovalModel, [WIDGETS.view]: ApprovalView };
}
