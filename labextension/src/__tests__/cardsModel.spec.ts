// Lumino's widgets know of dragging, jsdom does not.
globalThis.DragEvent ??= class extends MouseEvent {} as unknown as typeof DragEvent;

/** What the kernel would hear. */
const sent: unknown[] = [];
const comm = {
  on_close: () => undefined,
  on_msg: () => undefined,
  send: (data: unknown) => {
    sent.push(data);
    return '';
  }
};

test('a model whose kernel is there tells it so, and one from a file tells nobody', async () => {
  const { CARDS, cardsWidgets } = await import('../widgets/cardsModel');
  const Model = cardsWidgets[CARDS.model] as new (attributes: object, options: object) => { attributes: object };
  new Model({}, { model_id: 'm', widget_manager: {}, comm });
  expect(sent).toEqual([{ method: 'custom', content: { here: true } }]);
  new Model({}, { model_id: 'n', widget_manager: {} });
  expect(sent).toHaveLength(1);
});

test('the names are those by which the kernel asks for it, and the version is that of the package', async () => {
  const { CARDS, cardsWidgets } = await import('../widgets/cardsModel');
  const { version, name } = jest.requireActual<{ version: string; name: string }>('../../package.json');
  expect(CARDS).toEqual({ module: name, version, model: 'CardsModel' });
  expect(Object.keys(cardsWidgets)).toEqual(['CardsModel']);
});
