/** Our icons: 16-grid, 1.5 px line; always beside a word. */

import * as React from 'react';

import type { ApprovalStatus } from '../api/approval';
import type { GraphStep } from '../api/protocol.gen';
import { shownState, type TaskRow, type TaskState } from '../model/fold';

const RING = 'M8 2.25a5.75 5.75 0 1 0 0 11.5a5.75 5.75 0 1 0 0-11.5Z';
const DIAMOND = 'M8 2 14 8 8 14 2 8ZM8 5.4v3M8 10.4v.1';

/** By state: its role (the colour) and its shape. */
const STATES: Readonly<Record<TaskState, readonly [role: string, shape: string]>> = {
  CREATED: ['idle', RING],
  QUEUED: ['idle', RING],
  RUNNING: ['run', 'M8 2.25A5.75 5.75 0 1 1 2.25 8'],
  WAITING_APPROVAL: ['ask', DIAMOND],
  WAITING_INPUT: ['ask', DIAMOND],
  PAUSED: ['idle', 'M5.5 3.5v9M10.5 3.5v9'],
  SUCCEEDED: ['ok', 'M3.5 8.5 6.5 11.5 12.5 4.5'],
  FAILED: ['bad', `${RING}M6 6 10 10M10 6 6 10`],
  CANCELLED: ['idle', `${RING}M5.5 8h5`]
};

function Line(props: { shape: string; role: string; dashed?: boolean; spins?: boolean }): React.JSX.Element {
  const { shape, role, dashed, spins } = props;
  return (
    <svg
      className={`jp-Ozzie-icon jp-Ozzie-${role}${spins ? ' jp-Ozzie-spins' : ''}`}
      viewBox="0 0 16 16"
      aria-hidden="true"
      {...(dashed && { strokeDasharray: '2 2.5' })}
    >
      <path d={shape} />
    </svg>
  );
}

const UNCERTAIN: (typeof STATES)[TaskState] = ['bad', 'M8 2.2 14.2 13H1.8ZM8 6.2v3M8 11.1v.1'];

export function StateIcon({ row }: { row: Pick<TaskRow, 'status' | 'waiting' | 'isUncertain'> }): React.JSX.Element {
  const status = shownState(row);
  const [role, shape] = row.isUncertain ? UNCERTAIN : STATES[status];
  const queued = status === 'QUEUED' || status === 'CREATED';
  return <Line shape={shape} role={role} dashed={queued} spins={status === 'RUNNING'} />;
}

export function ApprovalIcon({ status }: { status: ApprovalStatus }): React.JSX.Element {
  const states = {
    pending: 'WAITING_APPROVAL',
    granted: 'SUCCEEDED',
    rejected: 'CANCELLED',
    expired: 'CANCELLED'
  } as const;
  const [role, shape] = STATES[states[status]];
  return <Line shape={shape} role={role} />;
}

/** By step state, as in the saved picture. */
const STEPS: Readonly<Record<GraphStep['state'], (typeof STATES)[TaskState]>> = {
  Waiting: STATES.QUEUED,
  Working: STATES.RUNNING,
  'Waiting for you': STATES.WAITING_APPROVAL,
  'Waiting for your answer': STATES.WAITING_INPUT,
  'Needs a decision': UNCERTAIN,
  Done: ['ok', `${RING}M5.4 8.2 7.2 10 10.7 6.2`],
  Failed: STATES.FAILED,
  Skipped: ['idle', 'M4 8h8'],
  Stopped: STATES.CANCELLED,
  Paused: STATES.PAUSED
};

export function StepIcon({ state }: { state: GraphStep['state'] }): React.JSX.Element {
  const [role, shape] = STEPS[state];
  return <Line shape={shape} role={role} dashed={state === 'Waiting'} spins={state === 'Working'} />;
}

export const Turning = (): React.JSX.Element => <Line shape={STATES.RUNNING[1]} role="idle" spins />;
export const Caret = ({ open }: { open: boolean }): React.JSX.Element => (
  <Line shape={open ? 'M3.5 6 8 10.5 12.5 6' : 'M6 3.5 10.5 8 6 12.5'} role="caret" />
);
export const Back = (): React.JSX.Element => <Line shape="M10 3.5 5.5 8 10 12.5" role="plain" />;
export const Stop = (): React.JSX.Element => <Line shape="M4.5 4.5h7v7h-7Z" role="plain" />;
export const Pause = (): React.JSX.Element => <Line shape="M5.5 3.5v9M10.5 3.5v9" role="plain" />;
export const Resume = (): React.JSX.Element => <Line shape="M5 3.5 12 8 5 12.5Z" role="plain" />;
export const Retry = (): React.JSX.Element => (
  <Line shape="M12.8 8a4.8 4.8 0 1 1-1.6-3.6M11.6 1.9v2.7H8.9" role="plain" />
);
export const Search = (): React.JSX.Element => (
  <Line shape="M7 2.75a4.25 4.25 0 1 0 0 8.5a4.25 4.25 0 1 0 0-8.5ZM10.2 10.2 13.5 13.5" role="plain" />
);

/** For Lab, which wants SVG as text. */
export const OZZIE_SVG =
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16" width="16"><g class="jp-icon3" stroke="#616161" ' +
  'style="fill:none" stroke-width="1.5" stroke-linecap="round" stroke-linejoin="round">' +
  '<path d="M8 2.2A5.8 5.8 0 1 1 3.4 4.5"/><path d="M5.6 6h4.8L5.6 10.2h4.8"/></g></svg>';
