/** Removing something from a cell must not leave an empty view: Lab lets one scroll beyond the notebook's end. */

/** Less of a cell than this, in px, is no use. */
const MIN_PX = 48;

/** Remove `node` from its cell. If it filled more of the view than what follows, scroll to the cell. */
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
  if (wasLookedAt && cell.getBoundingClientRect().bottom < view.top + MIN_PX) {
    cell.scrollIntoView({ block: 'nearest' });
  }
}
