/** Above a cell: what it was made from, until a person runs it or clears that. A text, never HTML. */

import type { ITranslate } from '../model/wording';

const TAG = 'jp-Ozzie-madeFrom';
const SHOWING = 'jp-Ozzie-mod-madeFrom';

export interface IMadeFromOptions {
  readonly trans: ITranslate;
  /** By a person's own key or click. */
  readonly onClear: () => void;
}

/** In the cell's header, which is Lab's own and empty; without a text the tag is taken away. */
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
  const said = document.createElement('span');
  said.textContent = text;
  const clear = document.createElement('button');
  clear.type = 'button';
  clear.className = 'jp-Ozzie-link';
  clear.textContent = trans.__('Clear');
  clear.setAttribute('aria-label', trans.__('Clear the mark “%1”', text));
  clear.addEventListener('click', () => onClear());
  const tag = document.createElement('div');
  tag.className = TAG;
  tag.title = text;
  // Else Lab takes Enter on the button for "edit this cell".
  tag.dataset.lmSuppressShortcuts = 'true';
  tag.append(said, clear);
  drawn?.remove();
  header.append(tag);
}
