import type { IOutput } from '@jupyterlab/nbformat';
import { Signal } from '@lumino/signaling';

import type { Task } from '../api/protocol.gen';
import { rowOf, type TaskRow } from '../model/fold';
import { type INotebook, NotebookTurns } from '../model/notebookTurns';
import { type ITopRun, openRuns } from '../model/topRuns';
import { aTask, AT, at, FakePage, FakeServer } from './rig';

const TASK = aTask().task_id;
const CELL = 'cell-1';
const SAVED = Date.parse(AT);

function end(status = 'Done', task = TASK): IOutput {
  return {
    output_type: 'display_data',
    data: { 'application/vnd.ozzie.turn+json': { task, status } },
    metadata: { ozzie: { session: 'sess_1', task, turn: task } }
  };
}

class FakeNotebook implements INotebook {
  readonly path = 'work/plan.ipynb';
  readonly savedAt = SAVED;
  readonly cellIds = [CELL, 'cell-2'];
  readonly cells = new Map<string, readonly IOutput[]>([
    [CELL, []],
    ['cell-2', []]
  ]);
  readonly drawn = new Map<string, string | null>();
  staying = 0;
  readonly writes: boolean[] = [];
  onDisk: readonly IOutput[] = [];
  noted = '';
  isDirty = false;
  hasKernel = true;
  reverted = false;

  outputs(cellId: string): readonly IOutput[] | null {
    return this.cells.get(cellId) ?? null;
  }
  setOutputs(cellId: string, outputs: readonly IOutput[], toBeSaved: boolean): void {
    this.cells.set(cellId, outputs);
    this.writes.push(toBeSaved);
    this.isDirty ||= toBeSaved;
  }
  note(sessionId: string): void {
    this.noted = sessionId;
  }
  draw(cellId: string, html: string | null, staying: number): void {
    this.drawn.set(cellId, html);
    this.staying = staying;
  }
  savedOutputs(): Promise<readonly IOutput[]> {
    return Promise.resolve(this.onDisk);
  }
  revert(): Promise<void> {
    this.reverted = true;
    return Promise.resolve();
  }
  markToBeSaved(): void {
    this.isDirty = true;
  }
}

class FakeBoard {
  rows: TaskRow[] = [];
  delegated: TaskRow[] = [];
  readonly state = 'ready';
  readonly taskChanged = new Signal<never, TaskRow>(this as never);
  readonly renewed = new Signal<never, void>(this as never);

  row(taskId: string): TaskRow | undefined {
    return this.rows.find(row => row.taskId === taskId);
  }

  get openRuns(): readonly ITopRun[] {
    return openRuns(new Map([...this.rows, ...this.delegated].map(row => [row.taskId, row])));
  }

  tell(task: Task): void {
    const row = rowOf(task);
    this.rows = [row, ...this.rows.filter(known => known.taskId !== row.taskId)];
    this.taskChanged.emit(row);
  }
}

class FakeLead {
  isHeld = true;
  readonly inherited = new Signal<never, void>(this as never);
  take(): void {
    this.isHeld = true;
  }
}

const RUNNING = aTask();
const DONE = aTask({ status: 'SUCCEEDED', updated_at: at(9), finished_at: at(9) });

let server: FakeServer;
let notebook: FakeNotebook;
let board: FakeBoard;
let lead: FakeLead;
let turns: NotebookTurns;
let page: FakePage;

/** The server has this task, and shows it like this. */
function serve(task: Task, output: IOutput = end(), html = ''): void {
  server.answers.set('tasks?notebook', { items: [task], next: null });
  server.answers.set(`tasks/${task.task_id}/output`, {
    task_id: task.task_id,
    status: task.status,
    html,
    graph: {},
    ...output
  });
}

const settle = (milliseconds = 0): Promise<unknown> => jest.advanceTimersByTimeAsync(milliseconds);

beforeEach(() => {
  jest.useFakeTimers();
  server = new FakeServer();
  server.answers.clear();
  notebook = new FakeNotebook();
  board = new FakeBoard();
  lead = new FakeLead();
  page = new FakePage();
  turns = new NotebookTurns(notebook, server.api, board, lead, page);
});

afterEach(() => {
  turns.dispose();
  jest.useRealTimers();
});

test('a turn that ended while nobody looked gets its end, to be saved, with its session', async () => {
  serve(DONE);
  await turns.refresh();
  await settle();

  expect(notebook.cells.get(CELL)).toEqual([end()]);
  expect(notebook.writes).toEqual([true]);
  expect(notebook.noted).toBe('sess_1');
  expect(server.asked).toEqual(['GET tasks?notebook=work%2Fplan.ipynb&limit=200', `GET tasks/${TASK}/output`]);
});

