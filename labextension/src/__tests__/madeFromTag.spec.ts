import { drawMadeFrom } from '../widgets/madeFromTag';
import { TRANS } from './rig';

let header: HTMLElement;
let cleared: number;

beforeEach(() => {
  header = document.createElement('div');
  cleared = 0;
});

const draw = (text: string): void => drawMadeFrom(header, text, { trans: TRANS, onClear: () => (cleared += 1) });
const button = (): HTMLButtonElement => header.querySelector('button')!;

test('what a cell was made from stands there once, as a text', () => {
  draw('Made from web content (<img src=x onerror=a()>)');
  draw('Made from web content (<img src=x onerror=a()>)');

  expect(header.children).toHaveLength(1);
  expect(header.textContent).toBe('Made from web content (<img src=x onerror=a()>)Clear');
  expect(header.querySelector('img')).toBeNull();
});

test('it can be cleared by a key, which Lab does not take for one of its own', () => {
  draw('Made from web content');
  button().click();

  expect(cleared).toBe(1);
  expect(button().getAttribute('aria-label')).toBe('Clear the mark “Made from web content”');
  expect(button().closest('[data-lm-suppress-shortcuts]')).not.toBeNull();
});

test('another text takes its place, and none leaves nothing', () => {
  draw('Made from web content (a)');
  draw('Made from web content (a, b)');
  expect(header.querySelector('span')!.textContent).toBe('Made from web content (a, b)');
  expect(header.children).toHaveLength(1);

  draw('');
  expect(header.outerHTML).toBe('<div class=""></div>');
});

test('the text stays the same element while it says the same, as the focus may be in it', () => {
  draw('Made from web content');
  const before = button();
  draw('Made from web content');

  expect(button()).toBe(before);
});
