import { rowOf } from '../model/fold';
import { actOf } from '../model/taskActs';
import { pauseText } from '../model/wording';
import { aTask, TRANS } from './rig';

test.each([
  ['RUNNING', {}, 'pause'],
  ['QUEUED', {}, 'pause'],
  ['WAITING_APPROVAL', {}, 'pause'],
  ['RUNNING', { isPausing: true }, 'resume'],
  ['PAUSED', {}, 'resume'],
  ['RUNNING', { isStopping: true }, null],
  ['FAILED', {}, 'retry'],
  ['CANCELLED', {}, 'retry'],
  ['SUCCEEDED', {}, null],
  ['RUNNING', { parentId: 'a run' }, null],
  ['FAILED', { parentId: 'a run' }, null]
] as const)('what is %s (%j) may be asked to %s', (status, more, act) => {
  expect(actOf({ ...rowOf(aTask({ status })), ...more })).toBe(act);
});

test('what is held says by whom, also where a step of it waits for a person', () => {
  const held = { ...rowOf(aTask({ status: 'PAUSED' })), reason: 'by you' };
  const waiting = [rowOf(aTask({ status: 'WAITING_APPROVAL' }))];
  expect(pauseText(held, TRANS)).toBe('by you');
  expect(pauseText({ ...held, waiting }, TRANS)).toBe('paused by you');
  expect(pauseText({ ...held, status: 'RUNNING', isPausing: true }, TRANS)).toBe('pausing');
  expect(pauseText({ ...held, status: 'RUNNING' }, TRANS)).toBe('');
});
