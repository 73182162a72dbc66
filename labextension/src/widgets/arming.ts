/** Buttons that do nothing for a moment after they came, or moved, under the pointer (UX 2.4, "Arming"). */

import * as React from 'react';

const ARMING_MS = 500;
const LOOK_MS = 100;

export interface IArming<T extends HTMLElement> {
  /** Of what must have stood still. */
  readonly ref: React.RefObject<T>;
  /** As far as can be told between two looks. */
  readonly isArmed: boolean;
  /** Whether it has stood still until this very moment. */
  readonly mayAct: () => boolean;
}

/**
 * Nobody answers what came under the pointer by itself, nor what something above it pushed there. `isWanted`: there are
 * buttons at all.
 */
export function useArming<T extends HTMLElement>(isWanted = true): IArming<T> {
  const ref = React.useRef<T>(null);
  const stands = React.useRef({ at: NaN, since: 0 });
  const [isArmed, setArmed] = React.useState(false);
  const mayAct = React.useCallback((): boolean => {
    const [at, now] = [placeOf(ref.current), performance.now()];
    if (Math.abs(at - stands.current.at) < 1) {
      return now - stands.current.since >= ARMING_MS;
    }
    stands.current = { at, since: now };
    return false;
  }, []);
  React.useEffect(() => {
    if (!isWanted) {
      return undefined;
    }
    const look = (): void => setArmed(mayAct());
    look();
    const timer = setInterval(look, LOOK_MS);
    return () => clearInterval(timer);
  }, [isWanted, mayAct]);
  return { ref, isArmed, mayAct };
}

/**
 * How far down it stands in what scrolls: scrolling is a person's own doing, and moves nothing. What is not drawn, as in a
 * sidebar that is closed, stands nowhere.
 */
function placeOf(node: HTMLElement | null): number {
  let place = node?.getClientRects().length ? node.getBoundingClientRect().top : NaN;
  for (let above = node?.parentElement; above; above = above.parentElement) {
    place += above.scrollTop;
  }
  return place;
}
