/** Tells the gateway which cells a person ran by a key or a click of their own, and what they typed of each. */

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import type { ICellModel } from '@jupyterlab/cells';
import { INotebookTracker, type NotebookPanel } from '@jupyterlab/notebook';
import type { Session } from '@jupyterlab/services';

import { type IExecution, PersonsRuns } from '../model/personsRuns';
import { type Delta, TypedText } from '../model/typedText';
import { IOzzie } from '../tokens';

type SharedCell = ICellModel['sharedModel'];
/** The text of a cell as a Y document has it, which tells changes of this page from others'. */
interface IYText {
  observe(heard: (event: { readonly delta: Delta }, transaction: { readonly local: boolean }) => void): void;
}

const KERNEL = 'ozzie';
/** A magic, or Python: no message. */
const NO_MESSAGE = /^\s*(?:%%?[a-z]|$)/i;
/** Input of text that a person writes, of any length: by an input method, or spoken. */
const WRITTEN: ReadonlySet<string> = new Set(['insertText', 'insertCompositionText', 'insertFromComposition']);
/** Keys that delete, begin a line or indent; with Control or Meta, others do too. */
const CHANGING: ReadonlySet<string> = new Set(['Backspace', 'Delete', 'Enter', 'Tab']);
/** Where a click, or a key without a shortcut, runs cells. */
const CONTROLS = '.jp-Toolbar, .lm-Menu, .lm-MenuBar, .lm-CommandPalette';
/** A key that Lab finds no shortcut for runs nothing, so any key counts in a notebook. */
const PLACES = `.jp-Notebook, ${CONTROLS}`;
/** An output may look like a control. */
const OUTPUTS = '.jp-OutputArea, .jp-RenderedHTMLCommon';

export const ownWordsPlugin: JupyterFrontEndPlugin<void> = {
  id: '@ozzie/labextension:own-words',
  description: 'Tells Ozzie which cells a person ran, and what they typed.',
  autoStart: true,
  requires: [IOzzie, INotebookTracker],
  activate: (app: JupyterFrontEnd, { api }: IOzzie, tracker: INotebookTracker): void => {
    const texts = new WeakMap<SharedCell, TypedText>();
    const runs = new PersonsRuns<SharedCell>();
    const heard = new WeakSet<Session.ISessionConnection>();
    const now = (): number => performance.now();

    const confirm = (execution: IExecution<SharedCell> | null): void => {
      if (execution !== null && !NO_MESSAGE.test(execution.code)) {
        const { cell, id, code } = execution;
        const parts = texts.get(cell)?.parts(code) ?? (['', code] as const);
        // If the gateway does not hear it, it asks more often, and nothing else is missing.
        api.confirmMessage({ execution: id, parts: [...parts] }).catch(() => undefined);
      }
    };

    const follow = (cell: SharedCell): void => {
      const { ysource } = cell as Partial<{ ysource: IYText }>;
      if (ysource !== undefined && !texts.has(cell)) {
        const text = new TypedText(cell.getSource());
        texts.set(cell, text);
        ysource.observe(({ delta }, { local }) => text.changed(delta, cell.getSource(), local, now()));
      }
    };
    const listenTo = (panel: NotebookPanel, session: Session.ISessionConnection | null): void => {
      if (session === null || heard.has(session)) {
        return; // a second view of the notebook has the same session
      }
      heard.add(session);
      session.anyMessage.connect((_, { msg, direction }) => {
        const { cellId } = msg.metadata as { cellId?: unknown };
        const { code } = msg.content as { code?: unknown };
        const isRun = direction === 'send' && msg.header.msg_type === 'execute_request';
        if (isRun && session.kernel?.name === KERNEL && typeof cellId === 'string' && typeof code === 'string') {
          const [cell, ...others] = [...panel.context.model.cells].filter(({ id }) => id === cellId);
          if (cell !== undefined && others.length === 0) {
            const execution = { cell: cell.sharedModel, id: msg.header.msg_id, code };
            confirm(runs.begins(execution, now()));
          }
        }
      });
    };
    const watch = (panel: NotebookPanel): void => {
      void panel.context.ready.then(() => {
        const { cells } = panel.context.model;
        const followAll = (): void => [...cells].forEach(cell => follow(cell.sharedModel));
        followAll();
        cells.changed.connect(followAll);
        listenTo(panel, panel.sessionContext.session);
        panel.sessionContext.sessionChanged.connect((_, { newValue }) => listenTo(panel, newValue));
      });
    };
    tracker.widgetAdded.connect((_, panel) => watch(panel));
    tracker.forEach(watch);

    /** The text in whose editor this is. */
    const editedAt = (target: EventTarget | null): TypedText | undefined => {
      const cell = tracker.currentWidget?.content.widgets.find(
        ({ editorWidget }) => target instanceof Node && editorWidget?.node.contains(target)
      );
      return cell && texts.get(cell.model.sharedModel);
    };
    const acts = (event: Event, places: string): void => {
      const { target } = event;
      const panel = tracker.currentWidget;
      const isThere = target instanceof Element && target.closest(places) !== null && target.closest(OUTPUTS) === null;
      const selected = panel?.content.widgets.filter(cell => panel.content.isSelectedOrActive(cell)) ?? [];
      runs.acts(isThere ? selected.map(cell => cell.model.sharedModel) : [], now());
    };
    // What a program makes of events is not trusted by the browser, and not by us.
    const listen = <K extends keyof WindowEventMap>(name: K, act: (event: WindowEventMap[K]) => void): void =>
      window.addEventListener(name, event => event.isTrusted && act(event), { capture: true });
    listen('keydown', event => {
      if (CHANGING.has(event.key) || event.ctrlKey || event.metaKey) {
        editedAt(event.target)?.writes(null, now());
      }
      if (!event.repeat) {
        acts(event, PLACES);
      }
    });
    listen('beforeinput', event => {
      if (WRITTEN.has(event.inputType)) {
        editedAt(event.target)?.writes(event.data, now());
      } else if (event.inputType.startsWith('delete')) {
        editedAt(event.target)?.writes(null, now());
      } else {
        editedAt(event.target)?.inserts();
      }
    });
    listen('paste', event => editedAt(event.target)?.inserts());
    listen('drop', event => editedAt(event.target)?.inserts());
    listen('mousedown', event => acts(event, CONTROLS));
    listen('mouseup', event => acts(event, CONTROLS));
    listen('click', event => acts(event, CONTROLS));

    app.commands.commandExecuted.connect((_, { id }) => confirm(runs.ran(id, now())));
  }
};
