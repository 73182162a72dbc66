/** What the tests of the page's model need: a WebSocket of their own, a server's answers, tasks and events. */

import type { Approval } from '../api/approval';
import type { RecordedEvent } from '../api/frames';
import type { Health, Task } from '../api/protocol.gen';
import { OzzieApi } from '../api/requests';

// jsdom lays nothing out: whatever there is counts as drawn.
Element.prototype.getClientRects = () => [{}] as unknown as DOMRectList;

export class FakeSocket {
  static made: FakeSocket[] = [];

  static get last(): FakeSocket {
    return FakeSocket.made.at(-1)!;
  }

  constructor(readonly url: string) {
    FakeSocket.made.push(this);
  }

  onopen: (() => void) | null = null;
  onmessage: ((message: { data: string }) => void) | null = null;
  onclose: (() => void) | null = null;
  readonly sent: { id: string; method: string; params: Record<string, unknown> }[] = [];
  closed = false;

  send(text: string): void {
    this.sent.push(JSON.parse(text) as FakeSocket['sent'][number]);
  }

  close(): void {
    this.closed = true;
  }

  /** The gateway takes the connection, and what it is asked to follow. */
  accept(): void {
    this.onopen?.();
    this.say({ type: 'res', id: 'follow', ok: true, payload: { subscription: '1', position: 0 } });
  }

  say(...frames: object[]): void {
    this.onmessage?.({ data: JSON.stringify(frames.length === 1 ? frames[0] : frames) });
  }
}

export const FakeWebSocket = FakeSocket as unknown as typeof WebSocket;

export const AT = '2026-11-22T10:00:00.000000Z';

export function at(seconds: number): string {
  return new Date(Date.parse(AT) + seconds * 1000).toISOString().replace('Z', '000Z');
}

export function aTask(given: Partial<Task> = {}): Task {
  return {
    task_id: '01M800000000000000000000AA',
    session_id: 'sess_01M800000000000000000000AA',
    status: 'RUNNING',
    title: 'Which region slipped most?',
    mode: 'FREE',
    attempt: 1,
    reason: '',
    stopping: false,
    pausing: false,
    created_at: AT,
    updated_at: AT,
    finished_at: null,
    thread_id: 'sess_01M800000000000000000000AA',
    scope_id: 'chat:notebook:sess_01M800000000000000000000AA',
    requester: { channel: 'notebook', sender_id: 'ana' },
    channel: 'notebook',
    sender_id: 'ana',
    assigned_worker: '',
    budget: { max_cost_usd: null, max_tokens: null, max_rounds: 25, deadline_s: null },
    pointers: { latest_event_id: '01M800000000000000000000EV', latest_checkpoint_id: null },
    cell_id: 'cell-1',
    risk_level: 'low',
    model: 'main',
    rounds: 1,
    tool_calls: 0,
    token_usage: { input: 100, output: 20 },
    cost: 21_000_000,
    error: null,
    parent_id: null,
    run_id: given.task_id ?? '01M800000000000000000000AA',
    step: '',
    waiting: [],
    ...given
  };
}

export function anApproval(given: Partial<Approval> = {}): Approval {
  return {
    approval_id: '01M800000000000000000000AP',
    call_id: '01M800000000000000000000CA',
    session_id: 'sess_01M800000000000000000000AA',
    task_id: '01M800000000000000000000AA',
    status: 'pending',
    why: '',
    sentence: 'Change 2 lines of `notes/a.md`?',
    reason: 'It changes something of yours.',
    rule: 'default.changes',
    place: '',
    proof: '@@ -1,2 +1,2 @@\n same\n-old\n+new',
    shown: 'diff',
    whole: null,
    tool_id: 'files.edit',
    name: 'edit_file',
    side_effect: 'reversible',
    risk_level: 'low',
    undo: 'The old version is kept among the artifacts.',
    needs: 'relay',
    binds: 'ab'.repeat(32),
    key: '01M800000000000000000000AA-1-0',
    session_cover: '`edit_file` in `notes/`',
    requested_at: AT,
    expires_at: at(3600),
    answered_at: null,
    extent: '',
    by: '',
    way: '',
    comment: '',
    in_force_until: null,
    notebook: 'notes.ipynb',
    run_id: '',
    step: '',
    checked: '',
    made_from: '',
    arguments: '{\n  "path": "notes/a.md"\n}',
    card: '',
    targets: [],
    known_from: '',
    standing: '',
    ...given
  };
}