test('a turn that goes on is drawn beside the outputs, calmly, and then gets its end', async () => {
  serve(RUNNING, end('Working'), '<b>1 2 3</b>');
  await turns.refresh();
  await settle();
  expect(notebook.drawn.get(CELL)).toBe('<b>1 2 3</b>');
  expect(notebook.cells.get(CELL)).toEqual([]);
  server.asked.length = 0;
  await settle(3000);
  expect(server.asked).toHaveLength(3);

  serve(DONE);
  board.tell(DONE);
  await settle();
  expect(notebook.cells.get(CELL)).toEqual([end()]);
  expect(notebook.drawn.get(CELL)).toBeNull();
  server.asked.length = 0;
  await settle(10_000);
  expect(server.asked).toEqual([]);
});

test('while nothing is new, the turn is drawn on as it was', async () => {
  serve(RUNNING);
  const output = `tasks/${TASK}/output`;
  const told = { task_id: TASK, status: 'RUNNING', html: '<b>1</b>', version: 'a', data: {}, metadata: {} };
  server.answers.set(output, (path: string) => (path.endsWith('known=a') ? null : told));
  await turns.refresh();
  await settle();
  notebook.drawn.clear();
  server.asked.length = 0;
  board.tell(RUNNING);
  await settle(1000);

  expect(server.asked).toEqual([`GET ${output}?known=a`]);
  expect(notebook.drawn.get(CELL)).toBe('<b>1</b>');

  server.answers.set(output, { ...told, html: '<b>1 2</b>', version: 'b' });
  await settle(1000);
  expect(notebook.drawn.get(CELL)).toBe('<b>1 2</b>');
});

test('what was said before the turn stays where it goes on, and where it has ended', async () => {
  const said: IOutput = { output_type: 'display_data', data: { 'text/markdown': 'This repeats.' }, metadata: {} };
  notebook.cells.set(CELL, [said, end('Working'), end('Working')]);
  serve(RUNNING, end('Working'), '<b>1</b>');
  await turns.refresh();
  await settle();
  expect(notebook.staying).toBe(1);

  serve(DONE);
  board.tell(DONE);
  await settle();
  expect(notebook.cells.get(CELL)).toEqual([said, end()]);
});

test('a page that nobody sees draws nothing, catches up when it is seen, and gets the end all the same', async () => {
  serve(RUNNING, end('Working'), '<b>1</b>');
  await turns.refresh();
  await settle();
  page.hide(true);
  server.asked.length = 0;
  serve(RUNNING, end('Working'), '<b>1 2</b>');
  await settle(60_000);
  expect(server.asked).toEqual([]);

  page.hide(false);
  await settle();
  expect(notebook.drawn.get(CELL)).toBe('<b>1 2</b>');
  await settle(1000);
  expect(server.asked).toHaveLength(2);

  page.hide(true);
  serve(DONE);
  board.tell(DONE);
  await settle();
  expect(notebook.cells.get(CELL)).toEqual([end()]);
});

test('what this page follows it also ends, although the file was saved just now', async () => {
  serve(RUNNING, end('Working'), '<b>1</b>');
  await turns.refresh();
  await settle();
  const early = aTask({ ...DONE, finished_at: at(-60), updated_at: at(1) });
  serve(early);
  board.tell(early);
  await settle();

  expect(notebook.cells.get(CELL)).toEqual([end()]);
});

test('a cell that runs in this page is left to its kernel', async () => {
  serve(RUNNING, end('Working'), '<b>1</b>');
  turns.cellStarted(CELL);
  await turns.refresh();
  await settle(2000);
  expect(notebook.drawn.get(CELL)).toBeNull();

  notebook.cells.set(CELL, [end()]);
  board.tell(DONE);
  turns.cellEnded(CELL);
  await settle(10_000);
  expect(notebook.writes).toEqual([]);
  expect(notebook.noted).toBe('sess_1');
});

test('a turn whose kernel died is followed to its end', async () => {
  serve(RUNNING, end('Working'), '<b>1</b>');
  turns.cellStarted(CELL);
  notebook.cells.set(CELL, [end('Working')]);
  turns.kernelGone();
  await settle(500);
  await settle(50);
  expect(notebook.drawn.get(CELL)).toBe('<b>1</b>');

  serve(DONE);
  board.tell(DONE);
  await settle();
  expect(notebook.cells.get(CELL)).toEqual([end()]);
  expect(notebook.drawn.get(CELL)).toBeNull();
});

test('a turn of this page is followed where its kernel is not heard from, until the kernel is back', async () => {
  serve(RUNNING, end('Working'), '<b>1</b>');
  turns.cellStarted(CELL);
  notebook.hasKernel = false;
  board.renewed.emit();
  await settle(500);
  await settle(50);
  expect(notebook.drawn.get(CELL)).toBe('<b>1</b>');

  notebook.cells.set(CELL, [end()]);
  await settle(1000);
  expect(notebook.drawn.get(CELL)).toBeNull();
  expect(notebook.writes).toEqual([]);
});

