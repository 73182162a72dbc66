import { FeedSocket } from '../api/socket';
import { NotDone } from '../model/notDone';
import { OpenNotebooks } from '../model/openNotebooks';
import { aCell, FakeNotebook } from './notebookRig';
import { FakeSocket, FakeWebSocket } from './rig';

let socket: FeedSocket;
let notebooks: OpenNotebooks;
let notebook: FakeNotebook;

beforeEach(() => {
  jest.useFakeTimers();
  FakeSocket.made = [];
  socket = new FeedSocket({ url: 'ws://127.0.0.1/', WebSocket: FakeWebSocket, random: () => 1 });
  notebooks = new OpenNotebooks(socket, '~/work');
  notebook = new FakeNotebook('a.ipynb', aCell('one', 'x = 1'));
});

afterEach(() => {
  socket.close();
  jest.useRealTimers();
});

/** All that was sent over the connection that there is now, answered as it comes. */
async function settle(): Promise<void> {
  for (let round = 0; round < 20; round += 1) {
    for (const { id } of FakeSocket.last.sent.slice(answered)) {
      answered += 1;
      FakeSocket.last.say({ type: 'res', id, ok: true, payload: {} });
    }
    await jest.advanceTimersByTimeAsync(0);
  }
}

let answered = 0;
function connect(): void {
  answered = 0;
  socket.follow(0);
  FakeSocket.last.accept();
}

const told = (): [string, unknown][] =>
  FakeSocket.last.sent
    .filter(({ method }) => method === 'notebook.opened' || method === 'notebook.closed')
    .map(({ method, params }) => [method, params]);
const answers = (): Record<string, unknown>[] =>
  FakeSocket.last.sent.filter(({ method }) => method === 'notebook.answer').map(({ params }) => params);

let asks = 0;
function ask(what: string, more: object = {}, path = 'a.ipynb'): string {
  asks += 1;
  const request_id = `ask ${asks}`;
  FakeSocket.last.say({
    type: 'event',
    event: 'notebook.asked',
    canonical: 'notebook.asked',
    position: null,
    payload: { request_id, path, ask: what, ...more }
  });
  return request_id;
}

const place = (path: string) => ({ path, root: '~/work' });
const edit = (was: string, source: string) => {
  return { edit: { does: 'replace', cell_id: 'one', kind: 'code', was, source, made_from: [] } };
};

test('what is open is told as it is opened, renamed and closed', async () => {
  connect();
  notebooks.opened(notebook);
  notebook.path = 'b.ipynb';
  notebooks.moved(notebook);
  notebooks.moved(notebook);
  notebooks.closed(notebook);
  notebooks.closed(notebook);
  await settle();

  expect(told()).toEqual([
    ['notebook.opened', place('a.ipynb')],
    ['notebook.closed', place('a.ipynb')],
    ['notebook.opened', place('b.ipynb')],
    ['notebook.closed', place('b.ipynb')]
  ]);
});

test('all that is open is told whenever the connection comes back', async () => {
  notebooks.opened(notebook);
  notebooks.opened(new FakeNotebook('b.ipynb'));
  connect();
  await settle();
  const both = [
    ['notebook.opened', place('a.ipynb')],
    ['notebook.opened', place('b.ipynb')]
  ];
  expect(told()).toEqual(both);

  FakeSocket.last.onclose?.();
  const gone = new FakeNotebook('c.ipynb');
  notebooks.opened(gone);
  notebooks.closed(gone);
  await jest.advanceTimersByTimeAsync(500);
  answered = 0;
  FakeSocket.last.accept();
  await settle();
  expect(FakeSocket.made).toHaveLength(2);
  expect(told()).toEqual(both);
});

test('only one thing is told at a time', async () => {
  connect();
  for (let at = 0; at < 40; at += 1) {
    notebooks.opened(new FakeNotebook(`${at}.ipynb`));
  }
  await jest.advanceTimersByTimeAsync(0);
  expect(told()).toHaveLength(1);

  await settle();
  await settle();
  expect(told()).toHaveLength(40);
});

test('it says what state a notebook is in', async () => {
  notebooks.opened(notebook);
  connect();
  notebook.isDirty = true;
  const request_id = ask('state');
  await settle();

  expect(answers()).toEqual([{ request_id, ok: true, answer: { dirty: true, path: 'a.ipynb' }, error: null }]);
});

test('it tells the cells from the one on that it is asked for', async () => {
  notebook.written.push(aCell('two'), aCell('three'));
  notebooks.opened(notebook);
  connect();
  ask('read', { first: 1 });
  await settle();

  expect(answers()[0]!.answer).toEqual({
    cells: [aCell('two'), aCell('three')],
    count: 3,
    named: true,
    language: 'python',
    dirty: false
  });
});

test('an edit is made and saved', async () => {
  notebooks.opened(notebook);
  connect();
  ask('edit', edit('x = 1', 'x = 2'));
  await settle();

  expect(notebook.cellAt(0).source).toBe('x = 2');
  expect(notebook.saves).toBe(1);
  expect(answers()[0]).toMatchObject({ ok: true, answer: { notes: [] } });
});

