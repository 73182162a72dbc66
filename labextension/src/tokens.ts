/** The tokens of this extension's plugins. */

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
  'The tasks and approvals of the Ozzie in this server, kept up to date, and its requests about open notebooks.'
);

/** Brings the sidebar to the front, with a task's details if one is given. */
export interface ISidebar {
  show(taskId?: string): void;
}

export const ISidebar = new Token<ISidebar>('@ozzie/labextension:ISidebar', "Ozzie's sidebar.");
