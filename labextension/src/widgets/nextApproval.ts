/** From one approval to the next by a key: it moves the focus, and answers nothing. */

/** Where a person begins to read what is asked: the sentence of a card, or a row that opens one. */
const ASKED = '.jp-Ozzie-approval .jp-Ozzie-sentence, .jp-Ozzie-need';

/** Go on from the one that has the focus; false where none can be seen. */
export function focusNextApproval(): boolean {
  const all = [...document.querySelectorAll<HTMLElement>(ASKED)].filter(node => node.getClientRects().length > 0);
  const card = document.activeElement?.closest('.jp-Ozzie-approval');
  const current = all.findIndex(node => node === document.activeElement || card?.contains(node));
  const next = all[(current + 1) % all.length];
  next?.focus();
  return next !== undefined;
}

/** Lab's own shortcuts do not reach a card. */
export function isNextApproval(event: Pick<KeyboardEvent, 'altKey' | 'shiftKey' | 'code'>): boolean {
  return event.altKey && event.shiftKey && event.code === 'KeyA';
}
