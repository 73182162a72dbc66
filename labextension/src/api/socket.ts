/**
 * One WebSocket to the gateway: it follows the feed from a position on and reconnects by itself. It also carries
 * requests and reports about notebooks.
 */

import { type ISignal, Signal } from '@lumino/signaling';

import { type FeedEvent, FOLLOWED_TYPES, readMessage } from './frames';
import type { NotebookRequest } from './notebookFrames';
import type { FeedSubscribe, Request, Response } from './protocol.gen';

export type ConnectionState = 'connecting' | 'connected' | 'reconnecting' | 'closed';

const FIRST_WAIT_MS = 500;
const MAX_WAIT_MS = 15_000;
/** A connection silent for this long is probed: a cut network reports nothing. */
const QUIET_MS = 20_000;
const ANSWER_MS = 10_000;
/** A probe without effect: any answer shows that the gateway is there. */
const STILL_THERE: Pick<Request, 'method' | 'params'> = { method: 'feed.unsubscribe', params: { subscription: '0' } };

export interface IFeedSocketOptions {
  readonly url: string;
  readonly WebSocket: typeof WebSocket;
  /** Between 0 and 1; spreads pages that reconnect at once. */
  readonly random?: () => number;
}

/** Delivers events in order and once each, across reconnects. */
export class FeedSocket {
  constructor(private readonly options: IFeedSocketOptions) {}

  get state(): ConnectionState {
    return this._state;
  }

  get stateChanged(): ISignal<this, ConnectionState> {
    return this._stateChanged;
  }

  /** The events of one message. */
  get received(): ISignal<this, readonly FeedEvent[]> {
    return this._received;
  }

  /** A request about a notebook open in this page. */
  get notebookRequested(): ISignal<this, NotebookRequest> {
    return this._notebookRequested;
  }

  /** The server's log is another one, or ends earlier: all known state is void. */
  get outdated(): ISignal<this, void> {
    return this._outdated;
  }

  /** Something was erased: known state may still have it. */
  get erased(): ISignal<this, void> {
    return this._erased;
  }

  /** Follow the feed after `position`, instead of what was followed before. */
  follow(position: number): void {
    this._position = position;
    this._failures = 0;
    this.connect();
  }

  /** Reconnect now: the network is back, or the page is visible again. */
  retry(): void {
    if (this._state === 'reconnecting') {
      this._failures = 0;
      this.connect();
    }
  }

  /** Drop a connection that the browser knows to be dead. */
  cut(): void {
    if (this._state === 'connected' || this._state === 'connecting') {
      this.lost();
    }
  }

  close(): void {
    this.drop();
    this.become('closed');
  }

  /** Send a request and return the response; null if there is no connection or it is lost. */
  request(method: string, params: Record<string, unknown>): Promise<Response | null> {
    if (this._state !== 'connected') {
      return Promise.resolve(null);
    }
    this._requestCount += 1;
    const id = `page ${this._requestCount}`;
    return new Promise(resolve => {
      this._waiting.set(id, resolve);
      this.sendRequest(id, method, params);
    });
  }

  private connect(): void {
    this.drop();
    this.become(this._state === 'reconnecting' ? 'reconnecting' : 'connecting');
    const socket = new this.options.WebSocket(this.options.url);
    this._socket = socket;
    socket.onopen = () => {
      const params: FeedSubscribe = { from_position: this._position, types: FOLLOWED_TYPES };
      this.sendRequest('follow', 'feed.subscribe', { ...params });
    };
    socket.onmessage = message => this.take(message.data);
    socket.onclose = () => this.lost();
    this.expectAnswer();
  }

  private take(data: unknown): void {
    const events: FeedEvent[] = [];
    const requests: NotebookRequest[] = [];
    let isErased = false;
    for (const frame of readMessage(data)) {
      if (frame?.kind === 'event') {
        const { position } = frame.event;
        if (position === null || position > this._position) {
          this._position = position ?? this._position;
          events.push(frame.event);
        }
      } else if (frame?.kind === 'erased') {
        isErased ||= frame.position > this._position;
        this._position = Math.max(this._position, frame.position);
      } else if (frame?.kind === 'notebook') {
        requests.push(frame.request);
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
    if (isErased) {
      this._erased.emit();
    }
    requests.forEach(each => this._notebookRequested.emit(each));
  }

  private sendRequest(id: string, method: string, params: Request['params']): void {
    const request: Request & { type: 'req' } = { type: 'req', id, method, params: params ?? {} };
    this._socket?.send(JSON.stringify(request));
  }

  private lost(): void {
    this.drop();
    this.become('reconnecting');
    const wait = Math.min(FIRST_WAIT_MS * 2 ** this._failures, MAX_WAIT_MS);
    this._failures += 1;
    const random = (this.options.random ?? Math.random)();
    this._timer = setTimeout(() => this.connect(), wait * (0.5 + random / 2));
  }

  private expectSomething(): void {
    clearTimeout(this._timer);
    this._timer = setTimeout(() => {
      this.sendRequest('still there', STILL_THERE.method, STILL_THERE.params);
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
  private _requestCount = 0;
  private readonly _waiting = new Map<string, (answer: Response | null) => void>();
  private readonly _notebookRequested = new Signal<this, NotebookRequest>(this);
  private readonly _stateChanged = new Signal<this, ConnectionState>(this);
  private readonly _received = new Signal<this, readonly FeedEvent[]>(this);
  private readonly _outdated = new Signal<this, void>(this);
  private readonly _erased = new Signal<this, void>(this);
}
