/** The tag above a cell that says what it was made from. A text, never HTML. */

import type { ITranslate } from '../model/wording';

const TAG = 'jp-Ozzie-madeFrom';
const SHOWING = 'jp-Ozzie-mod-madeFrom';

export interface IMadeFromOptions {
  readonly trans: ITranslate;
  /** On a person's key or click. */
  readonly onClear: () => void;
}

/** Draw the tag in the cell's header, which Lab leaves empty; without a text, remove it. */
export function drawMadeFrom(header: HTMLElement, text: string, { trans, onClear }: IMadeFromOptions): void {
  const drawn = header.querySelector<HTMLElement>(`:scope > .${TAG}`);
  header.classList.toggle(SHOWING, text !== '');
  if (text === '') {
    drawn?.remove();
    return;
  }
  if (drawn?.title === text) {
    return;
  }
  const label = document.createElement('span');
  label.textContent = text;
  const clear = document.createElement('button');
  clear.type = 'button';
  clear.className = 'jp-Ozzie-link';
  clear.textContent = trans.__('Clear');
  clear.setAttribute('aria-label', trans.__('Clear the mark “%1”', text));
  clear.addEventListener('click', () => onClear());
  const tag = document.createElement('div');
  tag.className = TAG;
  tag.title = text;
  // Otherwise Lab takes Enter on the button for "edit this cell".
  tag.dataset.lmSuppressShortcuts = 'true';
  tag.append(label, clear);
  drawn?.remove();
  header.append(tag);
}
