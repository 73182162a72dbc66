/** A turn that goes on, below its cell: the server's own live form, which is inert HTML of ours (docs/adr/0005). */

import { duration, elapsed, type ITranslate } from '../model/wording';

/** The class of a question below a cell. */
export const IN_CELL = 'jp-Ozzie-inCell';
const LIVE = 'jp-Ozzie-live';
const FOLLOWING = 'jp-Ozzie-mod-following';
const STAYING = 'jp-Ozzie-mod-staying';

/** What was drawn, and when, in milliseconds. */
const shown = new WeakMap<HTMLElement, { readonly html: string; readonly at: number }>();

export interface ILiveOptions {
  /** So many of the cell's outputs stay above it. */
  readonly staying: number;
  /** Whether this page hears from the kernel. */
  readonly hasKernel: boolean;
  readonly trans: ITranslate;
}

/**
 * Draw `html` at the end of a cell's output area, in place of what the cell shows of a turn; null takes it away again. It
 * stands beside Lab's outputs and never in them: what is saved meanwhile is what the kernel wrote. Where the kernel's own
 * widget came back after a reload, that one shows the turn; one whose kernel is gone stands still.
 *
 * The same `html` again only goes on with its times.
 */
export function drawLive(area: HTMLElement, html: string | null, options: ILiveOptions): void {
  const drawn = area.querySelector<HTMLElement>(`:scope > .${LIVE}`);
  if (html === null || (options.hasKernel && hasWidget(area))) {
    drawn?.remove();
    area.classList.remove(FOLLOWING);
    return;
  }
  // What the turn asks stands below it.
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

/** The server says nothing anew while only time passes: times that run on say where they stood. */
function goOn(live: HTMLElement, trans: ITranslate): void {
  const passed = Date.now() - (shown.get(live)?.at ?? Date.now());
  for (const time of live.querySelectorAll<HTMLElement>('[data-s]')) {
    const milliseconds = Number(time.dataset.s) * 1000 + passed;
    const said = time.matches('.oz-dur') ? duration(milliseconds, trans) : elapsed(milliseconds, trans);
    if (time.textContent !== said) {
      time.textContent = said;
      time.removeAttribute('aria-label'); // it says the time of before in full
    }
  }
}

function hasWidget(area: HTMLElement): boolean {
  return area.querySelector('.jupyter-widgets:not(.jupyter-widgets-disconnected) .oz') !== null;
}
