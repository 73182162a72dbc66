/** Redraws a widget when its model changes. */

import type { ISignal } from '@lumino/signaling';
import * as React from 'react';

/** Redraw at each signal. */
export function useChanges(...signals: readonly ISignal<unknown, unknown>[]): void {
  const [, draw] = React.useReducer((count: number) => count + 1, 0);
  React.useEffect(() => {
    signals.forEach(signal => signal.connect(draw));
    return () => signals.forEach(signal => signal.disconnect(draw));
    // The list is new at each drawing, but the signals in it live as long as their model.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, signals);
}
