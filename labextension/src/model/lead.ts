/**
 * Which of several pages on one notebook has its changes to save (docs/adr/0013-lab-extension.md).
 *
 * All show the same end of a turn. If each took it for a change of its own, each would save, and Lab would ask in every
 * one but the first whether to overwrite a file that has changed. So one page leads: the one that ran a cell last, else
 * the one that was there first. The browser's own locks say which; where there are none, every page leads.
 */

import { type ISignal, Signal } from '@lumino/signaling';

type Locks = Pick<LockManager, 'request'>;

export class Lead {
  constructor(
    private readonly name: string,
    private readonly locks: Locks | undefined = globalThis.navigator?.locks
  ) {
    this.wait();
  }

  get isHeld(): boolean {
    return this.locks === undefined || this._release !== null;
  }

  /** This page leads from now on, as no other does any more. */
  get inherited(): ISignal<this, void> {
    return this._inherited;
  }

  /** Lead from now on, whoever did before. */
  take(): void {
    if (!this.isHeld) {
      this._waiting?.abort();
      this._waiting = null;
      this.request({ steal: true });
    }
  }

  dispose(): void {
    this._isDisposed = true;
    this._waiting?.abort();
    this._release?.();
  }

  private wait(): void {
    this._waiting = new AbortController();
    this.request({ signal: this._waiting.signal });
  }

  private request(options: LockOptions): void {
    const asked = this.locks?.request(this.name, options, () => {
      const held = new Promise<void>(resolve => (this._release = resolve));
      if (!options.steal) {
        this._inherited.emit();
      }
      return held;
    });
    asked?.catch(() => {
      // Another page took it, or this one stopped waiting.
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
