/** Shows what cells were made from, until a person runs or clears them. */

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import type { Cell } from '@jupyterlab/cells';
import { INotebookTracker, NotebookActions, type NotebookPanel } from '@jupyterlab/notebook';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import type { PartialJSONValue } from '@lumino/coreutils';

import { madeFromText, OZZIE, sourcesOf, withoutSources } from '../model/madeFrom';
import type { ITranslate } from '../model/wording';
import { drawMadeFrom } from '../widgets/madeFromTag';

/** A notebook reports a change for each key. */
const DRAW_MS = 100;

export const madeFromPlugin: JupyterFrontEndPlugin<void> = {
  id: '@ozzie/labextension:made-from',
  description: 'Shows which cells were made from outside content.',
  autoStart: true,
  requires: [INotebookTracker],
  optional: [ITranslator],
  activate: (_: JupyterFrontEnd, tracker: INotebookTracker, translator: ITranslator | null): void => {
    const trans = (translator ?? nullTranslator).load('ozzie');
    tracker.widgetAdded.connect((_, panel) => watch(panel, trans));
    tracker.forEach(panel => watch(panel, trans));
    // On sending, not at the end: text added meanwhile has not been run.
    NotebookActions.executionScheduled.connect((_, { cell }) => clear(cell));
  }
};

function watch(panel: NotebookPanel, trans: ITranslate): void {
  let drawing: ReturnType<typeof setTimeout> | undefined;
  const draw = (): void => {
    drawing = undefined;
    for (const cell of panel.content.widgets) {
      drawOn(cell, trans);
    }
  };
  const drawSoon = (): void => {
    drawing ??= setTimeout(draw, DRAW_MS);
  };
  panel.content.modelContentChanged.connect(drawSoon);
  panel.content.modelChanged.connect(drawSoon);
  panel.disposed.connect(() => clearTimeout(drawing));
  drawSoon();
}

function drawOn(cell: Cell, trans: ITranslate): void {
  const header = cell.node.querySelector<HTMLElement>(':scope > .jp-Cell-header');
  if (header) {
    const text = madeFromText(sourcesOf(noteOf(cell)), trans);
    drawMadeFrom(header, text, {
      trans,
      onClear: () => {
        cell.model.sharedModel.transact(() => clear(cell));
        // The button disappears; keep the focus in the cell.
        cell.node.focus();
      }
    });
  }
}

/** Not an Undo step, unless made within one: a run can't be undone. */
function clear(cell: Cell): void {
  const { sharedModel } = cell.model;
  const noted = noteOf(cell);
  if (sourcesOf(noted).length > 0) {
    const left = withoutSources(noted);
    if (left) {
      sharedModel.setMetadata(OZZIE, left as PartialJSONValue);
    } else {
      sharedModel.deleteMetadata(OZZIE);
    }
  }
}

/** Read only our key: the other metadata may be large and would be copied. */
function noteOf(cell: Cell): Readonly<Record<string, unknown>> {
  return { [OZZIE]: cell.model.sharedModel.getMetadata(OZZIE) };
}