test('a kernel whose last word was lost is waited for, and then the end is put there', async () => {
  serve(RUNNING);
  turns.cellStarted(CELL);
  await turns.refresh();
  serve(DONE);
  board.tell(DONE);
  await settle(2900);
  expect(notebook.writes).toEqual([]);

  await settle(200);
  expect(notebook.cells.get(CELL)).toEqual([end()]);
});

test.each([
  ['before its output', (): void => board.tell(DONE), (): void => undefined],
  ['when it is gone', (): void => undefined, (): void => board.tell(DONE)]
])('an output that somebody clears stays away, also if the end is heard of %s', async (_, before, after) => {
  serve(RUNNING, end());
  await turns.refresh();
  turns.cellStarted(CELL);
  board.tell(RUNNING);
  serve(DONE);
  before();
  notebook.cells.set(CELL, [end()]);
  turns.cellEnded(CELL);
  notebook.cells.set(CELL, []);
  after();
  await settle(10_000);

  expect(notebook.outputs(CELL)).toEqual([]);
  expect(notebook.writes).toEqual([]);
});

test('a turn that is retried after its cell showed an end gets its next end', async () => {
  serve(RUNNING, end());
  await turns.refresh();
  turns.cellStarted(CELL);
  board.tell(RUNNING);
  notebook.cells.set(CELL, [end('Failed')]);
  turns.cellEnded(CELL);
  board.tell({ ...RUNNING, status: 'QUEUED' });
  notebook.cells.set(CELL, []);
  serve(DONE);
  board.tell(DONE);
  await settle(10_000);

  expect(notebook.outputs(CELL)).toEqual([end()]);
});

test('a cell that was run again meanwhile is not put back', async () => {
  serve(RUNNING);
  await turns.refresh();
  serve(DONE);
  board.rows = [rowOf(aTask({ task_id: '01M800000000000000000000ZZ' }))];
  board.tell(DONE);
  await settle();

  expect(notebook.writes).toEqual([]);
});

const SAID: IOutput = { output_type: 'display_data', data: { 'text/markdown': 'It cost nothing.' }, metadata: {} };

test.each([
  ['shows nothing yet', []],
  ['says something that is no turn', [SAID]]
])('the end of an earlier turn is not put into a cell that was run again and %s', async (_, outputs) => {
  serve(RUNNING);
  turns.cellStarted(CELL);
  board.tell(RUNNING);
  notebook.cells.set(CELL, [end('Working')]);
  serve(DONE);
  board.tell(DONE);
  notebook.cells.set(CELL, [end()]);
  turns.cellEnded(CELL);
  await settle(2900);
  turns.cellStarted(CELL);
  notebook.cells.set(CELL, outputs);
  board.tell(DONE); // its figures are told after its end
  await settle(10_000);
  turns.cellEnded(CELL);
  board.renewed.emit();
  await settle(10_000);

  expect(notebook.writes).toEqual([]);
  expect(notebook.cells.get(CELL)).toEqual(outputs);
});

test('a cell that is run again while the end of its earlier turn is asked for keeps what it shows', async () => {
  serve(DONE);
  board.tell(DONE);
  await settle(500);
  turns.cellStarted(CELL); // between the question and its answer
  await settle(10_000);

  expect(notebook.writes).toEqual([]);
});

test('a turn of another notebook with cells of the same ids is none of this one', async () => {
  board.tell(RUNNING);
  server.answers.set('tasks?notebook', { items: [], next: null });
  await settle(500);

  expect(server.asked).toEqual(['GET tasks?notebook=work%2Fplan.ipynb&limit=200']);
  expect(notebook.drawn.size).toBe(0);
});

const FOREIGN = aTask({ session_id: 'sess_of_a_copy' });
const LOOK = 'GET tasks?notebook=work%2Fplan.ipynb&limit=200';

/** A copy of this notebook has a turn in which much happens. */
async function busyCopy(): Promise<void> {
  for (let count = 0; count < 20; count += 1) {
    board.tell(FOREIGN);
    await settle(1000);
  }
}

test('a copy of the notebook in which much happens is asked about once', async () => {
  server.answers.set('tasks?notebook', { items: [], next: null });
  await busyCopy();
  expect(server.asked).toEqual([LOOK]);

  await settle(60_000);
  await busyCopy();
  expect(server.asked).toEqual([LOOK, LOOK]);
});

