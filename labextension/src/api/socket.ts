/**
 * One WebSocket to the gateway: it follows the feed from a position on, and comes back by itself when it is cut. Over the
 * same one the gateway asks about notebooks, and is told of them.
 */

import { type ISignal, Signal } from '@lumino/signaling';

import { FOLLOWED_TYPES, type Followed, readMessage } from './frames';
import type { NotebookAsked } from './notebookFrames';
import type { FeedSubscribe, Request, Response } from './protocol.gen';

export type ConnectionState = 'connecting' | 'connected' | 'reconnecting' | 'closed';

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 15_000;
/** A connection over which nothing came for so long is asked whether it stands: a network that is cut says nothing. */
const QUIET_MS = 20_000;
const ANSWER_MS = 10_000;
/** Its answer is empty whatever is true; it only shows that somebody answers. */
const STILL_THERE: Pick<Request, 'method' | 'params'> = { method: 'feed.unsubscribe', params: { subscription: '0' } };

export interface IFeedSocketOptions {
  readonly url: string;
  readonly WebSocket: typeof WebSocket;
  /** Between 0 and 1; spreads the pages that come back at once. */
  readonly random?: () => number;
}

/** Events arrive in their order, each once, whatever happens to the connection in between. */
export class FeedSocket {
  constructor(private readonly options: IFeedSocketOptions) {}

  get state(): ConnectionState {
    return this._state;
  }

  get stateChanged(): ISignal<this, ConnectionState> {
    return this._stateChanged;
  }

  /** What came in one message. */
  get received(): ISignal<this, readonly Followed[]> {
    return this._received;
  }

  /** The gateway asks something of a notebook that is open in this page. */
  get asked(): ISignal<this, NotebookAsked> {
    return this._asked;
  }

  /** The log behind the server is another one, or ends earlier: what is known here counts no more. */
  get outdated(): ISignal<this, void> {
    return this._outdated;
  }

  /** Follow what happens after `position`. Ends what was followed before. */
  follow(position: number): void {
    this._position = position;
    this._failures = 0;
    this.connect();
  }

  /** Try again now: the network is back, or somebody looks at the page again. */
  retry(): void {
    if (this._state === 'reconnecting') {
      this._failures = 0;
      this.connect();
    }
  }

  /** Let go of a connection of which the browser knows that it can't work. */
  cut(): void {
    if (this._state === 'connected' || this._state === 'connecting') {
      this.lost();
    }
  }

  close(): void {
    this.drop();
    this.become('closed');
  }

  /** What the gateway answers; null where there is no connection, or none any more. */
  request(method: string, params: Record<string, unknown>): Promise<Response | null> {
    if (this._state !== 'connected') {
      return Promise.resolve(null);
    }
    this._asks += 1;
    const id = `page ${this._asks}`;
    return new Promise(resolve => {
      this._waiting.set(id, resolve);
      this.ask(id, method, params);
    });
  }

  private connect(): void {
    this.drop();
    this.become(this._state === 'reconnecting' ? 'reconnecting' : 'connecting');
    const socket = new this.options.WebSocket(this.options.url);
    this._socket = socket;
    socket.onopen = () => {
      const params: FeedSubscribe = { from_position: this._position, types: FOLLOWED_TYPES };
      this.ask('follow', 'feed.subscribe', { ...params });
    };
    socket.onmessage = message => this.take(message.data);
    socket.onclose = () => this.lost();
    this.expectAnswer();
  }

  private take(data: unknown): void {
    const events: Followed[] = [];
    const asked: NotebookAsked[] = [];
    for (const frame of readMessage(data)) {
      if (frame?.kind === 'event') {
        const { position } = frame.event;
        if (position === null || position > this._position) {
          this._position = position ?? this._position;
          events.push(frame.event);
        }
      } else if (frame?.kind === 'asked') {
        asked.push(frame.asked);
      } else if (frame?.kind === 'response' && frame.id === 'follow') {
        if (frame.ok) {
          this._failures = 0;
          this.become('connected');
        } else {
          this.close();
          this._outdated.emit();
          return;
        }
      } else if (frame?.kind === 'response') {
        this._waiting.get(frame.id)?.(frame);
        this._waiting.delete(frame.id);
      }
    }
    this.expectSomething();
    if (events.length) {
      this._received.emit(events);
    }
    asked.forEach(each => this._asked.emit(each));
  }

  private ask(id: string, method: string, params: Request['params']): void {
    const request: Request & { type: 'req' } = { type: 'req', id, method, params: params ?? {} };
    this._socket?.send(JSON.stringify(request));
  }

  private lost(): void {
    this.drop();
    this.become('reconnecting');
    const wait = Math.min(FIRST_WAIT_MS * 2 ** this._failures, LONGEST_WAIT_MS);
    this._failures += 1;
    const random = (this.options.random ?? Math.random)();
    this._timer = setTimeout(() => this.connect(), wait * (0.5 + random / 2));
  }

  private expectSomething(): void {
    clearTimeout(this._timer);
    this._timer = setTimeout(() => {
      this.ask('still there', STILL_THERE.method, STILL_THERE.params);
      this.expectAnswer();
    }, QUIET_MS);
  }

  private expectAnswer(): void {
    clearTimeout(this._timer);
    this._timer = setTimeout(() => this.lost(), ANSWER_MS);
  }

  private drop(): void {
    clearTimeout(this._timer);
    const socket = this._socket;
    this._socket = null;
    if (socket) {
      socket.onopen = socket.onmessage = socket.onclose = null;
      socket.close();
    }
    const waiting = [...this._waiting.values()];
    this._waiting.clear();
    waiting.forEach(answer => answer(null));
  }

  private become(state: ConnectionState): void {
    if (state !== this._state) {
      this._state = state;
      this._stateChanged.emit(state);
    }
  }

  private _state: ConnectionState = 'closed';
  private _position = 0;
  private _failures = 0;
  private _socket: WebSocket | null = null;
  private _timer: ReturnType<typeof setTimeout> | undefined;
  private _asks = 0;
  private readonly _waiting = new Map<string, (answer: Response | null) => void>();
  private readonly _asked = new Signal<this, NotebookAsked>(this);
  private readonly _stateChanged = new Signal<this, ConnectionState>(this);
  private readonly _received = new Signal<this, readonly Followed[]>(this);
  private readonly _outdated = new Signal<this, void>(this);
}
