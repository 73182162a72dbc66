import type { RecordedEvent } from '../api/frames';
import { fold, isOpen, mayHaveEffect, mergeTask, microseconds, rowOf, type TaskRow } from '../model/fold';
import { aTask, anEvent, at } from './rig';

const folded = (...events: RecordedEvent[]): TaskRow => events.reduce<TaskRow | undefined>(fold, undefined)!;

const BEGINNING = [
  anEvent(
    'message.received',
    1,
    { text: 'hello', origin: { channel: 'notebook', cell_id: 'cell-7' } as never },
    { ts: at(0) }
  ),
  anEvent('task.created', 2, { title: 'hello', channel: 'notebook', model: '' }, { ts: at(0) }),
  anEvent('task.queued', 3, { reason: 'created' }, { ts: at(0) })
];

test('a task begins with its message, although all of it was recorded at one moment', () => {
  expect(folded(...BEGINNING)).toMatchObject({ title: 'hello', cellId: 'cell-7', status: 'QUEUED', position: 3 });
});

test.each([
  ['task.started', {}, 'RUNNING', ''],
  ['task.waiting_input', { question: 'Which one?' }, 'WAITING_INPUT', 'Which one?'],
  ['prompt.requested', { kind: 'server', question: 'Who travels?' }, 'WAITING_INPUT', 'Who travels?'],
  ['task.waiting_approval', {}, 'WAITING_APPROVAL', ''],
  ['task.paused', { reason: 'by you' }, 'PAUSED', 'by you'],
  ['task.succeeded', {}, 'SUCCEEDED', ''],
  ['task.failed', { message: 'The key was refused.' }, 'FAILED', 'The key was refused.'],
  ['task.cancelled', { reason: 'enough' }, 'CANCELLED', 'enough']
] as const)('%s makes it %s', (name, payload, status, reason) => {
  expect(folded(...BEGINNING, anEvent(name, 4, payload))).toMatchObject({ status, reason });
});

test('a task waits while a server asks, and goes on with the answer', () => {
  const asked = [
    anEvent('task.started', 4),
    anEvent('prompt.requested', 5, { kind: 'server', question: 'Who travels?' })
  ];
  expect(folded(...BEGINNING, ...asked, anEvent('prompt.answered', 6))).toMatchObject({
    status: 'RUNNING',
    reason: ''
  });
});

test('what ends has an end, no running call, and figures that only the server knows', () => {
  const row = folded(
    ...BEGINNING,
    anEvent('task.started', 4),
    anEvent('tool.call.requested', 5, { call_id: 'a', name: 'calculator' }),
    anEvent('task.cancelled', 6, { reason: '' })
  );

  expect(row).toMatchObject({ finishedAt: Date.parse(at(6)), calls: [], stale: true });
  expect(isOpen(row)).toBe(false);
});

test('what was asked to stop says so until it has', () => {
  const row = folded(...BEGINNING, anEvent('task.started', 4), anEvent('task.stopping', 5));
  expect(row).toMatchObject({ status: 'RUNNING', isStopping: true });
  expect(mergeTask(row, aTask({ updated_at: at(4), stopping: false })).isStopping).toBe(true); // it answered before that
  expect(mergeTask(row, aTask({ updated_at: at(5), stopping: true })).isStopping).toBe(true);
  expect(mergeTask(undefined, aTask({ stopping: true })).isStopping).toBe(true); // a page that was loaded meanwhile
  expect(fold(row, anEvent('task.cancelled', 6, { reason: '' }))).toMatchObject({ isStopping: false });
});

test('what is to pause says so until it does, is let go on, or the wish is taken back', () => {
  const row = folded(...BEGINNING, anEvent('task.started', 4), anEvent('task.pausing', 5, { wanted: true }));
  expect(row).toMatchObject({ status: 'RUNNING', isPausing: true });
  expect(mergeTask(row, aTask({ updated_at: at(4), pausing: false })).isPausing).toBe(true); // it answered before that
  expect(mergeTask(row, aTask({ updated_at: at(5), pausing: true })).isPausing).toBe(true);
  expect(mergeTask(row, aTask({ updated_at: at(6), status: 'PAUSED' })).isPausing).toBe(false);
  expect(mergeTask(undefined, aTask({ pausing: true })).isPausing).toBe(true); // a page that was loaded meanwhile
  expect(fold(row, anEvent('task.pausing', 6, { wanted: false }))).toMatchObject({ isPausing: false });
  expect(fold(row, anEvent('task.paused', 6, { reason: 'by you' }))).toMatchObject({
    status: 'PAUSED',
    isPausing: false
  });
});

