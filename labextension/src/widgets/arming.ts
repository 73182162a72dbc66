/** Buttons that ignore clicks for a moment after they appeared, moved, or got another meaning, under the pointer. */

import * as React from 'react';

const ARMING_MS = 500;
const LOOK_MS = 100;

export interface IArming<T extends HTMLElement> {
  /** For the element that must not have moved. */
  readonly ref: React.RefObject<T>;
  /** As of the last check. */
  readonly isArmed: boolean;
  /** Whether it has not moved until this very moment. */
  readonly mayAct: () => boolean;
}

/**
 * Guard against answering something that just appeared under the pointer, or was pushed there. `isWanted`: whether
 * there are buttons; `what`: names what they answer.
 */
export function useArming<T extends HTMLElement>(isWanted = true, what = ''): IArming<T> {
  const ref = React.useRef<T>(null);
  const stands = React.useRef({ at: NaN, what, since: 0 });
  const [isArmed, setArmed] = React.useState(false);
  const mayAct = React.useCallback((): boolean => {
    const [at, now] = [placeOf(ref.current), performance.now()];
    if (Math.abs(at - stands.current.at) < 1 && what === stands.current.what) {
      return now - stands.current.since >= ARMING_MS;
    }
    stands.current = { at, what, since: now };
    return false;
  }, [what]);
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
 * Return its offset in the scrolled content, as a person's own scrolling moves nothing. If it is not drawn, as in a
 * closed sidebar: NaN.
 */
function placeOf(node: HTMLElement | null): number {
  let place = node?.getClientRects().length ? node.getBoundingClientRect().top : NaN;
  for (let above = node?.parentElement; above; above = above.parentElement) {
    place += above.scrollTop;
  }
  return place;
}
