import type { Step } from '../api/protocol.gen';
import { rowOf, type TaskRow, type TaskState } from '../model/fold';
import { ordered, readFilter } from '../model/order';
import { ago, duration, elapsed, mistakeText, money, progressLine, stepText } from '../model/wording';
import { aTask, AT, TRANS } from './rig';

const NOW = Date.parse(AT) + 8 * 60_000;

function row(status: TaskState, number = 0, given: Partial<TaskRow> = {}): TaskRow {
  return { ...rowOf(aTask({ status, task_id: `01M8000000000000000000000${number}` })), ...given };
}

test('what needs a person stands first, then what runs, what waits, what is paused, and the newest', () => {
  const rows = [
    row('SUCCEEDED', 9),
    row('FAILED', 8),
    row('PAUSED', 1),
    row('QUEUED', 3),
    row('CREATED', 4),
    row('RUNNING', 2),
    row('WAITING_INPUT', 0)
  ];

  expect(ordered(rows).map(({ status }) => status)).toEqual([
    'WAITING_INPUT',
    'RUNNING',
    'CREATED',
    'QUEUED',
    'PAUSED',
    'SUCCEEDED',
    'FAILED'
  ]);
});

test.each([
  ['', true],
  ['region SLIPPED', true],
  ['region rose', false],
  ['is:running', true],
  ['is:failed', false],
  ['is:open which', true],
  ['is:r', true],
  ['is:f', false],
  ['is:', true],
  ['is:nonsense', false],
  ['today', true],
  ['cost>0.01', true],
  ['cost>0.10', false],
  ['cost>', true],
  ['cost>0.', true],
  ['cost>5', false],
  ['cost<5', false],
  ['status:running', false],
  ['model:main', true],
  ['model:cheap', false]
])('the filter "%s" fits: %s', (typed, fits) => {
  expect(readFilter(typed, NOW).fits(row('RUNNING'))).toBe(fits);
});

test.each([
  ['region is:failed today cost>0.10 model:main', []],
  ['is: is:f cost> cost>1. model:', []],
  ['see https://example.org', []],
  [
    'is:runing',
    [
      '"is:runing" is not a state. States: is:open, is:running, is:queued, is:waiting, is:paused, is:done, is:failed, is:stopped.'
    ]
  ],
  ['cost<1', ['"cost<1" is not a cost. Write cost>0.10 for more than 10 cents.']],
  ['cost>1,5', ['"cost>1,5" is not a cost. Write cost>0.10 for more than 10 cents.']],
  ['plan state:failed', ['"state:failed" is searched for in titles. Filters are is:, model:, cost> and today.']]
])('what is wrong with the filter "%s" is said in words', (typed, said) => {
  expect(readFilter(typed, NOW).mistakes.map(mistake => mistakeText(mistake, TRANS))).toEqual(said);
});

test.each([
  [
    row('RUNNING', 0, { calls: [{ callId: 'a', name: 'calculator', onlyReads: true, started: true }] }),
    'Working · calculator · 8 min 0 s'
  ],
  [row('QUEUED', 0, { ahead: 2 }), 'Queued · behind 2 tasks · 8 min ago'],
  [row('SUCCEEDED', 0, { finishedAt: NOW - 180_000 }), 'Done · 3 min ago'],
  [
    row('FAILED', 0, { finishedAt: NOW, reason: 'The key was refused. Check it.' }),
    'Failed · The key was refused · just now'
  ],
  [row('CANCELLED', 0, { finishedAt: NOW }), 'Stopped · just now'],
  [row('RUNNING', 0, { isStopping: true }), 'Working · stopping · 8 min 0 s'],
  [row('RUNNING', 0, { isPausing: true }), 'Working · pausing · 8 min 0 s'],
  [row('PAUSED', 0, { reason: 'by you' }), 'Paused · by you · 8 min ago'],
  [row('FAILED', 0, { finishedAt: NOW, isUncertain: true }), 'Failed · outcome unknown · just now'],
  [row('WAITING_APPROVAL'), 'Waiting for you · 8 min ago']
])('the second line of a row is words', (given, line) => {
  expect(progressLine(given, NOW, TRANS)).toBe(line);
});

test.each([
  [0, '$0.00'],
  [21_000_000, '$0.021'],
  [1_140_000_000, '$1.14'],
  [null, '']
])('money', (cost, said) => {
  expect(money(cost)).toBe(said);
});

test.each([
  [18_000, '18 s'],
  [252_000, '4 min 12 s'],
  [7_500_000, '2 h 5 min']
])('a time that goes on', (milliseconds, said) => {
  expect(elapsed(milliseconds, TRANS)).toBe(said);
});

test.each([
  ['completed', '64 lines', null, '64 lines'],
  ['completed', '', null, ''],
  ['running', '', null, 'running'],
  ['uncertain', '', null, 'outcome unknown'],
  ['rejected', '', 'It is not one JSON value.', 'It is not one JSON value.'],
  ['denied', '', 'It is not allowed.', 'It is not allowed.']
] as const)('how a step went that is %s', (status, summary, message, said) => {
  const error = message === null ? null : { code: '', message, hint: '' };
  expect(stepText({ status, summary, error } as Step, TRANS)).toBe(said);
});

test("a second model's look is a step that says so", () => {
  const step = { status: 'completed', summary: '', error: null, purpose: 'check' };
  expect(stepText(step as Step, TRANS)).toBe('checked a call');
});

test.each([
  [400, '0.4 s'],
  [18_000, '18.0 s'],
  [59_940, '59.9 s'],
  [59_960, '1 min 0 s'],
  [252_000, '4 min 12 s']
])('how long a step takes', (milliseconds, said) => {
  expect(duration(milliseconds, TRANS)).toBe(said);
});

test.each([
  [-500, 'just now'],
  [8 * 60_000, '8 min ago'],
  [3 * 3_600_000, '3 h ago'],
  [24 * 3_600_000, '1 day ago'],
  [5 * 24 * 3_600_000, '5 days ago']
])('a time that is past', (milliseconds, said) => {
  expect(ago(milliseconds, TRANS)).toBe(said);
});
