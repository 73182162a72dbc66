/**
 * The notebooks that are open in this page: the gateway is told which, and what it asks of one is answered. A page
 * only ever does what it is asked to; opening a notebook changes nothing and asks for nothing.
 */

import type { Ask, NotebookAnswer, NotebookAsked } from '../api/notebookFrames';
import type { FeedSocket } from '../api/socket';
import { type IEditableCells, makeEdit } from './cellEdits';
import { NotDone } from './notDone';
import { toldCells } from './toldCells';

/** How long who asked waits for a notebook to be saved. */
const SAVING_MS = 5_000;

/** An open notebook. */
export interface IEditableNotebook extends IEditableCells {
  /** Of the contents API, as it is now. */
  readonly path: string;
  readonly isDirty: boolean;
  /** Of its code; empty where nobody knows. */
  readonly language: string;
  /** Lab may ask something meanwhile. Raises Error where it is not saved in the end. */
  save(): Promise<void>;
  /** Take up what stands in the file. Raises Error. */
  revert(): Promise<void>;
}

type Answer = Readonly<Record<string, unknown>>;

export class OpenNotebooks {
  /** `root`: the folder that the server's paths begin in, as it tells it to pages. */
  constructor(
    private readonly socket: Pick<FeedSocket, 'state' | 'stateChanged' | 'asked' | 'request'>,
    private readonly root: string
  ) {
    socket.stateChanged.connect((_, state) => {
      this._connection += 1;
      if (state === 'connected') {
        for (const path of this._told.values()) {
          this.tell('notebook.opened', path);
        }
      }
    });
    socket.asked.connect((_, asked) => this.take(asked));
  }

  opened(notebook: IEditableNotebook): void {
    this._told.set(notebook, notebook.path);
    this.tell('notebook.opened', notebook.path);
  }

  /** It is called otherwise by now. */
  moved(notebook: IEditableNotebook): void {
    const before = this._told.get(notebook);
    if (before !== undefined && before !== notebook.path) {
      this.tell('notebook.closed', before);
      this.opened(notebook);
    }
  }

  closed(notebook: IEditableNotebook): void {
    const path = this._told.get(notebook);
    if (path !== undefined) {
      this._told.delete(notebook);
      this.tell('notebook.closed', path);
    }
  }

  /**
   * One after the other, as the gateway may answer a later request before an earlier one, and takes only so many at a
   * time. What was to be told over a connection that is gone is not: over the next, all are told anew.
   */
  private tell(method: string, path: string): void {
    const connection = this._connection;
    this._telling = this._telling.then(async () => {
      if (connection === this._connection) {
        await this.socket.request(method, { path, root: this.root });
      }
    });
  }

  private take(asked: NotebookAsked): void {
    const connection = this._connection;
    const notebook = [...this._told.keys()].find(open => open.path === asked.path);
    const before = (notebook && this._answering.get(notebook)) ?? Promise.resolve();
    const answered = before.then(async () => {
      // Nobody waits any more for what was asked over a connection that is gone: nothing is changed behind their back.
      if (connection === this._connection) {
        const { requestId: request_id } = asked;
        const answer = await this.answer(asked, notebook);
        // What was done is told over whatever connection there is by now.
        await this.socket.request('notebook.answer', { request_id, ...answer });
      }
    });
    if (notebook) {
      this._answering.set(notebook, answered);
    }
  }

  private async answer(ask: Ask, notebook?: IEditableNotebook): Promise<Omit<NotebookAnswer, 'request_id'>> {
    try {
      if (!notebook || !this._told.has(notebook)) {
        throw new NotDone('failed', 'It is not open in this page.');
      }
      return { ok: true, answer: await answerOf(ask, notebook), error: null };
    } catch (error) {
      const { code, message } = error instanceof NotDone ? error : { code: 'failed' as const, message: wordsOf(error) };
      return { ok: false, answer: {}, error: { code, message } };
    }
  }

  private _connection = 0;
  private _telling: Promise<void> = Promise.resolve();
  /** Those that are open, by the path that was told of them. */
  private readonly _told = new Map<IEditableNotebook, string>();
  /** When the last question about each is answered. */
  private readonly _answering = new WeakMap<IEditableNotebook, Promise<void>>();
}

async function answerOf(ask: Ask, notebook: IEditableNotebook): Promise<Answer> {
  switch (ask.ask) {
    case 'state':
      return { dirty: notebook.isDirty, path: notebook.path };
    case 'read': {
      const told = toldCells(notebook.cells.length, index => notebook.whole(index), ask.first);
      return { ...told, named: true, language: notebook.language, dirty: notebook.isDirty };
    }
    case 'edit':
      makeEdit(ask.edit, notebook);
      return { notes: await savingNotes(notebook) };
    case 'reload':
      if (notebook.isDirty) {
        return { dirty: true, reloaded: false };
      }
      await notebook.revert();
      return { dirty: notebook.isDirty, reloaded: true };
    case 'unknown':
      throw new NotDone('failed', 'This page does not know how to do that: load it anew.');
  }
}

/** The edit is made, whatever becomes of the file: what keeps it from being saved is Lab's to ask about. */
async function savingNotes(notebook: IEditableNotebook): Promise<readonly string[]> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<string>(resolve => {
    timer = setTimeout(() => resolve('JupyterLab is still at it, or asks something in the page.'), SAVING_MS);
  });
  const saved = notebook.save().then(
    () => '',
    (error: unknown) => wordsOf(error)
  );
  const why = await Promise.race([saved, late]);
  clearTimeout(timer);
  return why ? [`It is not saved yet: ${why}`] : [];
}

function wordsOf(error: unknown): string {
  const said = error instanceof Error ? error.message : String(error);
  return said || 'JupyterLab does not say why.';
}
