/** Moves the focus from one approval to the next; answers nothing. */

import type * as React from 'react';

/** Focus targets: the sentence of a card, or a row that opens one. */
const TARGETS = '.jp-Ozzie-approval .jp-Ozzie-sentence, .jp-Ozzie-need';

/** Focus the approval after the focused one; return false if none is visible. */
export function focusNextApproval(): boolean {
  const all = [...document.querySelectorAll<HTMLElement>(TARGETS)].filter(node => node.getClientRects().length > 0);
  const card = document.activeElement?.closest('.jp-Ozzie-approval');
  const current = all.findIndex(node => node === document.activeElement || card?.contains(node));
  const next = all[(current + 1) % all.length];
  next?.focus();
  return next !== undefined;
}

/** Handle the keys of a card that answer nothing: Escape leaves it, and another one goes to the next. */
export function handleCardKey(event: React.KeyboardEvent, onLeave: (() => void) | undefined): void {
  if (event.key === 'Escape' && onLeave) {
    event.preventDefault();
    onLeave();
  } else if (isNextApproval(event)) {
    event.preventDefault();
    focusNextApproval();
  }
}

/** Cards handle this key themselves, as Lab's shortcuts don't reach them. */
export function isNextApproval(event: Pick<KeyboardEvent, 'altKey' | 'shiftKey' | 'code'>): boolean {
  return event.altKey && event.shiftKey && event.code === 'KeyA';
}
