/** Which runs of a cell are a person's. Everything that is in doubt is not: a question is asked then. */

/** How long after a key or click of a person a command, and the request that it sends, may be its effect. */
const GESTURE_MS = 500;

/** The commands that run one cell, if one is selected. */
export const RUN_ONE: ReadonlySet<string> = new Set([
  'notebook:run-cell',
  'notebook:run-cell-and-select-next',
  'notebook:run-cell-and-insert-below'
]);

/** A request to a kernel to run a cell, which is known by itself: two notebooks may have cells of one id. */
export interface IExecution<C> {
  readonly cell: C;
  /** Its `msg_id`. */
  readonly id: string;
  readonly code: string;
}

/** Finds the requests that run one cell by a person's own key or click. */
export class PersonsRuns<C> {
  private gesture: { readonly cell: C; readonly at: number } | null = null;
  private granted: { readonly cell: C; readonly at: number } | null = null;
  /** What was sent since the gesture. */
  private begun: readonly IExecution<C>[] = [];

  /** A person presses a key or clicks where that may run cells, while these are selected. */
  acts(selected: readonly C[], at: number): void {
    const [cell] = selected;
    this.gesture = cell !== undefined && selected.length === 1 ? { cell, at } : null;
    this.granted = null;
    this.begun = [];
  }

  /** A command was carried out; return the request that it sent already, if that is a person's. */
  ran(command: string, at: number): IExecution<C> | null {
    const { gesture, begun } = this;
    if (!RUN_ONE.has(command) || gesture === null || at - gesture.at > GESTURE_MS) {
      return null;
    }
    this.gesture = null; // one run for each
    this.begun = [];
    const [sent] = begun;
    if (sent !== undefined) {
      return begun.length === 1 && sent.cell === gesture.cell ? sent : null;
    }
    this.granted = { cell: gesture.cell, at };
    return null;
  }

  /** A request was sent; return it if it is known to be a person's. If the command is reported only later, `ran` does. */
  begins(execution: IExecution<C>, at: number): IExecution<C> | null {
    const { granted } = this;
    this.granted = null;
    this.begun = [...this.begun, execution];
    return granted?.cell === execution.cell && at - granted.at <= GESTURE_MS ? execution : null;
  }
}
