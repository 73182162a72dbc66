/** An open notebook without a Lab: its cells are what they say, and whoever tests it says what somebody does in it. */

import type { IOutput } from '@jupyterlab/nbformat';

import type { WrittenCell } from '../api/notebookFrames';
import type { ICellHead, ISourceChange } from '../model/cellEdits';
import { withSources } from '../model/madeFrom';
import type { IEditableNotebook } from '../model/openNotebooks';

export function aCell(id: string, source = id, given: Partial<WrittenCell> = {}): WrittenCell {
  return { id, cell_type: 'code', metadata: {}, source, outputs: [], execution_count: null, ...given };
}

export function printed(text: string): IOutput {
  return { output_type: 'stream', name: 'stdout', text };
}

export class FakeNotebook implements IEditableNotebook {
  constructor(
    public path: string,
    ...cells: WrittenCell[]
  ) {
    this.written = cells;
  }

  written: WrittenCell[];
  isDirty = false;
  isReadOnly = false;
  language = 'python';
  edited = '';
  composed = '';
  running = '';
  saves = 0;
  reverts = 0;
  /** What saving and reverting wait for. */
  saving: () => Promise<void> = () => Promise.resolve();
  reverting: () => Promise<void> = () => Promise.resolve();
  /** What changed of a source, as the editor sees it. */
  readonly changes: ISourceChange[] = [];

  get ids(): string[] {
    return this.written.map(cell => cell.id);
  }

  get cells(): readonly ICellHead[] {
    return this.written.map(({ id, cell_type, source }) => ({ id, kind: cell_type, source }));
  }

  cellAt(index: number): WrittenCell {
    return this.written[index]!;
  }

  isEdited(cellId: string): boolean {
    return this.edited === cellId;
  }

  isComposing(cellId: string): boolean {
    return this.composed === cellId;
  }

  isRunning(cellId: string): boolean {
    return this.running === cellId;
  }

  insert(index: number, cell: WrittenCell): void {
    this.written.splice(index, 0, cell);
    this.isDirty = true;
  }

  changeSource(index: number, change: ISourceChange, madeFrom: readonly string[]): void {
    const cell = this.cellAt(index);
    const source = cell.source.slice(0, change.start) + change.text + cell.source.slice(change.end);
    const metadata =
      madeFrom.length > 0 ? { ...cell.metadata, ozzie: withSources(cell.metadata, madeFrom) } : cell.metadata;
    this.written[index] = { ...cell, source, metadata };
    this.changes.push(change);
    this.isDirty = true;
  }

  move(index: number, to: number): void {
    this.written.splice(to, 0, ...this.written.splice(index, 1));
    this.isDirty = true;
  }

  remove(index: number): void {
    this.written.splice(index, 1);
    this.isDirty = true;
  }

  show(index: number, outputs: readonly IOutput[], executionCount: number | null): void {
    this.written[index] = { ...this.cellAt(index), outputs, execution_count: executionCount };
    this.isDirty = true;
  }

  async save(): Promise<void> {
    this.saves += 1;
    await this.saving();
    this.isDirty = false;
  }

  async revert(): Promise<void> {
    this.reverts += 1;
    await this.reverting();
  }
}
