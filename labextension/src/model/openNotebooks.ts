/**
 * The notebooks open in this page: reports them to the gateway and answers its requests about them. A page only does
 * what is requested; opening a notebook changes and requests nothing.
 */

import type { NotebookAction, NotebookAnswer, NotebookRequest } from '../api/notebookFrames';
import type { FeedSocket } from '../api/socket';
import { type IEditableCells, makeEdit } from './cellEdits';
import { NotDone } from './notDone';
import { serializeCells } from './serializeCells';

/** How long the gateway waits for a notebook to be saved. */
const SAVING_MS = 5_000;

/** An open notebook. */
export interface IEditableNotebook extends IEditableCells {
  /** The current path in the contents API. */
  readonly path: string;
  readonly isDirty: boolean;
  /** The language of its code, or empty if unknown. */
  readonly language: string;
  /** Save; Lab may show a dialog meanwhile. Raises Error if it is not saved. */
  save(): Promise<void>;
  /** Reload the file. Raises Error. */
  revert(): Promise<void>;
}

type Answer = Readonly<Record<string, unknown>>;

export class OpenNotebooks {
  /** `root`: the folder in which the server's paths begin, as pages know it. */
  constructor(
    private readonly socket: Pick<FeedSocket, 'state' | 'stateChanged' | 'notebookRequested' | 'request'>,
    private readonly root: string
  ) {
    socket.stateChanged.connect((_, state) => {
      this._connection += 1;
      if (state === 'connected') {
        for (const path of this._reported.values()) {
          this.report('notebook.opened', path);
        }
      }
    });
    socket.notebookRequested.connect((_, request) => this.take(request));
  }

  opened(notebook: IEditableNotebook): void {
    this._reported.set(notebook, notebook.path);
    this.report('notebook.opened', notebook.path);
  }

  /** The notebook was renamed. */
  moved(notebook: IEditableNotebook): void {
    const before = this._reported.get(notebook);
    if (before !== undefined && before !== notebook.path) {
      this.report('notebook.closed', before);
      this.opened(notebook);
    }
  }

  closed(notebook: IEditableNotebook): void {
    const path = this._reported.get(notebook);
    if (path !== undefined) {
      this._reported.delete(notebook);
      this.report('notebook.closed', path);
    }
  }

  /**
   * Send reports one by one: the gateway may answer later requests first and limits how many it takes. Drop those of a
   * lost connection: after a reconnect, all notebooks are reported again.
   */
  private report(method: string, path: string): void {
    const connection = this._connection;
    this._reporting = this._reporting.then(async () => {
      if (connection === this._connection) {
        await this.socket.request(method, { path, root: this.root });
      }
    });
  }

  private take(request: NotebookRequest): void {
    const connection = this._connection;
    const notebook = [...this._reported.keys()].find(open => open.path === request.path);
    const before = (notebook && this._answering.get(notebook)) ?? Promise.resolve();
    const answered = before.then(async () => {
      // Drop requests of a lost connection: nobody waits for them, so nothing may change.
      if (connection === this._connection) {
        const { requestId: request_id } = request;
        const answer = await this.answer(request, notebook);
        // Send the result over the current connection.
        await this.socket.request('notebook.answer', { request_id, ...answer });
      }
    });
    if (notebook) {
      this._answering.set(notebook, answered);
    }
  }

  private async answer(
    action: NotebookAction,
    notebook?: IEditableNotebook
  ): Promise<Omit<NotebookAnswer, 'request_id'>> {
    try {
      if (!notebook || !this._reported.has(notebook)) {
        throw new NotDone('failed', 'It is not open in this page.');
      }
      return { ok: true, answer: await answerOf(action, notebook), error: null };
    } catch (error) {
      const { code, message } =
        error instanceof NotDone ? error : { code: 'failed' as const, message: messageOf(error) };
      return { ok: false, answer: {}, error: { code, message } };
    }
  }

  private _connection = 0;
  private _reporting: Promise<void> = Promise.resolve();
  /** The open notebooks and the paths reported for them. */
  private readonly _reported = new Map<IEditableNotebook, string>();
  /** Resolves when the notebook's last request is answered. */
  private readonly _answering = new WeakMap<IEditableNotebook, Promise<void>>();
}

async function answerOf(action: NotebookAction, notebook: IEditableNotebook): Promise<Answer> {
  switch (action.ask) {
    case 'state':
      return { dirty: notebook.isDirty, path: notebook.path };
    case 'read': {
      const part = serializeCells(notebook.cells.length, index => notebook.cellAt(index), action.first);
      return { ...part, named: true, language: notebook.language, dirty: notebook.isDirty };
    }
    case 'edit':
      makeEdit(action.edit, notebook);
      return { notes: await savingNotes(notebook) };
    case 'reload':
      if (notebook.isDirty) {
        return { dirty: true, reloaded: false };
      }
      await notebook.revert();
      return { dirty: notebook.isDirty, reloaded: true };
    case 'unknown':
      throw new NotDone('failed', 'This page does not know how to do that: reload it.');
  }
}

/** Save after an edit, which stays even if the save fails: Lab asks about that. */
async function savingNotes(notebook: IEditableNotebook): Promise<readonly string[]> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<string>(resolve => {
    timer = setTimeout(() => resolve('JupyterLab is still saving, or shows a dialog in the page.'), SAVING_MS);
  });
  const saved = notebook.save().then(
    () => '',
    (error: unknown) => messageOf(error)
  );
  const why = await Promise.race([saved, late]);
  clearTimeout(timer);
  return why ? [`It is not saved yet: ${why}`] : [];
}

function messageOf(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  return message || 'JupyterLab does not say why.';
}
