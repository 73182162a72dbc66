/** The sidebar, in every connection state. */

import * as React from 'react';

import type { OzzieApi } from '../api/requests';
import type { ApprovalBook, ApprovalRow } from '../model/approvals';
import { MAX_OPEN, type TaskBoard } from '../model/board';
import { FILTERS, readFilter } from '../model/order';
import type { TaskAct } from '../model/taskActs';
import { clockTime, type ITranslate, mistakeText } from '../model/wording';
import { Caret, Search, Turning } from './icons';
import { NeedsYou } from './needsYou';
import { TaskDetail } from './taskDetail';
import { MAX_ROWS, TaskList } from './taskList';

/** Show "Loading…" only after this time. */
const LOADING_AFTER_MS = 300;

export interface ISidebarActions {
  /** Null if there is none. */
  readonly openFirstNotebook: (() => void) | null;
  readonly stop: (taskId: string) => void;
  readonly act: (act: TaskAct, taskId: string) => void;
  readonly reload: () => void;
  /** Open the notebook that an approval is from. */
  readonly showNotebook: (approvalId: string) => void;
}

export interface ISidebarProps {
  readonly board: TaskBoard;
  readonly approvals: ApprovalBook;
  readonly api: OzzieApi;
  readonly trans: ITranslate;
  readonly actions: ISidebarActions;
  readonly now: number;
  /** The task whose details are shown; empty for the list. */
  readonly shown: string;
  readonly onShow: (taskId: string) => void;
}

export function Sidebar(props: ISidebarProps): React.JSX.Element {
  const { board, approvals, api, trans, actions, now, shown, onShow } = props;
  const row = board.row(shown);
  const canStop = board.state === 'ready';
  return (
    <>
      <Banner board={board} trans={trans} />
      {row ? (
        <TaskDetail
          row={row}
          approvals={approvals}
          board={board}
          api={api}
          now={now}
          trans={trans}
          canStop={canStop}
          onBack={() => onShow(row.parentId ? board.runOf(row) : '')}
          onShow={onShow}
          onStop={taskId => actions.stop(taskId)}
          onAct={(act, taskId) => actions.act(act, taskId)}
        />
      ) : (
        <Body {...props} canStop={canStop} />
      )}
      <Announcer board={board} trans={trans} />
    </>
  );
}

function Body(props: ISidebarProps & { canStop: boolean }): React.JSX.Element {
  const { board, trans, actions } = props;
  if (board.state === 'absent') {
    return (
      <Notice
        sentence={trans.__('Ozzie is not running on this server.')}
        command="jupyter server extension enable ozzie_server_ext"
        button={trans.__('Try again')}
        onPress={() => void board.load()}
      />
    );
  }
  if (board.state === 'refused') {
    const sentence = [board.problem?.message, board.problem?.hint].filter(Boolean).join(' ');
    return <Notice sentence={sentence} button={trans.__('Try again')} onPress={() => void board.load()} />;
  }
  if (board.state === 'updated') {
    return (
      <Notice
        sentence={trans.__('Ozzie was updated. Reload the page to go on.')}
        button={trans.__('Reload')}
        onPress={() => actions.reload()}
      />
    );
  }
  if (board.health === null) {
    return board.state === 'loading' ? <Loading trans={trans} /> : <></>;
  }
  return (
    <>
      {board.rows.length === 0 && board.health.model === 'offline' && <FirstRun {...props} />}
      <NeedsYou {...props} showNotebook={actions.showNotebook} />
      <Tasks {...props} />
    </>
  );
}

function Tasks(props: ISidebarProps & { canStop: boolean }): React.JSX.Element {
  const { board, approvals, trans, now, actions, canStop, onShow } = props;
  const [isOpen, setOpen] = React.useState(true);
  const [typed, setTyped] = React.useState('');
  const filter = readFilter(typed, now);
  const rows = board.rows.filter(filter.fits);
  // A word found in titles is no mistake.
  const mistakes = filter.mistakes.filter(({ kind }) => kind !== 'filter' || rows.length === 0);
  return (
    <>
      <h3 className="jp-Ozzie-section">
        <button aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          <Caret open={isOpen} />
          {trans.__('Tasks')}{' '}
          <span className="jp-Ozzie-count">{`${board.rows.length}${board.isWhole ? '' : '+'}`}</span>
        </button>
      </h3>
      {isOpen && board.rows.length === 0 && (
        <p className="jp-Ozzie-empty">{trans.__('No tasks yet. Run a cell of an Ozzie notebook.')}</p>
      )}
      {isOpen && board.rows.length > 0 && (
        <>
          <label className="jp-Ozzie-filter">
            <Search />
            <input
              type="search"
              list="jp-Ozzie-filters"
              placeholder={trans.__('Filter tasks')}
              aria-label={trans.__('Filter tasks')}
              value={typed}
              onChange={event => setTyped(event.target.value)}
            />
          </label>
          <datalist id="jp-Ozzie-filters">
            {FILTERS.map(filter => (
              <option key={filter} value={filter} />
            ))}
          </datalist>
          <TaskList
            rows={rows.slice(0, MAX_ROWS)}
            approvalCounts={approvalCounts(approvals.pending)}
            total={rows.length}
            now={now}
            trans={trans}
            canStop={canStop}
            onOpen={onShow}
            onStop={taskId => actions.stop(taskId)}
          />
          <p className="jp-Ozzie-empty" role="status">
            {[
              ...mistakes.map(mistake => mistakeText(mistake, trans)),
              rows.length === 0 && mistakes.length === 0 ? trans.__('No task fits this filter.') : ''
            ]
              .filter(Boolean)
              .join(' ')}
          </p>
          {rows.length > MAX_ROWS && (
            <p className="jp-Ozzie-empty">{trans.__('%1 more. Filter to find one.', rows.length - MAX_ROWS)}</p>
          )}
          <p className="jp-Ozzie-empty">{listedText(board, trans)}</p>
        </>
      )}
    </>
  );
}

