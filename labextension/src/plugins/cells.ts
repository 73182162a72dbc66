/** Shows turns that a page has missed: after a reload, in a second page, after a lost connection. */

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import type { CodeCell, ICodeCellModel } from '@jupyterlab/cells';
import type { INotebookContent, IOutput } from '@jupyterlab/nbformat';
import { INotebookTracker, NotebookActions, type NotebookPanel } from '@jupyterlab/notebook';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { CATEGORY, CommandIDs } from '../commands';
import { isOpen } from '../model/fold';
import { Leadership } from '../model/leadership';
import { type INotebook, NotebookTurns } from '../model/notebookTurns';
import type { ITranslate } from '../model/wording';
import { IOzzie, ISidebar } from '../tokens';
import { drawPrompts, hasPrompts } from '../widgets/cellPrompts';
import { drawRuns, hasRuns, type IRunParts } from '../widgets/cellRun';
import { drawLive } from '../widgets/liveTurn';
import { act, stop } from './taskControl';

const KERNEL = 'ozzie';
/** How often prompts below cells are checked. */
const LOOK_MS = 1_000;
/** In these states Lab cancels a kernel's cells without reporting their end. */
const GONE: ReadonlySet<string> = new Set(['restarting', 'autorestarting', 'dead']);

export const cellsPlugin: JupyterFrontEndPlugin<void> = {
  id: '@ozzie/labextension:cells',
  description: 'Shows turns in their cells that a page has missed.',
  autoStart: true,
  requires: [IOzzie, INotebookTracker],
  optional: [ITranslator, ICommandPalette, ISidebar],
  activate: (
    app: JupyterFrontEnd,
    ozzie: IOzzie,
    tracker: INotebookTracker,
    translator: ITranslator | null,
    palette: ICommandPalette | null,
    sidebar: ISidebar | null
  ): void => {
    const trans = (translator ?? nullTranslator).load('ozzie');
    const open = new Map<NotebookPanel, NotebookTurns>();

    const parts: IRunParts = {
      ...ozzie,
      trans,
      onStop: taskId => void stop(taskId, ozzie, trans),
      onAct: (what, taskId) => void act(what, taskId, ozzie),
      onTask: taskId => sidebar?.show(taskId),
      onOutputs: () => drawAll(),
      onLeave: () => {
        // Otherwise the focus stays in the card, and Lab's keys with it.
        (document.activeElement as HTMLElement | null)?.blur();
        void app.commands.execute('notebook:enter-command-mode');
      }
    };
    const drawAll = (): void => {
      lookForMagics();
      for (const [panel, turns] of open) {
        const task = turns.openTask;
        drawPrompts(panel.content, task && hasPrompts(task, ozzie.board) ? task : undefined, parts);
        // Without outputs that could have its picture, a run is over when it has ended.
        drawRuns(panel.content, turns.openRuns, parts, run => kernelOf(panel) !== KERNEL || turns.isOver(run));
      }
    };

    /** Notebooks of other kernels, which are followed once `%ozzie` has asked in one of their cells. */
    const others = new Set<NotebookPanel>();
    const lookForMagics = (): void => {
      const asking = new Set(ozzie.board.rows.filter(row => isOpen(row) && row.cellId).map(row => row.cellId));
      for (const panel of asking.size > 0 ? others : []) {
        if (panel.content.widgets.some(cell => asking.has(cell.model.id))) {
          others.delete(panel);
          void follow(panel, new PythonNotebook(panel, app, trans));
        }
      }
    };

    const watch = async (panel: NotebookPanel): Promise<void> => {
      await panel.context.ready;
      if (panel.isDisposed) {
        return;
      }
      if (kernelOf(panel) === KERNEL) {
        await follow(panel, new OpenNotebook(panel, app, trans));
      } else {
        others.add(panel);
        panel.disposed.connect(() => others.delete(panel));
        drawAll();
      }
    };
    const follow = async (panel: NotebookPanel, notebook: INotebook): Promise<void> => {
      const leadership = new Leadership(`ozzie:${app.serviceManager.serverSettings.baseUrl}:${panel.context.path}`);
      const turns = new NotebookTurns(notebook, ozzie.api, ozzie.board, leadership);
      open.set(panel, turns);
      panel.sessionContext.statusChanged.connect((_, status) => {
        if (GONE.has(status)) {
          turns.kernelGone();
        }
      });
      panel.disposed.connect(() => {
        open.delete(panel);
        turns.dispose();
        leadership.dispose();
      });
      await turns.refresh();
      drawAll();
    };
    const turnsOf = (notebook: object): NotebookTurns | undefined =>
      [...open].find(([panel]) => panel.content === notebook)?.[1];

    tracker.widgetAdded.connect((_, panel) => void watch(panel));
    tracker.forEach(panel => void watch(panel));
    NotebookActions.executionScheduled.connect((_, { notebook, cell }) => {
      turnsOf(notebook)?.cellStarted(cell.model.id);
      drawAll(); // the cell's earlier prompts go at once
    });
    NotebookActions.executed.connect((_, { notebook, cell }) => turnsOf(notebook)?.cellEnded(cell.model.id));

    const current = (): NotebookTurns | undefined =>
      tracker.currentWidget ? open.get(tracker.currentWidget) : undefined;
    app.commands.addCommand(CommandIDs.stopTurn, {
      label: trans.__('Stop This Turn'),
      caption: trans.__('Stop the running turn of this notebook'),
      isEnabled: () => current()?.openTask !== undefined,
      execute: async () => {
        const taskId = current()?.openTask?.taskId;
        if (taskId) {
          await stop(taskId, ozzie, trans);
        }
      }
    });
    // Waiting makes no events, and Lab removes and restores cells while one scrolls and folds.
    setInterval(() => {
      if ((ozzie.board.needYou > 0 || [...open.keys()].some(panel => hasRuns(panel.content))) && !document.hidden) {
        drawAll();
      }
    }, LOOK_MS);
    ozzie.board.changed.connect(drawAll);
    ozzie.board.taskChanged.connect(drawAll);
    ozzie.board.changed.connect(() => app.commands.notifyCommandChanged(CommandIDs.stopTurn));
    app.commands.addKeyBinding({ command: CommandIDs.stopTurn, keys: ['Alt Shift .'], selector: '.jp-Notebook' });
    palette?.addItem({ command: CommandIDs.stopTurn, category: CATEGORY });
  }
};

