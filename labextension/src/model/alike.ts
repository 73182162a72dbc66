/** Approvals that may stand on one card: calls of one tool that a task asks for together; pure. */

import type { ApprovalRow } from './approvals';

/** On one card: nobody reads more. */
const MOST = 20;

/** What has to be the same of all, as their card says it once. */
const SAME = [
  'task_id',
  'tool_id',
  'rule',
  'place',
  'reason',
  'side_effect',
  'risk_level',
  'undo',
  'needs',
  'made_from',
  'checked',
  'shown'
] as const satisfies readonly (keyof ApprovalRow)[];

/** Return the rows in their order, those in a group of their own that belong on one card. */
export function alikeGroups(rows: readonly ApprovalRow[]): readonly (readonly ApprovalRow[])[] {
  const groups: ApprovalRow[][] = [];
  for (const row of rows) {
    const last = groups.at(-1);
    if (last !== undefined && last.length < MOST && last[0] !== undefined && areAlike(last[0], row)) {
      last.push(row);
    } else {
      groups.push([row]);
    }
  }
  return groups;
}

function areAlike(one: ApprovalRow, other: ApprovalRow): boolean {
  return isWhole(one) && isWhole(other) && SAME.every(name => one[name] === other[name]);
}

/** Whether the row shows all that determines the effect: else it is read on a card of its own, with the arguments. */
function isWhole(row: ApprovalRow): boolean {
  const isPending = row.status === 'pending' && row.shown !== '';
  return isPending && row.card === '' && row.whole === null && row.targets.every(({ more }) => more === 0);
}
