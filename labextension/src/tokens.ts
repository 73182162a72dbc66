/** What the plugins of this extension, and others, may use of one another. */

import { Token } from '@lumino/coreutils';

import type { OzzieApi } from './api/requests';
import type { ApprovalBook } from './model/approvals';
import type { TaskBoard } from './model/board';
import type { OpenNotebooks } from './model/openNotebooks';

export interface IOzzie {
  readonly api: OzzieApi;
  readonly board: TaskBoard;
  readonly approvals: ApprovalBook;
  readonly notebooks: OpenNotebooks;
}

export const IOzzie = new Token<IOzzie>(
  '@ozzie/labextension:IOzzie',
  'The tasks and approvals of the Ozzie in this server, kept up to date, and what it and a page can ask of each other.'
);

/** Tells the sidebar to come to the front, with a task's details where one is named. */
export interface ISidebar {
  show(taskId?: string): void;
}

export const ISidebar = new Token<ISidebar>('@ozzie/labextension:ISidebar', "Ozzie's sidebar.");
