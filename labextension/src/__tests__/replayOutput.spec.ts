// Lumino's widgets know of dragging, jsdom does not.
globalThis.DragEvent ??= class extends MouseEvent {} as unknown as typeof DragEvent;

import { Widget } from '@lumino/widgets';

const PLAYER = 'application/vnd.jupyter.widget-view+json';

/** Observers are told after what runs now. */
const told = () => new Promise(resolve => setTimeout(resolve));

type Factory = Parameters<Parameters<typeof import('../widgets/replayOutput').drawReplays>[0]['addFactory']>[0];

/** What shows a replay, and the nodes in which its forms are drawn, as the renderers of a notebook leave them. */
async function replay({ hasWidgets = true, ready = Promise.resolve() } = {}) {
  const { drawReplays } = await import('../widgets/replayOutput');
  const drawn = new Map<string, Widget>();
  let factory: Factory | null = null;
  const ranks: unknown[] = [];
  const createRenderer = (mimeType: string) => {
    const made = Object.assign(new Widget(), {
      renderModel: (model: { data: Record<string, string> }) => {
        made.node.textContent = mimeType === PLAYER ? 'Loading widget...' : (model.data[mimeType] ?? '');
        return Promise.resolve();
      }
    });
    drawn.set(mimeType, made);
    return made;
  };
  const rendermime = {
    addFactory: (made: Factory, rank: unknown) => {
      factory = made;
      ranks.push(rank);
    },
    createRenderer,
    getFactory: (mimeType: string) => (mimeType === PLAYER && hasWidgets ? {} : undefined)
  } as unknown as Parameters<typeof drawReplays>[0];
  drawReplays(rendermime, ready);
  const output = (factory as Factory | null)!.createRenderer({} as Parameters<Factory['createRenderer']>[0]);
  const render = async () => {
    await output.renderModel({ data: { 'text/markdown': 'Replay of Prices.' } } as never);
    await told();
  };
  await render();
  const shown = () =>
    [...drawn.values()]
      .filter(each => !each.isDisposed && !each.isHidden)
      .map(each => each.node.textContent)
      .join();
  return { drawn, output, ranks, render, shown };
}

test('a player is shown once it is there, and until then what was saved', async () => {
  const { drawn, ranks, shown } = await replay();
  expect(shown()).toBe('Replay of Prices.');
  drawn.get(PLAYER)!.node.innerHTML = '<div class="jupyter-widgets">the player</div>';
  await told();
  expect(shown()).toBe('the player');
  expect(ranks[0]).toBeLessThan(-10);
});

test('what was saved is shown again once the kernel was restarted', async () => {
  const { drawn, shown } = await replay();
  drawn.get(PLAYER)!.node.innerHTML = '<div class="jupyter-widgets"><i class="jupyter-widgets">the player</i></div>';
  await told();
  drawn.get(PLAYER)!.node.querySelector('i')!.classList.add('jupyter-widgets-disconnected');
  await told();
  expect(shown()).toBe('Replay of Prices.');
});

test('what was saved is shown for a player that is gone', async () => {
  const { drawn, shown } = await replay();
  drawn.get(PLAYER)!.node.textContent = 'Error displaying widget: model not found';
  await told();
  expect(shown()).toBe('Replay of Prices.');
});

test('no player is asked for before the kernel is known', async () => {
  const { drawn, shown } = await replay({ ready: new Promise(() => undefined) });
  expect([...drawn.keys()]).toEqual(['text/markdown']);
  expect(shown()).toBe('Replay of Prices.');
});

test('what was saved is shown in a Lab without widgets', async () => {
  const { drawn, shown } = await replay({ hasWidgets: false });
  expect([...drawn.keys()]).toEqual(['text/markdown']);
  expect(shown()).toBe('Replay of Prices.');
});

test('drawn again, it is drawn once', async () => {
  const { output, render, shown } = await replay();
  await render();
  expect(shown()).toBe('Replay of Prices.');
  expect(output.node.childElementCount).toBe(2);
});