test.each([
  ['a cell is run', () => turns.cellStarted(CELL)],
  ['a cell has ended', () => turns.cellEnded(CELL)],
  ['the connection was lost', () => board.renewed.emit()]
])('whose a turn is is asked anew when %s', async (_, happens) => {
  server.answers.set('tasks?notebook', { items: [], next: null });
  await busyCopy();
  server.asked.length = 0;
  happens();
  await busyCopy();

  expect(server.asked).toEqual([LOOK]);
});

test('a session that nobody could be asked about is asked about again', async () => {
  server.status = 0;
  board.tell(FOREIGN);
  await settle(1000);
  server.status = 200;
  server.answers.set('tasks?notebook', { items: [FOREIGN], next: null });
  server.answers.set(`tasks/${TASK}/output`, { task_id: TASK, status: 'RUNNING', html: '<b>1</b>' });
  board.tell(FOREIGN);
  await settle(1000);

  expect(notebook.drawn.get(CELL)).toBe('<b>1</b>');
});

test('behind a cut everything is looked at again', async () => {
  serve(DONE);
  board.renewed.emit();
  await settle(500);
  await settle(50);

  expect(notebook.cells.get(CELL)).toEqual([end()]);
});

test('a server that does not answer changes nothing', async () => {
  server.status = 0;
  await turns.refresh();
  await settle(1000);

  expect(notebook.writes).toEqual([]);
});

test('where another page leads, the end is shown and nothing is to be saved', async () => {
  lead.isHeld = false;
  serve(DONE);
  await turns.refresh();
  await settle();

  expect(notebook.cells.get(CELL)).toEqual([end()]);
  expect([notebook.isDirty, notebook.noted]).toEqual([false, '']);
});

test.each([
  ['has saved it, its file is taken up', [end()], { reverted: true, isDirty: false }],
  ['went before it saved, this one has it to save', [], { reverted: false, isDirty: true }]
])('where the page that led %s', async (_, onDisk, expected) => {
  lead.isHeld = false;
  serve(DONE);
  await turns.refresh();
  await settle();
  notebook.onDisk = onDisk;
  lead.isHeld = true;
  lead.inherited.emit();
  await settle();

  expect(notebook).toMatchObject(expected);
});

test('a closed notebook asks for nothing more', async () => {
  serve(RUNNING, end('Working'), '<b>1</b>');
  await turns.refresh();
  await settle();
  turns.dispose();
  server.asked.length = 0;
  board.tell(DONE);
  await settle(10_000);

  expect(server.asked).toEqual([]);
});

test('the turn that can be stopped is one of this notebook', async () => {
  expect(turns.openTask).toBeUndefined();
  serve(RUNNING);
  await turns.refresh();
  board.tell(RUNNING);
  board.tell(aTask({ task_id: '01M800000000000000000000ZZ', session_id: 'sess_another' }));

  expect(turns.openTask?.taskId).toBe(TASK);
});

const HANDED = aTask({ task_id: '01M80000000000000000000000', mode: 'GRAPH', parent_id: TASK, cell_id: '' });
const NEWER = aTask({ task_id: '01M800000000000000000000ZZ' });

/** A turn of the notebook goes on, and has handed work over to a skill. */
async function handOver(): Promise<ITopRun> {
  serve(RUNNING);
  await turns.refresh();
  board.tell(RUNNING);
  board.delegated = [rowOf(HANDED)];
  return turns.openRuns[0]!;
}

test('a run that a turn has handed over to is in the cell of the turn, also where its id is smaller', async () => {
  const { row, turn } = await handOver();
  expect([row.taskId, turn.taskId, turn.cellId]).toEqual([HANDED.task_id, TASK, CELL]);
  expect(HANDED.task_id < TASK).toBe(true);

  board.delegated = [rowOf(aTask({ ...HANDED, status: 'SUCCEEDED' }))];
  expect(turns.openRuns).toEqual([]);
});

test('what a turn of another notebook, or of no cell, has handed over is in no cell of this one', async () => {
  await handOver();
  board.rows = [rowOf(aTask({ session_id: 'sess_another' }))];
  expect(turns.openRuns).toEqual([]);

  board.rows = [rowOf(aTask({ cell_id: '' }))];
  expect(turns.openRuns).toEqual([]);
});

test('the end of the turn in its cell does not take away what it has handed over', async () => {
  const run = await handOver();
  notebook.cells.set(CELL, [end()]);
  expect(turns.isOver(run)).toBe(false);

  const own = rowOf(RUNNING);
  expect(turns.isOver({ row: own, turn: own })).toBe(true);
});

test.each([
  ['in this page', () => turns.cellStarted(CELL)],
  ['in another one', () => board.tell(NEWER)]
])('a cell that is run again %s has nothing more of what it had handed over', async (_, again) => {
  const run = await handOver();
  again();

  expect(turns.openRuns).toEqual([]);
  expect(turns.isOver(run)).toBe(true);
});
