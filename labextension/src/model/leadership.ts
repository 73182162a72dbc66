/**
 * Decides which of several pages on one notebook saves its changes (docs/adr/0013-lab-extension.md).
 *
 * All show the same end of a turn. If each saved it as its own change, Lab would ask in all but the first whether to
 * overwrite a changed file. So one page leads: the one that ran a cell last, else the one that was there first. The
 * browser's locks decide it; without them, every page leads.
 */

import { type ISignal, Signal } from '@lumino/signaling';

type Locks = Pick<LockManager, 'request'>;

export class Leadership {
  constructor(
    private readonly name: string,
    private readonly locks: Locks | undefined = globalThis.navigator?.locks
  ) {
    this.wait();
  }

  get isHeld(): boolean {
    return this.locks === undefined || this._release !== null;
  }

  /** Emitted when this page leads because the former leader has gone. */
  get inherited(): ISignal<this, void> {
    return this._inherited;
  }

  /** Become the leader, even if another page is. */
  take(): void {
    if (!this.isHeld) {
      this._waiting?.abort();
      this._waiting = null;
      this.requestLock({ steal: true });
    }
  }

  dispose(): void {
    this._isDisposed = true;
    this._waiting?.abort();
    this._release?.();
  }

  private wait(): void {
    this._waiting = new AbortController();
    this.requestLock({ signal: this._waiting.signal });
  }

  private requestLock(options: LockOptions): void {
    const request = this.locks?.request(this.name, options, () => {
      const held = new Promise<void>(resolve => (this._release = resolve));
      if (!options.steal) {
        this._inherited.emit();
      }
      return held;
    });
    request?.catch(() => {
      // Another page took the lock, or this one stopped waiting.
      if (!options.signal?.aborted && !this._isDisposed) {
        this._release = null;
        this.wait();
      }
    });
  }

  private _release: (() => void) | null = null;
  private _waiting: AbortController | null = null;
  private _isDisposed = false;
  private readonly _inherited = new Signal<this, void>(this);
}
