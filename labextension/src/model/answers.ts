/** Amounts in the answers to a question: how they are written and read; pure. */

import type { AnswerOption } from '../api/protocol.gen';
import type { ITranslate } from './wording';

type Unit = AnswerOption['unit'];

/** How many of the gateway's units make one of the person's: USD, tokens, seconds. */
const FACTOR: Readonly<Record<Unit, number>> = { '': 1, cost: 1e9, tokens: 1, time: 1000 };
const MAX_AMOUNT = 1e15;

/** Return the amount as it is shown in a field: "0.50", "2000", "30". */
export function amountText({ amount, unit }: Pick<AnswerOption, 'amount' | 'unit'>): string {
  const counted = amount / FACTOR[unit];
  return unit === 'cost' && Math.abs(counted * 100 - Math.round(counted * 100)) < 1e-9
    ? counted.toFixed(2)
    : String(counted);
}

/**
 * Return the typed amount in the gateway's unit, or null. A comma may only separate thousands: "0,500" means fifty
 * cents to some and is rejected.
 */
export function readAmount(text: string, unit: Unit): number | null {
  const typed = text.trim().replace(/^\$/, '');
  if (!/^(\d*\.?\d+|[1-9]\d{0,2}(,\d{3})+(\.\d+)?)$/.test(typed)) {
    return null;
  }
  const amount = Math.round(Number(typed.replaceAll(',', '')) * FACTOR[unit]);
  return amount > 0 && amount <= MAX_AMOUNT ? amount : null;
}

/** "Allow $0.75 more": the amount that is sent, not the typed text. */
export function allowLabel(amount: number, unit: Unit, trans: ITranslate): string {
  switch (unit) {
    case 'cost':
      return trans.__('Allow $%1 more', amountText({ amount, unit }));
    case 'tokens':
      return trans.__('Allow %1 tokens more', amount.toLocaleString());
    default:
      return trans.__('Allow %1 s more', amountText({ amount, unit }));
  }
}

/** Return the word after the field. */
export function unitWord(unit: Unit, trans: ITranslate): string {
  switch (unit) {
    case 'cost':
      return 'USD';
    case 'tokens':
      return trans.__('tokens');
    default:
      return trans.__('seconds');
  }
}
