import { takeOut } from '../widgets/outOfView';

/** A notebook of one or two cells, scrolled to where these stand in the page; the view is from 100 to 900. */
function notebook(cells: { top: number; bottom: number; after: number }, last: number): [HTMLElement, jest.Mock] {
  const outer = document.body.appendChild(document.createElement('div'));
  outer.className = 'jp-WindowedPanel-outer';
  outer.innerHTML = '<div><div class="jp-Cell"><div></div></div><div></div></div>';
  const cell = outer.querySelector<HTMLElement>('.jp-Cell')!;
  const node = cell.firstElementChild as HTMLElement;
  const at = (element: Element, top: number, bottom: () => number): void => {
    element.getBoundingClientRect = () => ({ top, bottom: bottom() }) as DOMRect;
  };
  at(outer, 100, () => 900);
  at(node, cells.top, () => cells.bottom);
  at(cell, -200, () => (node.isConnected ? cells.bottom : cells.after));
  at(cell.nextElementSibling!, cells.bottom, () => last);
  const scrolled = jest.fn();
  cell.scrollIntoView = scrolled;
  return [node, scrolled];
}

afterEach(() => document.body.replaceChildren());

test.each([
  ['nothing else was in view', { top: -100, bottom: 400, after: 80 }, 400, 1],
  ['little of what comes below it was in view', { top: -100, bottom: 700, after: 80 }, 900, 1],
  ['more of what comes below it was in view', { top: -100, bottom: 200, after: 80 }, 900, 0],
  ['its cell stays in view', { top: 200, bottom: 400, after: 180 }, 400, 0],
  ['nothing of it was in view', { top: -300, bottom: 50, after: 10 }, 90, 0],
  ['all of it lies further down', { top: 1000, bottom: 1400, after: 990 }, 1400, 0]
])('where %s, the view goes to the cell or stays', (_, cells, last, times) => {
  const [node, scrolled] = notebook(cells, last);
  takeOut(node);

  expect(node.isConnected).toBe(false);
  expect(scrolled).toHaveBeenCalledTimes(times);
});

test('what stands in no notebook is only taken out', () => {
  const node = document.body.appendChild(document.createElement('div'));
  takeOut(node);

  expect(node.isConnected).toBe(false);
});
