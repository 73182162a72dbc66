/** A turn that goes on, below its cell: the server's own live form, which is inert HTML of ours (docs/adr/0005). */

const LIVE = 'jp-Ozzie-live';
const FOLLOWING = 'jp-Ozzie-mod-following';

const shown = new WeakMap<HTMLElement, string>();

/**
 * Draw `html` at the end of a cell's output area, in place of what the cell shows; null takes it away again. It stands
 * beside Lab's outputs and never in them: what is saved meanwhile is what the kernel wrote. Where the kernel's own
 * widget came back after a reload, that one shows the turn; one whose kernel is gone stands still.
 */
export function drawLive(area: HTMLElement, html: string | null, hasKernel = true): void {
  const drawn = area.querySelector<HTMLElement>(`:scope > .${LIVE}`);
  if (html === null || (hasKernel && hasWidget(area))) {
    drawn?.remove();
    area.classList.remove(FOLLOWING);
    return;
  }
  const live = drawn ?? area.appendChild(document.createElement('div'));
  live.className = LIVE;
  if (shown.get(live) !== html) {
    shown.set(live, html);
    live.innerHTML = html;
  }
  area.classList.add(FOLLOWING);
}

function hasWidget(area: HTMLElement): boolean {
  return area.querySelector('.jupyter-widgets:not(.jupyter-widgets-disconnected) .oz') !== null;
}
