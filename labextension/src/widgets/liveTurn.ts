/** A running turn below its cell, as the server's live form, our own inert HTML (docs/adr/0005). */

import { duration, elapsed, type ITranslate } from '../model/wording';

/** The class of a prompt below a cell. */
export const IN_CELL = 'jp-Ozzie-inCell';
const LIVE = 'jp-Ozzie-live';
const FOLLOWING = 'jp-Ozzie-mod-following';
const STAYING = 'jp-Ozzie-mod-staying';

/** The drawn HTML, and since when, in milliseconds. */
const shown = new WeakMap<HTMLElement, { readonly html: string; readonly at: number }>();

export interface ILiveOptions {
  /** How many of the cell's outputs stay above it. */
  readonly staying: number;
  /** Whether this page is connected to the kernel. */
  readonly hasKernel: boolean;
  readonly trans: ITranslate;
}

/**
 * Draw `html` at the end of a cell's output area, in place of the turn's outputs; null removes it. It is beside Lab's
 * outputs, never in them: what is saved is what the kernel wrote. If the kernel's own widget is back after a reload,
 * that one shows the turn, but without its kernel it stands still.
 *
 * The same `html` again only updates its times.
 */
export function drawLive(area: HTMLElement, html: string | null, options: ILiveOptions): void {
  const drawn = area.querySelector<HTMLElement>(`:scope > .${LIVE}`);
  if (html === null || (options.hasKernel && hasWidget(area))) {
    drawn?.remove();
    area.classList.remove(FOLLOWING);
    return;
  }
  // The turn's prompts are below it.
  const live = drawn ?? area.insertBefore(document.createElement('div'), area.querySelector(`:scope > .${IN_CELL}`));
  live.className = LIVE;
  if (shown.get(live)?.html !== html) {
    shown.set(live, { html, at: Date.now() });
    live.innerHTML = html;
  } else {
    goOn(live, options.trans);
  }
  area.querySelectorAll(':scope > .jp-OutputArea-child').forEach((child, at) => {
    child.classList.toggle(STAYING, at < options.staying);
  });
  area.classList.add(FOLLOWING);
}

/** Advance the running times: the server sends nothing while only time passes. */
function goOn(live: HTMLElement, trans: ITranslate): void {
  const passed = Date.now() - (shown.get(live)?.at ?? Date.now());
  for (const time of live.querySelectorAll<HTMLElement>('[data-s]')) {
    const milliseconds = Number(time.dataset.s) * 1000 + passed;
    const text = time.matches('.oz-dur') ? duration(milliseconds, trans) : elapsed(milliseconds, trans);
    if (time.textContent !== text) {
      time.textContent = text;
      time.removeAttribute('aria-label'); // it has the old time
    }
  }
}

function hasWidget(area: HTMLElement): boolean {
  return area.querySelector('.jupyter-widgets:not(.jupyter-widgets-disconnected) .oz') !== null;
}