/** The event by which an approval is asked for. */
export function asking(position: number, given: Partial<Approval> = {}): RecordedEvent {
  const { approval_id, call_id, tool_id, name, sentence, proof, shown, whole, ...more } = anApproval(given);
  const { reason, rule, place, side_effect, risk_level, undo, binds, needs, session_cover, key, expires_at } = more;
  const { checked, made_from, known_from, standing, card, targets, arguments: args } = more;
  const cover =
    session_cover === null
      ? null
      : {
          tool_id,
          version: '1',
          project: '/home/ana',
          rule,
          below: [],
          on: [],
          hosts: [],
          labels: [],
          arguments: '',
          said: session_cover
        };
  const request = { approval_id, call_id, tool_id, name, sentence, proof, shown, whole, reason, rule, place };
  const about = {
    side_effect,
    risk_level,
    undo,
    binds,
    needs,
    cover,
    key,
    expires_at,
    checked,
    made_from,
    known_from,
    standing,
    card,
    targets,
    arguments: args
  };
  const payload = { ...request, ...about };
  return anEvent('approval.requested', position, payload, { taskId: more.task_id, sessionId: more.session_id });
}

export function anEvent<Name extends RecordedEvent['canonical']>(
  canonical: Name,
  position: number,
  payload: Partial<Extract<RecordedEvent, { canonical: Name }>['payload']> = {},
  given: Partial<RecordedEvent> = {}
): RecordedEvent {
  return {
    canonical,
    payload,
    position,
    taskId: aTask().task_id,
    sessionId: aTask().session_id,
    ts: at(position),
    ...given
  } as unknown as RecordedEvent;
}

/** The frame in which an event comes. */
export function frame(event: RecordedEvent): object {
  const { canonical, payload, position, taskId, sessionId, ts } = event;
  return { type: 'event', event: canonical, canonical, payload, position, task_id: taskId, session_id: sessionId, ts };
}

export const HEALTH: Health = {
  status: 'ok',
  version: '0.1.0',
  pid: 1,
  headless: false,
  home: '/home/ana/.ozzie',
  project: '/home/ana',
  position: 10,
  clients: 1,
  tasks_running: 0,
  model: 'offline',
  config_error: '',
  log_warning: '',
  ignored_config: [],
  uptime_s: 1
} as unknown as Health;

/** Of a query in a path. */
export function asked(path: string, name: string): string | null {
  return new URLSearchParams(path.split('?')[1]).get(name);
}

/** A page that can be put behind others. */
export class FakePage extends EventTarget {
  hidden = false;

  hide(hidden: boolean): void {
    this.hidden = hidden;
    this.dispatchEvent(new Event('visibilitychange'));
  }
}

/** What the server says no with. */
export class Refused {
  constructor(
    readonly status: number,
    readonly code: string,
    readonly message: string,
    readonly hint = ''
  ) {}
}

/** The status of a server that takes what it is sent and says nothing. */
export const SILENT = -1;

/**
 * A server that answers what it is told to for the longest beginning of a path, or what a function makes of the path; null
 * is an answer without a body, and a path that it does not know a 404 of Jupyter's own.
 */
export class FakeServer {
  readonly asked: string[] = [];
  /** The bodies of what was sent to it. */
  readonly sent: unknown[] = [];
  readonly answers = new Map<string, unknown>();
  status = 200;

  readonly api = new OzzieApi('http://127.0.0.1/', (url, init) => {
    const path = url.replace('http://127.0.0.1/ozzie/api/', '');
    this.asked.push(`${init.method ?? 'GET'} ${path}`);
    if (typeof init.body === 'string') {
      this.sent.push(JSON.parse(init.body));
    }
    if (this.status === SILENT) {
      return new Promise((_, reject) => {
        init.signal?.addEventListener('abort', () => reject(new DOMException('Aborted', 'AbortError')));
      });
    }
    if (this.status === 0) {
      return Promise.reject(new TypeError('Failed to fetch'));
    }
    const fitting = [...this.answers.keys()].filter(key => path.startsWith(key));
    const found = fitting.sort((a, b) => b.length - a.length)[0];
    const told = found === undefined ? { message: 'Not Found' } : this.answers.get(found);
    const answer: unknown = typeof told === 'function' ? (told as (path: string) => unknown)(path) : told;
    const given = answer === null ? 204 : this.status;
    const status = found === undefined ? 404 : answer instanceof Refused ? answer.status : given;
    const body = answer === null ? Promise.reject(new SyntaxError('Unexpected end')) : Promise.resolve(answer);
    body.catch(() => undefined);
    const response = { ok: status < 400, status, json: () => body, text: () => body };
    return Promise.resolve(response as unknown as Response);
  });

  constructor(...tasks: Task[]) {
    this.answers.set('health', HEALTH);
    this.answers.set('usage/today', { cost: 1_140_000_000 });
    for (const task of tasks) {
      this.answers.set(`tasks/${task.task_id}`, task);
    }
    this.answers.set('tasks?', { items: tasks, next: null });
    this.answers.set('approvals?', { items: [], next: null });
  }
}

/** For tests of words: no translation. */
export const TRANS = {
  __: (text: string, ...values: unknown[]): string => filled(text, values),
  _n: (one: string, many: string, count: number, ...values: unknown[]): string =>
    filled(count === 1 ? one : many, values)
};

function filled(text: string, values: readonly unknown[]): string {
  return text.replace(/%(\d)/g, (_, index: string) => String(values[Number(index) - 1]));
}
