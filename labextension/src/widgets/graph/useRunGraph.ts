/** Follows a graph while it is shown, as wide as its container. */

import * as React from 'react';

import type { OzzieApi } from '../../api/requests';
import type { TaskBoard } from '../../model/board';
import { RunGraph } from '../../model/runGraph';
import { useChanges } from '../useChanges';

const TICK_MS = 1_000;

export interface IFollowedGraph {
  readonly run: RunGraph;
  readonly width: number;
  /** For its container. */
  readonly ref: React.RefObject<HTMLDivElement>;
}

export function useRunGraph(
  runId: string,
  api: Pick<OzzieApi, 'graph'>,
  board: Pick<TaskBoard, 'taskChanged' | 'renewed' | 'isPartOf'>
): IFollowedGraph {
  const run = React.useMemo(() => new RunGraph(runId, api, board), [runId, api, board]);
  const ref = React.useRef<HTMLDivElement>(null);
  const [width, setWidth] = React.useState(0);
  useChanges(run.changed);
  React.useEffect(() => () => run.dispose(), [run]);
  React.useLayoutEffect(() => {
    const node = ref.current;
    if (!node) {
      return undefined;
    }
    const measure = (): void => {
      setWidth(node.clientWidth);
      run.setWidth(node.clientWidth);
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(node);
    return () => observer.disconnect();
  }, [run]);
  return { run, width, ref };
}

/** Return the time, updated each second while something runs. */
export function useNow(isRunning: boolean): number {
  const [now, setNow] = React.useState(() => Date.now());
  React.useEffect(() => {
    setNow(Date.now());
    if (!isRunning) {
      return undefined;
    }
    const timer = setInterval(() => {
      if (!document.hidden) {
        setNow(Date.now());
      }
    }, TICK_MS);
    return () => clearInterval(timer);
  }, [isRunning]);
  return now;
}