function kernelOf(panel: NotebookPanel): string | undefined {
  const spec = panel.content.model?.getMetadata('kernelspec') as { name?: string } | undefined;
  return spec?.name ?? panel.sessionContext.session?.kernel?.name;
}

/** A notebook open in Lab. */
class OpenNotebook implements INotebook {
  constructor(
    private readonly panel: NotebookPanel,
    private readonly app: JupyterFrontEnd,
    private readonly trans: ITranslate
  ) {}

  get path(): string {
    return this.panel.context.path;
  }

  get savedAt(): number {
    return Date.parse(this.panel.context.contentsModel?.last_modified ?? '') || 0;
  }

  get cellIds(): readonly string[] {
    return [...(this.panel.content.model?.cells ?? [])].filter(cell => cell.type === 'code').map(cell => cell.id);
  }

  get isDirty(): boolean {
    return this.panel.context.model.dirty;
  }

  get hasKernel(): boolean {
    const kernel = this.panel.sessionContext.session?.kernel;
    return kernel?.connectionStatus === 'connected' && kernel.status !== 'dead';
  }

  outputs(cellId: string): readonly IOutput[] | null {
    return this.cell(cellId)?.outputs.toJSON() ?? null;
  }

  setOutputs(cellId: string, outputs: readonly IOutput[], toBeSaved: boolean): void {
    const { isDirty } = this;
    this.cell(cellId)?.outputs.fromJSON([...outputs]);
    if (!toBeSaved) {
      this.panel.context.model.dirty = isDirty;
    }
  }

  note(sessionId: string): void {
    const model = this.panel.content.model;
    const noted = (model?.getMetadata('ozzie') ?? {}) as { session?: string };
    if (sessionId && noted.session !== sessionId) {
      model?.setMetadata('ozzie', { ...noted, session: sessionId });
    }
  }

  draw(cellId: string, html: string | null, staying: number): void {
    const widget = this.panel.content.widgets.find(cell => cell.model.id === cellId) as CodeCell | undefined;
    const area = widget?.node.querySelector<HTMLElement>('.jp-Cell-outputArea');
    if (area) {
      drawLive(area, html, { staying, hasKernel: this.hasKernel, trans: this.trans });
    }
  }

  async savedOutputs(cellId: string): Promise<readonly IOutput[]> {
    const file = await this.app.serviceManager.contents.get(this.path, { content: true, type: 'notebook' });
    const cell = (file.content as INotebookContent).cells.find(found => found.id === cellId);
    return Array.isArray(cell?.outputs) ? (cell.outputs as IOutput[]) : [];
  }

  revert(): Promise<void> {
    return this.panel.context.revert();
  }

  markToBeSaved(): void {
    this.panel.context.model.dirty = true;
  }

  private cell(cellId: string): ICodeCellModel | undefined {
    const found = [...(this.panel.content.model?.cells ?? [])].find(cell => cell.id === cellId);
    return found?.type === 'code' ? (found as ICodeCellModel) : undefined;
  }
}

/** A notebook in which `%ozzie` asks. Its cells may have several turns among other outputs: those are Python's. */
class PythonNotebook extends OpenNotebook {
  override outputs(): null {
    return null;
  }

  override setOutputs(): void {}

  override draw(): void {}
}
