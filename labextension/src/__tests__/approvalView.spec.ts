import type { DOMWidgetModel, DOMWidgetView } from '@jupyter-widgets/base';
import { Signal } from '@lumino/signaling';
import { act } from 'react';

import type { IApprovalViewParts } from '../widgets/approvalView';
import { WIDGETS } from '../widgets/widgetNames';
import { anApproval, TRANS } from './rig';

(globalThis as { IS_REACT_ACT_ENVIRONMENT?: boolean }).IS_REACT_ACT_ENVIRONMENT = true;
// Lumino's widgets know of dragging, jsdom does not.
globalThis.DragEvent ??= class extends MouseEvent {} as unknown as typeof DragEvent;

const ID = anApproval().approval_id;

/** What the kernel would hear. */
const sent: unknown[] = [];
const comm = {
  on_close: () => undefined,
  on_msg: () => undefined,
  send: (data: unknown) => {
    sent.push(data);
    return '';
  }
};

const owner = {};
const asked: string[] = [];
const parts = {
  approvals: { get: () => anApproval(), isChanged: () => false, isRenewable: () => false, changed: new Signal(owner) },
  board: { state: 'ready', changed: new Signal(owner) },
  api: {},
  trans: TRANS,
  onAsked: (approvalId: string) => asked.push(approvalId),
  onLeave: () => undefined
} as unknown as IApprovalViewParts;

async function classes(): Promise<{ Model: typeof DOMWidgetModel; View: typeof DOMWidgetView }> {
  const { approvalWidget } = await import('../widgets/approvalView');
  const { [WIDGETS.model]: Model, [WIDGETS.view]: View } = approvalWidget(parts);
  return { Model: Model as typeof DOMWidgetModel, View: View as typeof DOMWidgetView };
}

test('a model whose kernel is there tells it so, and one from a file tells nobody', async () => {
  const { Model } = await classes();
  new Model({ approval_id: ID }, { model_id: 'm', widget_manager: {}, comm });
  expect(sent).toEqual([{ method: 'custom', content: { here: true } }]);
  new Model({ approval_id: ID }, { model_id: 'n', widget_manager: {} });
  expect(sent).toHaveLength(1);
});

test('the names are those by which the kernel asks for it, and the version is that of the package', async () => {
  const { Model } = await classes();
  const model = new Model({}, { model_id: 'm', widget_manager: {} });
  const { version, name } = jest.requireActual<{ version: string; name: string }>('../../package.json');
  expect(WIDGETS).toMatchObject({ module: name, version });
  expect(model.attributes).toMatchObject({
    _model_name: 'ApprovalModel',
    _model_module: name,
    _model_module_version: version,
    _view_name: 'ApprovalView',
    _view_module: name,
    _view_module_version: version,
    approval_id: ''
  });
});

test('a view draws the record, whatever else the kernel says of it, and goes without a trace', async () => {
  const { Model, View } = await classes();
  const model = new Model({ approval_id: ID, sentence: 'Do nothing?' }, { model_id: 'm', widget_manager: {} });
  const view = new View({ model, options: {} });
  act(() => void view.render());
  expect(view.el.querySelector('.jp-Ozzie-sentence')?.textContent).toBe('Change 2 lines of notes/a.md?');
  expect(asked).toEqual([ID]);
  act(() => void view.remove());
  expect(view.el.textContent).toBe('');
});
