/** The tab "Ozzie" on the left, and its commands. */

import { ILabShell, ILayoutRestorer, type JupyterFrontEnd, type JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Clipboard, ICommandPalette, Notification, ReactWidget } from '@jupyterlab/apputils';
import { ITranslator, nullTranslator, type TranslationBundle } from '@jupyterlab/translation';
import { LabIcon } from '@jupyterlab/ui-components';
import * as React from 'react';

import { errorText } from '../api/requests';
import { CATEGORY, CommandIDs } from '../commands';
import { actLabel, actOf, type TaskAct } from '../model/taskActs';
import { IOzzie, ISidebar } from '../tokens';
import { OZZIE_SVG } from '../widgets/icons';
import { focusNextApproval } from '../widgets/nextApproval';
import { type ISidebarActions, Sidebar } from '../widgets/sidebar';
import { TASK_ATTRIBUTE } from '../widgets/taskList';
import { act, stop } from './taskControl';

export const ozzieIcon = new LabIcon({ name: '@ozzie/labextension:ozzie', svgstr: OZZIE_SVG });

const TICK_MS = 1_000;
/** How often ages are redrawn while no task runs and no approval is pending. */
const QUIET_TICKS = 30;

class SidebarPanel extends ReactWidget {
  constructor(
    private readonly ozzie: IOzzie,
    private readonly trans: TranslationBundle,
    private readonly actions: ISidebarActions
  ) {
    super();
    this.id = 'jp-ozzie-sidebar';
    this.addClass('jp-Ozzie');
    this.title.icon = ozzieIcon;
    this.title.caption = 'Ozzie';
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', 'Ozzie');
    ozzie.board.changed.connect(() => this.refresh());
    ozzie.board.taskChanged.connect(() => this.refresh());
    ozzie.approvals.changed.connect(() => this.refresh());
    let ticks = 0;
    setInterval(() => {
      ticks += 1;
      const isBusy = ozzie.board.running > 0 || ozzie.approvals.pending.length > 0;
      if (this.isVisible && !document.hidden && (isBusy || ticks % QUIET_TICKS === 0)) {
        this.update();
      }
    }, TICK_MS);
  }

  /** Show a task's details, or the list if `taskId` is empty. */
  showTask(taskId: string): void {
    this._shown = taskId;
    if (taskId) {
      this.ozzie.board.learn(taskId); // a step that ended before this page was opened
    }
    this.update();
  }

  protected override render(): React.JSX.Element {
    return (
      <Sidebar
        board={this.ozzie.board}
        approvals={this.ozzie.approvals}
        api={this.ozzie.api}
        trans={this.trans}
        actions={this.actions}
        now={Date.now()}
        shown={this._shown}
        onShow={taskId => this.showTask(taskId)}
      />
    );
  }

  private refresh(): void {
    const { needYou } = this.ozzie.approvals;
    // Lab draws a title's label below the icon; the style makes it a badge.
    this.title.label = needYou ? String(needYou) : '';
    this.title.className = needYou ? 'jp-Ozzie-tab jp-Ozzie-mod-badge' : 'jp-Ozzie-tab';
    this.title.caption = needYou
      ? this.trans._n('Ozzie: %1 needs you', 'Ozzie: %1 need you', needYou, needYou)
      : 'Ozzie';
    this.update();
  }

  private _shown = '';
}