/** Count the approvals that each task waits for. */
function approvalCounts(pending: readonly ApprovalRow[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  pending.forEach(row => counts.set(row.task_id, (counts.get(row.task_id) ?? 0) + 1));
  return counts;
}

/** Say which tasks are listed, unless that is all. */
function listedText(board: TaskBoard, trans: ITranslate): string {
  if (!board.hasAllOpen) {
    return trans.__('There are more open tasks than the %1 that are listed.', MAX_OPEN.toLocaleString());
  }
  return board.isWhole ? '' : trans.__('These are the newest tasks, and all that are open.');
}

function Banner({ board, trans }: { board: TaskBoard; trans: ITranslate }): React.JSX.Element | null {
  if (board.state !== 'reconnecting') {
    return null;
  }
  // Without rows there is no time to show.
  const sentence = board.health
    ? trans.__('Reconnecting. Shown as of %1. Running tasks go on without this page.', clockTime(board.asOf))
    : trans.__('Reconnecting. Running tasks go on without this page.');
  return (
    <div className="jp-Ozzie-banner" role="status">
      <Turning />
      <span>{sentence}</span>
    </div>
  );
}

function FirstRun({ trans, actions }: ISidebarProps): React.JSX.Element {
  const sentence = trans.__(
    'Ozzie is ready. It has no language model yet, so it answers from a small offline script. Run %model in a cell to connect one.'
  );
  return actions.openFirstNotebook ? (
    <Notice sentence={sentence} button={trans.__('Open the first notebook')} onPress={actions.openFirstNotebook} />
  ) : (
    <Notice sentence={sentence} />
  );
}

function Loading({ trans }: { trans: ITranslate }): React.JSX.Element {
  const [isLate, setLate] = React.useState(false);
  React.useEffect(() => {
    const timer = setTimeout(() => setLate(true), LOADING_AFTER_MS);
    return () => clearTimeout(timer);
  }, []);
  return <p className="jp-Ozzie-empty">{isLate ? trans.__('Loading…') : ''}</p>;
}

interface INoticeProps {
  readonly sentence: string;
  readonly command?: string;
  readonly button?: string;
  readonly onPress?: () => void;
}

function Notice({ sentence, command, button, onPress }: INoticeProps): React.JSX.Element {
  return (
    <div className="jp-Ozzie-notice">
      <p>{sentence}</p>
      {command && <code>{command}</code>}
      {button && (
        <button className="jp-Ozzie-button" onClick={() => onPress?.()}>
          {button}
        </button>
      )}
    </div>
  );
}

/** One polite live region: tasks that ended, and reconnects; at most one message in three seconds. */
function Announcer({ board, trans }: { board: TaskBoard; trans: ITranslate }): React.JSX.Element {
  const [text, setText] = React.useState('');
  React.useEffect(() => {
    let wasLost = false;
    let pending: string[] = [];
    let timer: ReturnType<typeof setTimeout> | undefined;
    const announce = (sentence: string): void => {
      pending.push(sentence);
      timer ??= setTimeout(() => {
        timer = undefined;
        setText(pending.join(' '));
        pending = [];
      }, 3_000);
    };
    const task = (
      _: TaskBoard,
      row: { status: string; title: string; parentId: string; finishedAt: number | null; stale: boolean }
    ): void => {
      // An end is reported by its event, before totals; steps are covered by their run.
      if (row.parentId === '' && row.finishedAt !== null && row.stale) {
        const words = { SUCCEEDED: trans.__('Done'), FAILED: trans.__('Failed'), CANCELLED: trans.__('Stopped') };
        announce(`${words[row.status as keyof typeof words] ?? ''}: ${row.title}.`);
      }
    };
    const state = (): void => {
      if (wasLost && board.state === 'ready') {
        announce(trans.__('Reconnected.'));
      }
      wasLost = board.state === 'reconnecting';
    };
    board.taskChanged.connect(task);
    board.changed.connect(state);
    return () => {
      board.taskChanged.disconnect(task);
      board.changed.disconnect(state);
      clearTimeout(timer);
    };
  }, [board, trans]);
  return (
    <div className="jp-Ozzie-announcer" aria-live="polite">
      {text}
    </div>
  );
}
