/** What goes from a cell by itself must leave nobody before an empty page: Lab lets one scroll beyond its end. */

/** Less of a cell than this, in px, tells nothing. */
const LEAST_PX = 48;

/** Take `node` out of its cell. Who looked at it more than at what comes below it then sees the cell. */
export function takeOut(node: HTMLElement): void {
  const cell = node.closest<HTMLElement>('.jp-Cell');
  const view = node.closest('.jp-WindowedPanel-outer')?.getBoundingClientRect();
  const end = cell?.parentElement?.lastElementChild?.getBoundingClientRect().bottom;
  const { top, bottom } = node.getBoundingClientRect();
  node.remove();
  if (!cell || !view || end === undefined) {
    return;
  }
  const seen = (from: number, to: number): number => Math.min(to, view.bottom) - Math.max(from, view.top);
  const wasLookedAt = seen(top, bottom) > Math.max(0, seen(bottom, end));
  if (wasLookedAt && cell.getBoundingClientRect().bottom < view.top + LEAST_PX) {
    cell.scrollIntoView({ block: 'nearest' });
  }
}