test('an edit of what is not there any more changes nothing, and saves nothing', async () => {
  notebooks.opened(notebook);
  connect();
  const request_id = ask('edit', edit('x = 0', 'x = 2'));
  await settle();

  expect(notebook.saves).toBe(0);
  expect(answers()).toEqual([
    {
      request_id,
      ok: false,
      answer: {},
      error: { code: 'changed', message: 'The cell one has changed since it was read.' }
    }
  ]);
});

test('an edit that is not saved in time is told as made', async () => {
  notebook.saving = () => new Promise(() => undefined);
  notebooks.opened(notebook);
  connect();
  ask('edit', edit('x = 1', 'x = 2'));
  await settle();
  expect(answers()).toEqual([]);

  await jest.advanceTimersByTimeAsync(5_000);
  expect(answers()[0]!.answer).toEqual({
    notes: ['It is not saved yet: JupyterLab is still saving, or shows a dialog in the page.']
  });
});

test('an edit that can not be saved is told as made', async () => {
  notebook.saving = () => Promise.reject(new Error('The disk is full.'));
  notebooks.opened(notebook);
  connect();
  ask('edit', edit('x = 1', 'x = 2'));
  await settle();

  expect(answers()[0]).toMatchObject({ ok: true, answer: { notes: ['It is not saved yet: The disk is full.'] } });
});

test.each([
  [false, { dirty: false, reloaded: true }, 1],
  [true, { dirty: true, reloaded: false }, 0]
])('what another page saved is taken up where nothing is unsaved: %p', async (isDirty, answer, reverts) => {
  notebook.isDirty = isDirty;
  notebooks.opened(notebook);
  connect();
  ask('reload');
  await settle();

  expect(answers()[0]!.answer).toEqual(answer);
  expect(notebook.reverts).toBe(reverts);
});

test('what is asked of one notebook is answered in order, and of another meanwhile', async () => {
  const other = new FakeNotebook('b.ipynb', aCell('one'));
  let saved: () => void = () => undefined;
  notebook.saving = () => new Promise(resolve => (saved = resolve));
  notebooks.opened(notebook);
  notebooks.opened(other);
  connect();
  const [first, second] = [ask('edit', edit('x = 1', 'x = 2')), ask('edit', edit('x = 2', 'x = 3'))];
  const third = ask('state', {}, 'b.ipynb');
  await settle();
  expect(answers().map(answer => answer.request_id)).toEqual([third]);
  expect(notebook.cellAt(0).source).toBe('x = 2');

  saved();
  await settle();
  saved();
  await settle();
  expect(answers().map(answer => answer.request_id)).toEqual([third, first, second]);
  expect(notebook.cellAt(0).source).toBe('x = 3');
});

test('what was asked over a connection that is gone is not begun any more, and what was done is told', async () => {
  let saved: () => void = () => undefined;
  notebook.saving = () => new Promise(resolve => (saved = resolve));
  notebooks.opened(notebook);
  connect();
  const done = ask('edit', edit('x = 1', 'x = 2'));
  ask('edit', edit('x = 2', 'x = 3'));
  await settle();
  FakeSocket.last.onclose?.();
  await jest.advanceTimersByTimeAsync(500);
  answered = 0;
  FakeSocket.last.accept();
  saved();
  await settle();

  expect(notebook.cellAt(0).source).toBe('x = 2');
  expect(answers().map(answer => answer.request_id)).toEqual([done]);
});

test.each([
  ['a notebook that is not open', 'state', {}, 'elsewhere.ipynb', 'It is not open in this page.'],
  ['what a newer gateway asks', 'polish', {}, 'a.ipynb', 'This page does not know how to do that: reload it.'],
  [
    'an edit of another shape',
    'edit',
    { edit: { does: 'split', cell_id: 'one', was: 'x = 1' } },
    'a.ipynb',
    'This page does not know how to do that: reload it.'
  ],
  [
    'an edit without its parts',
    'edit',
    { edit: { does: 'move' } },
    'a.ipynb',
    'This page does not know how to do that: reload it.'
  ]
])('%s is answered too', async (_, what, more, path, message) => {
  notebooks.opened(notebook);
  connect();
  const request_id = ask(what, more, path);
  await settle();

  expect(answers()).toEqual([{ request_id, ok: false, answer: {}, error: { code: 'failed', message } }]);
});

test('a notebook that was closed while it was asked about is not changed', async () => {
  let saved: () => void = () => undefined;
  notebook.saving = () => new Promise(resolve => (saved = resolve));
  notebooks.opened(notebook);
  connect();
  ask('edit', edit('x = 1', 'x = 2'));
  ask('edit', edit('x = 2', 'x = 3'));
  await settle();
  notebooks.closed(notebook);
  saved();
  await settle();

  expect(notebook.cellAt(0).source).toBe('x = 2');
  expect(answers().map(answer => answer.ok)).toEqual([true, false]);
});

test('a refusal goes as it is, and anything else that goes wrong as a failure', async () => {
  notebooks.opened(notebook);
  connect();
  jest.spyOn(notebook, 'revert').mockRejectedValueOnce(new NotDone('busy', 'Not now.'));
  ask('reload');
  jest.spyOn(notebook, 'cellAt').mockImplementation(() => {
    throw new TypeError('Nothing there.');
  });
  ask('read', { first: 0 });
  await settle();

  expect(answers().map(answer => answer.error)).toEqual([
    { code: 'busy', message: 'Not now.' },
    { code: 'failed', message: 'Nothing there.' }
  ]);
});
