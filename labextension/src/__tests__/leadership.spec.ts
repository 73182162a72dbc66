import { Leadership } from '../model/leadership';

/** The browser's locks, as several pages share them: one holder, the others wait in order, and it may be stolen. */
class FakeLocks {
  private holder: { abandon: () => void } | null = null;
  private readonly queue: (() => void)[] = [];

  request(_name: string, options: LockOptions, callback: LockGrantedCallback<unknown>): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const grant = (): void => {
        const own = { abandon: () => reject(new DOMException('stolen', 'AbortError')) };
        this.holder = own;
        void Promise.resolve(callback(null)).then(value => {
          if (this.holder === own) {
            this.holder = null;
            this.queue.shift()?.();
          }
          resolve(value);
        });
      };
      options.signal?.addEventListener('abort', () => {
        const at = this.queue.indexOf(grant);
        if (at >= 0) {
          this.queue.splice(at, 1);
          reject(new DOMException('aborted', 'AbortError'));
        }
      });
      if (options.steal) {
        this.holder?.abandon();
        grant();
      } else if (this.holder) {
        this.queue.push(grant);
      } else {
        grant();
      }
    });
  }
}

let locks: FakeLocks;
const page = (): Leadership => new Leadership('ozzie:plan.ipynb', locks as unknown as LockManager);
const settle = (): Promise<void> => new Promise(resolve => setTimeout(resolve, 0));

beforeEach(() => {
  locks = new FakeLocks();
});

test('of two pages the first leads, until it goes', async () => {
  const [first, second] = [page(), page()];
  let inherited = 0;
  second.inherited.connect(() => (inherited += 1));
  expect([first.isHeld, second.isHeld]).toEqual([true, false]);

  first.dispose();
  await settle();
  expect(second.isHeld).toBe(true);
  expect(inherited).toBe(1);
});

test('the page that runs a cell leads from then on, and inherits nothing by it', async () => {
  const [first, second] = [page(), page()];
  let inherited = 0;
  second.inherited.connect(() => (inherited += 1));
  second.take();
  await settle();
  expect([first.isHeld, second.isHeld]).toEqual([false, true]);
  expect(inherited).toBe(0);

  second.dispose();
  await settle();
  expect(first.isHeld).toBe(true);
});

test('it can go to and fro', async () => {
  const [first, second] = [page(), page()];
  for (const leader of [second, first, second, first]) {
    leader.take();
    await settle();
    expect([first.isHeld, second.isHeld]).toEqual([leader === first, leader === second]);
  }
});

test('where the browser has no locks, every page leads', () => {
  expect(new Leadership('ozzie:plan.ipynb', undefined).isHeld).toBe(true);
});
