/** A notebook as Lab has it open, in one panel or in several, for the edits that the gateway asks for. */

import type { ICodeCellModel } from '@jupyterlab/cells';
import type { IOutput } from '@jupyterlab/nbformat';
import type { INotebookModel, Notebook, NotebookPanel } from '@jupyterlab/notebook';
import type { PartialJSONValue } from '@lumino/coreutils';

import type { WrittenCell } from '../api/notebookFrames';
import { type ICellHead, type ISourceChange, smallestChange } from '../model/cellEdits';
import { marked, OZZIE } from '../model/madeFrom';
import { oneAtATime } from '../model/oneAtATime';
import type { IEditableNotebook } from '../model/openNotebooks';

export type Context = NotebookPanel['context'];
type SharedNotebook = INotebookModel['sharedModel'];
type SharedCell = SharedNotebook['cells'][number];
type SharedCodeCell = Extract<SharedCell, { cell_type: 'code' }>;

export class LabNotebook implements IEditableNotebook {
  /** Those that show it. */
  readonly panels = new Set<NotebookPanel>();

  constructor(private readonly context: Context) {
    // Two saves at once, ours and one by a person or by time, take each other's file for one that somebody else has
    // changed, and Lab asks which is to stay.
    context.save = oneAtATime(context.save.bind(context));
    context.saveState.connect((_, state) => {
      if (state === 'started') {
        this._changedWhileSaving = false;
      } else if (this._changedWhileSaving && !context.isDisposed) {
        // Lab takes all for saved by then, and so what was typed meanwhile for nothing that a reload could take away.
        context.model.dirty = true;
      }
      this._isSaving = state === 'started';
    });
    context.model.contentChanged.connect(() => {
      this._changedWhileSaving = this._isSaving;
    });
  }

  get path(): string {
    return this.context.path;
  }

  get isDirty(): boolean {
    return this.context.model.dirty;
  }

  get isReadOnly(): boolean {
    return this.context.model.readOnly || this.context.contentsModel?.writable === false;
  }

  get language(): string {
    const { model } = this.context;
    const info = model.getMetadata('language_info') as { name?: unknown } | undefined;
    const spec = model.getMetadata('kernelspec') as { language?: unknown } | undefined;
    return [info?.name, spec?.language].find((name): name is string => typeof name === 'string' && name !== '') ?? '';
  }

  get cells(): readonly ICellHead[] {
    return this.shared.cells.map(cell => ({ id: cell.getId(), kind: cell.cell_type, source: cell.getSource() }));
  }

  whole(index: number): WrittenCell {
    return this.shared.getCell(index).toJSON() as unknown as WrittenCell;
  }

  isEdited(cellId: string): boolean {
    return this.views.some(view => view.mode === 'edit' && view.activeCell?.model.id === cellId);
  }

  isComposed(cellId: string): boolean {
    return this.views.some(view => {
      // CodeMirror's own, below Lab's editor: what has none can't tell.
      const editor = view.widgets.find(cell => cell.model.id === cellId)?.editor as { editor?: IComposing } | null;
      return editor?.editor?.composing === true || editor?.editor?.compositionStarted === true;
    });
  }

  isRunning(cellId: string): boolean {
    const cell = this.shared.cells.find(each => each.getId() === cellId);
    return cell?.cell_type === 'code' && (cell as SharedCodeCell).executionState === 'running';
  }

  insert(index: number, cell: WrittenCell): void {
    this.asOneStep(this.shared, () => {
      this.shared.insertCell(index, cell as unknown as Parameters<SharedNotebook['insertCell']>[1]);
    });
  }

  changeSource(index: number, { start, end, text }: ISourceChange, madeFrom: readonly string[]): void {
    const cell = this.shared.getCell(index);
    this.asOneStep(cell, () => {
      cell.updateSource(start, end, text);
      if (madeFrom.length > 0) {
        cell.setMetadata(OZZIE, marked(cell.getMetadata(), madeFrom) as PartialJSONValue);
      }
    });
  }

  move(index: number, to: number): void {
    this.asOneStep(this.shared, () => this.shared.moveCell(index, to));
  }

