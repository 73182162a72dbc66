import { oneAtATime } from '../model/oneAtATime';

let begun: number;
let ends: ((error?: Error) => void)[];
let work: () => Promise<void>;

beforeEach(() => {
  begun = 0;
  ends = [];
  work = oneAtATime(() => {
    begun += 1;
    return new Promise((resolve, reject) => ends.push(error => (error ? reject(error) : resolve())));
  });
});

async function settle(): Promise<void> {
  for (let round = 0; round < 10; round += 1) {
    await Promise.resolve();
  }
}

test('it begins at once, and again when it has ended', async () => {
  const first = work();
  expect(begun).toBe(1);
  ends[0]!();
  await first;
  await settle();

  void work();
  expect(begun).toBe(2);
});

test('whoever asks meanwhile waits for one more, and no more than one waits', async () => {
  void work();
  const waiting = [work(), work(), work()];
  await settle();
  expect(begun).toBe(1);

  ends[0]!();
  await settle();
  expect(begun).toBe(2);
  void work();
  ends[1]!();
  await Promise.all(waiting);
  await settle();
  expect(begun).toBe(3);
});

test('what fails fails for those who asked for it, and the next is done', async () => {
  const first = work();
  const second = work();
  ends[0]!(new Error('Cancelled.'));
  await expect(first).rejects.toThrow('Cancelled.');
  await settle();
  ends[1]!();
  await second;

  expect(begun).toBe(2);
});
