/** Ozzie in the status bar: what runs, what needs you, what today cost (UX §8). */

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ReactWidget } from '@jupyterlab/apputils';
import { IStatusBar } from '@jupyterlab/statusbar';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import * as React from 'react';

import type { TaskBoard } from '../model/board';
import { needsPerson } from '../model/fold';
import { type ITranslate, statusText } from '../model/wording';
import { IOzzie, ISidebar } from '../tokens';
import { ozzieIcon } from './sidebar';

export const statusPlugin: JupyterFrontEndPlugin<void> = {
  id: '@ozzie/labextension:status',
  description: 'Says in the status bar what runs and what needs you.',
  autoStart: true,
  requires: [IOzzie, ISidebar],
  optional: [IStatusBar, ITranslator],
  activate: (
    _: JupyterFrontEnd,
    { board }: IOzzie,
    sidebar: ISidebar,
    statusBar: IStatusBar | null,
    translator: ITranslator | null
  ): void => {
    if (!statusBar) {
      return;
    }
    const trans = (translator ?? nullTranslator).load('ozzie');
    const item = ReactWidget.create(
      <button
        className="jp-Ozzie-status"
        title={trans.__("Show Ozzie's tasks")}
        onClick={() => sidebar.show(board.rows.find(needsPerson)?.taskId ?? '')}
      >
        <ozzieIcon.react tag="span" className="jp-Ozzie-statusIcon" />
        <Text board={board} trans={trans} />
      </button>
    );
    statusBar.registerStatusItem('@ozzie/labextension:status', { item, align: 'left', rank: 20 });
  }
};

function Text({ board, trans }: { board: TaskBoard; trans: ITranslate }): React.JSX.Element {
  const [text, setText] = React.useState(() => statusText(board, trans));
  React.useEffect(() => {
    const update = (): void => setText(statusText(board, trans));
    board.changed.connect(update);
    update();
    return () => {
      board.changed.disconnect(update);
    };
  }, [board, trans]);
  return <span>{text}</span>;
}
