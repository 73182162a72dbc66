/** Ozzie in the status bar: running tasks, what needs you, today's cost. */

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ReactWidget } from '@jupyterlab/apputils';
import { IStatusBar } from '@jupyterlab/statusbar';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import * as React from 'react';

import type { ApprovalBook } from '../model/approvals';
import type { TaskBoard } from '../model/board';
import { needsPerson } from '../model/fold';
import { type ITranslate, statusText } from '../model/wording';
import { IOzzie, ISidebar } from '../tokens';
import { ApprovalAnnouncer } from '../widgets/approvalAnnouncer';
import { useChanges } from '../widgets/useChanges';
import { ozzieIcon } from './sidebar';

export const statusPlugin: JupyterFrontEndPlugin<void> = {
  id: '@ozzie/labextension:status',
  description: 'Shows in the status bar how many tasks run and need you.',
  autoStart: true,
  requires: [IOzzie, ISidebar],
  optional: [IStatusBar, ITranslator],
  activate: (
    _: JupyterFrontEnd,
    { board, approvals }: IOzzie,
    sidebar: ISidebar,
    statusBar: IStatusBar | null,
    translator: ITranslator | null
  ): void => {
    if (!statusBar) {
      return;
    }
    const trans = (translator ?? nullTranslator).load('ozzie');
    const item = ReactWidget.create(
      <>
        <button
          className="jp-Ozzie-status"
          title={trans.__("Show Ozzie's tasks")}
          onClick={() => sidebar.show(firstNeed(board, approvals))}
        >
          <ozzieIcon.react tag="span" className="jp-Ozzie-statusIcon" />
          <Text board={board} approvals={approvals} trans={trans} />
        </button>
        <ApprovalAnnouncer approvals={approvals} trans={trans} />
      </>
    );
    statusBar.registerStatusItem('@ozzie/labextension:status', { item, align: 'left', rank: 20 });
  }
};

interface ITextProps {
  readonly board: TaskBoard;
  readonly approvals: ApprovalBook;
  readonly trans: ITranslate;
}

function Text({ board, approvals, trans }: ITextProps): React.JSX.Element {
  useChanges(board.changed, approvals.changed);
  const { state, running, queued, costToday } = board;
  return <span>{statusText({ state, running, queued, costToday, needYou: approvals.needYou }, trans)}</span>;
}

/** Return the first task with a question, or '' to show approvals, which are above the list. */
function firstNeed(board: TaskBoard, approvals: ApprovalBook): string {
  const asking = board.all.find(row => needsPerson(row) && row.status === 'WAITING_INPUT');
  return approvals.shown.length > 0 ? '' : (asking?.taskId ?? '');
}
