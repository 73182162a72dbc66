/** The tasks as a tree of rows: one tab stop, arrows move, Enter opens. */

import * as React from 'react';

import { isOpen, type TaskRow } from '../model/fold';
import { type ITranslate, money, progressLine, stateWord } from '../model/wording';
import { StateIcon, Stop } from './icons';

/** Lab's context menu finds a row's task by this attribute. */
export const TASK_ATTRIBUTE = 'data-task-id';

/** The most rows drawn at once. */
export const MAX_ROWS = 200;

export interface ITaskListProps {
  readonly rows: readonly TaskRow[];
  /** How many approvals each task waits for. */
  readonly approvalCounts: ReadonlyMap<string, number>;
  /** The number of tasks, including those not drawn. */
  readonly total: number;
  readonly now: number;
  readonly trans: ITranslate;
  readonly canStop: boolean;
  readonly onOpen: (taskId: string) => void;
  readonly onStop: (taskId: string) => void;
}

export function TaskList(props: ITaskListProps): React.JSX.Element {
  const { rows, total, trans } = props;
  const [chosen, setChosen] = React.useState('');
  const tree = React.useRef<HTMLDivElement>(null);
  // If the row with the tab stop is gone, the first has it.
  const current = rows.some(row => row.taskId === chosen) ? chosen : (rows[0]?.taskId ?? '');

  const move = (event: React.KeyboardEvent): void => {
    const at = rows.findIndex(row => row.taskId === current);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: rows.length - 1 }[event.key];
    if (to === undefined) {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
    const row = rows[Math.min(Math.max(to, 0), rows.length - 1)];
    if (row) {
      setChosen(row.taskId);
      tree.current?.querySelector<HTMLElement>(`[${TASK_ATTRIBUTE}="${row.taskId}"]`)?.focus();
    }
  };

  return (
    <div role="tree" aria-label={trans.__('Tasks')} className="jp-Ozzie-tasks" ref={tree} onKeyDown={move}>
      {rows.map((row, index) => (
        <Row
          key={row.taskId}
          row={row}
          hasTabStop={row.taskId === current}
          position={index + 1}
          onChoose={() => setChosen(row.taskId)}
          {...props}
          total={total}
        />
      ))}
    </div>
  );
}

interface IRowProps extends Omit<ITaskListProps, 'rows'> {
  readonly row: TaskRow;
  readonly hasTabStop: boolean;
  readonly position: number;
  readonly onChoose: () => void;
}

function Row(props: IRowProps): React.JSX.Element {
  const { row, approvalCounts, hasTabStop, position, total, now, trans, canStop, onChoose, onOpen, onStop } = props;
  const line = progressLine(row, now, trans, approvalCounts.get(row.taskId));
  // An open task's cost is unknown before its first call has ended.
  const isEarly = isOpen(row) && !row.cost;
  const cost = isEarly ? '' : money(row.cost);
  const open = (event: React.KeyboardEvent): void => {
    if (event.key === 'Enter' && event.target === event.currentTarget) {
      event.preventDefault();
      onOpen(row.taskId);
    }
  };
  return (
    <div
      role="treeitem"
      className="jp-Ozzie-task"
      tabIndex={hasTabStop ? 0 : -1}
      aria-selected={hasTabStop}
      aria-posinset={position}
      aria-setsize={total}
      aria-label={[row.title, line, cost].filter(Boolean).join(', ')}
      title={[row.title, line, row.reason].filter(Boolean).join('\n')}
      {...{ [TASK_ATTRIBUTE]: row.taskId }}
      onFocus={onChoose}
      onClick={() => onOpen(row.taskId)}
      onKeyDown={open}
    >
      <StateIcon row={row} />
      <span className="jp-Ozzie-grow">
        <span className="jp-Ozzie-title">{row.title || stateWord(row.status, trans)}</span>
        <span className="jp-Ozzie-sub">{line}</span>
      </span>
      <span className="jp-Ozzie-figure" title={cost || isEarly ? '' : trans.__('cost unknown')}>
        {cost || (isEarly ? '' : '—')}
      </span>
      {isOpen(row) && canStop && (
        <button
          className="jp-Ozzie-stop"
          tabIndex={-1}
          title={trans.__('Stop')}
          aria-label={trans.__('Stop %1', row.title)}
          onClick={event => {
            event.stopPropagation();
            onStop(row.taskId);
          }}
        >
          <Stop />
        </button>
      )}
    </div>
  );
}