  remove(index: number): void {
    // As Lab does: a cell that waits for its turn to be run is not run any more.
    this.context.model.deletedCells.push(this.shared.getCell(index).getId());
    this.asOneStep(this.shared, () => this.shared.deleteCell(index));
  }

  /** No step for Undo, as no run is one. */
  show(index: number, outputs: readonly IOutput[], executionCount: number | null): void {
    // Through Lab's own list of them: where the shared model replaces outputs, Lab loses a stream that follows a stream.
    const cell = this.context.model.cells.get(index) as ICodeCellModel;
    cell.outputs.fromJSON([...outputs]);
    cell.executionCount = executionCount;
  }

  save(): Promise<void> {
    return this.context.save();
  }

  async revert(): Promise<void> {
    const { model } = this.context;
    const before = new Map(this.cells.map(({ id, source }) => [id, source]));
    const load = model.fromJSON.bind(model);
    // Lab first fetches the file: what is typed meanwhile would be gone with the cells that it stands in.
    model.fromJSON = value => {
      const typed = this.cells.filter(({ id, source }) => before.has(id) && before.get(id) !== source);
      const places = this.views.map(view => placeIn(view));
      load(value);
      for (const { id, source } of typed) {
        const index = this.cells.findIndex(cell => cell.id === id && cell.source === before.get(id));
        if (index >= 0) {
          this.changeSource(index, smallestChange(before.get(id) ?? '', source), []);
        }
      }
      places.forEach(keep => keep());
    };
    try {
      await this.context.revert();
    } finally {
      model.fromJSON = load;
    }
  }

  private get shared(): SharedNotebook {
    return this.context.model.sharedModel;
  }

  private get views(): readonly Notebook[] {
    return [...this.panels].map(panel => panel.content);
  }

  /** One step for Undo, and not part of one with what was typed just before or is typed just behind. */
  private asOneStep(scope: SharedNotebook | SharedCell, change: () => void): void {
    const { undoManager } = scope as { undoManager?: { stopCapturing(): void } | null };
    const places = this.views.map(view => placeIn(view));
    undoManager?.stopCapturing();
    scope.transact(change);
    undoManager?.stopCapturing();
    places.forEach(keep => keep());
  }

  private _isSaving = false;
  private _changedWhileSaving = false;
}

type CodeEditor = NonNullable<Notebook['widgets'][number]['editor']>;
type Cursor = ReturnType<CodeEditor['getCursorPosition']>;

interface IComposing {
  readonly composing?: boolean;
  readonly compositionStarted?: boolean;
}

/**
 * Where somebody is in a notebook, to put them there again: Lab goes to another cell where the active one is taken away, if
 * only to be put elsewhere. The focus stays within, as it was; it is never taken from anything else.
 */
function placeIn(view: Notebook): () => void {
  const { activeCellIndex: index, activeCell } = view;
  const id = activeCell?.model.id;
  const hadFocus = activeCell?.node.contains(document.activeElement) === true;
  const cursor = hadFocus && view.mode === 'edit' ? activeCell.editor?.getCursorPosition() : undefined;
  return () => {
    if (view.isDisposed) {
      return;
    }
    const found = view.widgets.findIndex(cell => cell.model.id === id);
    if (view.activeCell?.model.id !== id) {
      view.activeCellIndex = found < 0 ? index : found;
    }
    if (hadFocus && isNowhere(document.activeElement)) {
      void focusOn(view, found < 0 ? undefined : cursor);
    }
  };
}

/** A cell that was put elsewhere is only drawn later. Who was writing in it goes on writing: keys are commands elsewhere. */
async function focusOn(view: Notebook, cursor?: Cursor): Promise<void> {
  const cell = view.activeCell;
  await cell?.ready;
  if (!cell || cell !== view.activeCell || !isNowhere(document.activeElement)) {
    return;
  }
  if (cursor) {
    view.mode = 'edit';
    cell.editor?.focus();
    cell.editor?.setCursorPosition(cursor);
  } else {
    cell.node.focus({ preventScroll: true });
  }
}

function isNowhere(focused: Element | null): boolean {
  return focused === null || focused === document.body;
}
