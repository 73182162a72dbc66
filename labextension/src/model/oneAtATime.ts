/** Work that may not be done twice at once. */

/**
 * The same work, of which the next begins when the last has ended, whatever became of it. Who asks for it while one waits
 * already gets that one: it has yet to look at how things are.
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