export const sidebarPlugin: JupyterFrontEndPlugin<ISidebar> = {
  id: '@ozzie/labextension:sidebar',
  description: 'Lists the tasks in a sidebar.',
  autoStart: true,
  requires: [IOzzie],
  optional: [ITranslator, ICommandPalette, ILayoutRestorer, ILabShell],
  provides: ISidebar,
  activate: (
    app: JupyterFrontEnd,
    ozzie: IOzzie,
    translator: ITranslator | null,
    palette: ICommandPalette | null,
    restorer: ILayoutRestorer | null,
    labShell: ILabShell | null
  ): ISidebar => {
    const trans = (translator ?? nullTranslator).load('ozzie');
    const { commands } = app;
    const showNotebook = async (approvalId: string): Promise<void> => {
      try {
        const { notebook: path } = await ozzie.api.approval(approvalId);
        if (path) {
          await commands.execute('docmanager:open', { path });
        } else {
          Notification.warning(trans.__('The notebook of this request is not known.'), { autoClose: 8_000 });
        }
      } catch (error) {
        Notification.error(trans.__('The notebook could not be opened. %1', errorText(error)), { autoClose: 8_000 });
      }
    };
    const panel = new SidebarPanel(ozzie, trans, {
      openFirstNotebook: () => void commands.execute(CommandIDs.firstNotebook),
      stop: taskId => void stop(taskId, ozzie, trans),
      act: (what, taskId) => void act(what, taskId, ozzie),
      reload: () => window.location.reload(),
      showNotebook: approvalId => void showNotebook(approvalId)
    });
    app.shell.add(panel, 'left', { rank: 550, type: 'Ozzie' });
    restorer?.add(panel, panel.id);

    const sidebar: ISidebar = {
      show: taskId => {
        if (taskId !== undefined) {
          panel.showTask(taskId);
        }
        app.shell.activateById(panel.id);
      }
    };

    const isTask = (node: HTMLElement): boolean => node.hasAttribute(TASK_ATTRIBUTE);
    const chosenTask = (): string => app.contextMenuHitTest(isTask)?.getAttribute(TASK_ATTRIBUTE) ?? '';
    commands.addCommand(CommandIDs.showTasks, {
      label: trans.__('Show Tasks'),
      caption: trans.__("Show or hide Ozzie's sidebar"),
      icon: ozzieIcon,
      execute: () => {
        if (labShell && panel.isVisible) {
          labShell.collapseLeft();
        } else {
          sidebar.show('');
        }
      }
    });
    commands.addCommand(CommandIDs.openTask, {
      label: trans.__('Open'),
      isVisible: () => chosenTask() !== '',
      execute: () => sidebar.show(chosenTask())
    });
    commands.addCommand(CommandIDs.stopTask, {
      label: trans.__('Stop'),
      isEnabled: () => ozzie.board.state === 'ready' && ozzie.board.row(chosenTask())?.finishedAt === null,
      execute: () => stop(chosenTask(), ozzie, trans)
    });
    const actCommands: readonly (readonly [string, TaskAct])[] = [
      [CommandIDs.pauseTask, 'pause'],
      [CommandIDs.resumeTask, 'resume'],
      [CommandIDs.retryTask, 'retry']
    ];
    for (const [command, what] of actCommands) {
      commands.addCommand(command, {
        label: actLabel(what, trans),
        isVisible: () => {
          const row = ozzie.board.row(chosenTask());
          return row !== undefined && actOf(row) === what;
        },
        isEnabled: () => ozzie.board.state === 'ready',
        execute: () => act(what, chosenTask(), ozzie)
      });
    }
    commands.addCommand(CommandIDs.copyTaskId, {
      label: trans.__('Copy Id'),
      execute: () => Clipboard.copyToSystem(chosenTask())
    });
    commands.addCommand(CommandIDs.nextApproval, {
      label: trans.__('Go to Next Approval'),
      caption: trans.__('Read the next approval; this does not answer it'),
      execute: () => {
        if (!focusNextApproval()) {
          sidebar.show('');
          requestAnimationFrame(focusNextApproval);
        }
      }
    });
    const inMenu = [
      CommandIDs.openTask,
      ...actCommands.map(([command]) => command),
      CommandIDs.stopTask,
      CommandIDs.copyTaskId
    ];
    for (const [rank, command] of inMenu.entries()) {
      app.contextMenu.addItem({ command, selector: `[${TASK_ATTRIBUTE}]`, rank });
    }
    commands.addKeyBinding({ command: CommandIDs.showTasks, keys: ['Alt Shift O'], selector: 'body' });
    commands.addKeyBinding({ command: CommandIDs.nextApproval, keys: ['Alt Shift A'], selector: 'body' });
    for (const command of [CommandIDs.showTasks, CommandIDs.nextApproval]) {
      palette?.addItem({ command, category: CATEGORY });
    }
    return sidebar;
  }
};
