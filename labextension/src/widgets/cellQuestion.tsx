/** The question of a turn below its cell. It stands beside Lab's outputs and never in them: nothing of it is saved. */

import * as React from 'react';
import { createRoot, type Root } from 'react-dom/client';

import type { OzzieApi } from '../api/requests';
import type { TaskRow } from '../model/fold';
import type { ITranslate } from '../model/wording';
import { IN_CELL } from './liveTurn';
import { QuestionCard } from './questionCard';

/** As far as a notebook is needed here. */
export interface ICells {
  readonly widgets: readonly { readonly model: { readonly id: string }; readonly node: HTMLElement }[];
}

/** What the extension shows itself need not stand in the kernel's own form as well. */
const ASKING = 'jp-Ozzie-mod-asking';
const cards = new WeakMap<ICells, CellQuestion>();

class CellQuestion {
  constructor(
    readonly taskId: string,
    private version: number,
    private readonly area: HTMLElement,
    private readonly api: Pick<OzzieApi, 'task' | 'answer'>,
    private readonly trans: ITranslate
  ) {
    this.node = area.appendChild(document.createElement('div'));
    this.node.className = IN_CELL;
    this.root = createRoot(this.node);
    this.render();
  }

  dispose(): void {
    this.root.unmount();
    this.node.remove();
    this.area.classList.remove(ASKING);
  }

  isIn(area: HTMLElement | null): boolean {
    return area !== null && area.contains(this.node);
  }

  /** The task was heard of since: it may ask something else. */
  heard(position: number): void {
    if (position !== this.version) {
      this.version = position;
      this.render();
    }
  }

  private render(): void {
    const { taskId, version, api, trans } = this;
    this.root.render(<QuestionCard taskId={taskId} version={version} api={api} trans={trans} onShown={this.onShown} />);
  }

  private readonly onShown = (isShown: boolean): void => {
    this.area.classList.toggle(ASKING, isShown);
  };

  private readonly node: HTMLElement;
  private readonly root: Root;
}

/** Draw what `task` asks below its cell, and take away what another one asked; without a task, only that. */
export function drawQuestion(
  notebook: ICells,
  task: Pick<TaskRow, 'taskId' | 'cellId' | 'position'> | undefined,
  api: Pick<OzzieApi, 'task' | 'answer'>,
  trans: ITranslate
): void {
  const drawn = cards.get(notebook);
  const cell = task && notebook.widgets.find(each => each.model.id === task.cellId);
  const area = cell?.node.querySelector<HTMLElement>('.jp-Cell-outputArea') ?? null;
  if (drawn && task && drawn.taskId === task.taskId && drawn.isIn(area)) {
    drawn.heard(task.position);
    return;
  }
  drawn?.dispose();
  cards.delete(notebook);
  if (task && area) {
    cards.set(notebook, new CellQuestion(task.taskId, task.position, area, api, trans));
  }
}