test('an end of which nobody knows what it did is told from a failure', () => {
  const row = folded(
    ...BEGINNING,
    anEvent('tool.call.requested', 4, { call_id: 'a', name: 'send_message' }),
    anEvent('tool.call.uncertain', 5, { call_id: 'a' }),
    anEvent('task.failed', 6, { code: 'tool.uncertain', message: 'It may have been sent.' })
  );
  const error = { kind: 'tool' as const, code: 'tool.uncertain', message: 'It may have been sent.', hint: '' };

  expect(row).toMatchObject({ status: 'FAILED', isUncertain: true, calls: [] });
  expect(rowOf(aTask({ status: 'FAILED', error }))).toMatchObject({ isUncertain: true });
  expect(fold(row, anEvent('task.started', 7))).toMatchObject({ isUncertain: false });
});

test('what a step of a run calls is in its graph, and not among the calls of the task', () => {
  const row = folded(
    ...BEGINNING,
    anEvent('tool.call.requested', 4, { call_id: 'a', name: 'calculator', step_id: 'sum' }),
    anEvent('tool.call.started', 5, { call_id: 'a' })
  );

  expect(row).toMatchObject({ calls: [] });
});

test('a retry opens it again', () => {
  const row = folded(...BEGINNING, anEvent('task.failed', 4, { message: 'no' }), anEvent('task.retried', 5));

  expect(row).toMatchObject({ status: 'QUEUED', reason: '', finishedAt: null });
});

test('an event that is in the row already changes nothing', () => {
  const row = folded(...BEGINNING, anEvent('task.started', 4));

  expect(fold(row, anEvent('task.queued', 3))).toBe(row);
});

test('an event that REST knew of already does not put a row back', () => {
  const row = rowOf(aTask({ status: 'SUCCEEDED', updated_at: at(9), finished_at: at(9) }));

  expect(fold(row, anEvent('task.started', 4))).toMatchObject({ status: 'SUCCEEDED', stale: true });
});

test('of an old task that is not known, only the server knows the beginning', () => {
  expect(fold(undefined, anEvent('task.retried', 900))).toBeUndefined();
});

test('a late answer of REST gives figures, and takes no state back', () => {
  const row = folded(...BEGINNING, anEvent('task.started', 4), anEvent('task.succeeded', 5));
  const late = mergeTask(row, aTask({ status: 'RUNNING', updated_at: at(4), cost: 5 }));
  const newest = mergeTask(row, aTask({ status: 'SUCCEEDED', updated_at: at(5), finished_at: at(5), cost: 7 }));

  expect(late).toMatchObject({ status: 'SUCCEEDED', cost: 5 });
  expect(newest).toMatchObject({ status: 'SUCCEEDED', cost: 7, position: 5, stale: false });
});

test('only a call that was begun, and may do more than read, is asked about before a stop', () => {
  const called = [...BEGINNING, anEvent('tool.call.requested', 4, { call_id: 'a', name: 'send_message' })];
  const reads = anEvent('tool.call.decided', 5, { call_id: 'a', rule: 'default.read_only' });
  const asked = anEvent('tool.call.decided', 5, { call_id: 'a', rule: 'default.irreversible' });
  const started = anEvent('tool.call.started', 6, { call_id: 'a' });

  expect(mayHaveEffect(folded(...called, asked))).toBe(false);
  expect(mayHaveEffect(folded(...called, asked, started))).toBe(true);
  expect(mayHaveEffect(folded(...called, reads, started))).toBe(false);
  expect(mayHaveEffect(folded(...called, asked, started, anEvent('tool.call.completed', 7, { call_id: 'a' })))).toBe(
    false
  );
});

test('what is said of the moment is not kept for an event that comes later', () => {
  const row = fold(folded(...BEGINNING, anEvent('task.started', 4)), {
    canonical: 'task.progress',
    position: null,
    taskId: aTask().task_id,
    step: 'waiting for "main"',
    ahead: null
  })!;

  expect(row.step).toBe('waiting for "main"');
  expect(fold(row, anEvent('model.call.started', 5))!.step).toBe('');
  expect(fold(row, anEvent('model.call.started', 5, { purpose: 'check' }))!.step).toBe('waiting for "main"');
});

test('times are told apart to the microsecond', () => {
  expect(microseconds('2026-11-22T10:00:00.123456Z') - microseconds('2026-11-22T10:00:00.123455Z')).toBe(1);
  expect(microseconds('2026-11-22T10:00:00Z')).toBe(Date.parse('2026-11-22T10:00:00Z') * 1000);
  expect(microseconds('2026-11-22T10:00:00.5+00:00')).toBe(Date.parse('2026-11-22T10:00:00.500Z') * 1000);
});
