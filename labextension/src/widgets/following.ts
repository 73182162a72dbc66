/** A widget that is drawn anew when what it shows has changed. */

import type { ISignal } from '@lumino/signaling';
import * as React from 'react';

/** Draw again at each of the signals. */
export function useChanges(...signals: readonly ISignal<unknown, unknown>[]): void {
  const [, draw] = React.useReducer((count: number) => count + 1, 0);
  React.useEffect(() => {
    signals.forEach(signal => signal.connect(draw));
    return () => signals.forEach(signal => signal.disconnect(draw));
    // The signals of a model are as old as the model: the list is new at each drawing, what is in it is not.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, signals);
}
