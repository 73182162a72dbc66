/** Work that must not overlap. */

/**
 * Return `work` so that its runs never overlap: the next begins when the last has ended, even if it failed. Calls while
 * a run waits share it, as it has yet to look at the state.
 */
export function oneAtATime(work: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> | null = null;
  let waiting: Promise<void> | null = null;
  const begin = (): Promise<void> => {
    waiting = null;
    running = work().finally(() => {
      running = null;
    });
    return running;
  };
  return () => {
    if (running === null && waiting === null) {
      return begin();
    }
    waiting ??= (running ?? Promise.resolve()).then(begin, begin);
    return waiting;
  };
}
