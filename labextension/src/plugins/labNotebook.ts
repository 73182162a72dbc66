/** A notebook open in one or more of Lab's panels, for edits by the gateway. */

import type { ICodeCellModel } from '@jupyterlab/cells';
import type { IOutput } from '@jupyterlab/nbformat';
import type { INotebookModel, Notebook, NotebookPanel } from '@jupyterlab/notebook';
import type { PartialJSONValue } from '@lumino/coreutils';

import type { WrittenCell } from '../api/notebookFrames';
import { type ICellHead, type ISourceChange, smallestChange } from '../model/cellEdits';
import { OZZIE, withSources } from '../model/madeFrom';
import { oneAtATime } from '../model/oneAtATime';
import type { IEditableNotebook } from '../model/openNotebooks';

export type Context = NotebookPanel['context'];
type SharedNotebook = INotebookModel['sharedModel'];
type SharedCell = SharedNotebook['cells'][number];
type SharedCodeCell = Extract<SharedCell, { cell_type: 'code' }>;

export class LabNotebook implements IEditableNotebook {
  /** The panels that show it. */
  readonly panels = new Set<NotebookPanel>();

  constructor(private readonly context: Context) {
    // If our save overlaps a person's or an autosave, each takes the other's file for somebody else's change, and Lab
    // asks which to keep.
    context.save = oneAtATime(context.save.bind(context));
    context.saveState.connect((_, state) => {
      if (state === 'started') {
        this._changedWhileSaving = false;
      } else if (this._changedWhileSaving && !context.isDisposed) {
        // Lab now takes all for saved, so that a reload could lose what was typed during the save.
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

  cellAt(index: number): WrittenCell {
    return this.shared.getCell(index).toJSON() as unknown as WrittenCell;
  }

  isEdited(cellId: string): boolean {
    return this.views.some(view => view.mode === 'edit' && view.activeCell?.model.id === cellId);
  }

  isComposing(cellId: string): boolean {
    return this.views.some(view => {
      // CodeMirror, inside Lab's editor; other editors can't tell.
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
        cell.setMetadata(OZZIE, withSources(cell.getMetadata(), madeFrom) as PartialJSONValue);
      }
    });
  }

  move(index: number, to: number): void {
    this.asOneStep(this.shared, () => this.shared.moveCell(index, to));
  }

  remove(index: number): void {
    // As Lab does, so that a queued cell is not run any more.
    this.context.model.deletedCells.push(this.shared.getCell(index).getId());
    this.asOneStep(this.shared, () => this.shared.deleteCell(index));
  }

  /** Not an Undo step, as running a cell is none. */
  show(index: number, outputs: readonly IOutput[], executionCount: number | null): void {
    // Through Lab's list of outputs: if the shared model replaces them, Lab loses a stream that follows a stream.
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
    // Lab fetches the file first: text typed meanwhile would be lost.
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

  /** Make one Undo step, separate from what is typed just before and after. */
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
 * Remember the active cell and the cursor; return a function that restores them: Lab activates another cell when the
 * active one is removed, even if only to be moved. The focus stays as it was, and is never taken from anything else.
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

/**
 * Focus the active cell, which may be drawn late after a move. A person who was typing goes on: elsewhere, keys are
 * commands.
 */
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
