/** All REST requests of this extension: the only file that fetches. */

import type { Approval, ApprovalCard, ApprovalScope } from './approval';
import { OPERATIONS, type Operations } from './operations.gen';
import type {
  Error as Refusal,
  EventRecordPage,
  Example,
  Health,
  StepDetail,
  Task,
  TaskGraph,
  TaskOutput,
  TaskWithSteps,
  UsageSum
} from './protocol.gen';

/** Lab's fetch, which adds the user's cookie and XSRF token. */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

/** A refusal by the server; `status` is 0 if nobody answered. */
export class RequestError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly hint: string
  ) {
    super(message);
  }

  /** Whether the server has no Ozzie, rather than one that refuses. */
  get isAbsent(): boolean {
    return this.status === 404 && this.code === '';
  }
}

/** Return what went wrong, followed by what to do about it. */
export function errorText(error: unknown): string {
  return error instanceof RequestError ? `${error.message} ${error.hint}`.trim() : String(error);
}

/** `isAll`: there are no others. */
export interface ISomeTasks {
  readonly tasks: readonly Task[];
  readonly isAll: boolean;
}

/** Limit of one page. */
const MAX_IN_PAGE = 500;

type Name = keyof Operations;
type Input<N extends Name> = Operations[N]['input'];

interface IPart {
  readonly limit: number;
  readonly cursor?: string;
}

interface IPage<T> {
  readonly items: readonly T[];
  readonly next: string | null;
}

/** `isAll`: there are no others. */
interface ISome<T> {
  readonly items: readonly T[];
  readonly isAll: boolean;
}

/** An answer. `amount` replaces the offered one; `text` goes with an option that takes words. */
export interface PromptAnswer {
  readonly option: string;
  readonly prompt_id: string;
  readonly amount?: number;
  readonly text?: string;
}

/** The part of the REST interface that a page needs. All are GET except answers, renewals and actions on tasks. */
export class OzzieApi {
  /** `baseUrl`: the server's, with a final slash. */
  constructor(
    private readonly baseUrl: string,
    private readonly fetch: Fetch
  ) {}

  health(): Promise<Health> {
    return this.call('get_health', {});
  }

  /** Return tasks, the newest first. `notebook` is a path of the contents API. */
  async tasks(query: { limit: number; notebook: string }): Promise<readonly Task[]> {
    return (await this.call('list_tasks', query)).items;
  }

  /** Return up to `max` tasks, the newest first; with `all`, steps of runs as well. */
  async tasksUpTo(max: number, query: Input<'list_tasks'> = {}): Promise<ISomeTasks> {
    const { items, isAll } = await this.upTo(max, page => this.call('list_tasks', { ...query, ...page }));
    return { tasks: items, isAll };
  }

  task(taskId: string): Promise<TaskWithSteps> {
    return this.call('get_task', { task_id: taskId });
  }

  /** Return a turn as a cell shows it; null if nothing is new since version `known`. */
  output(taskId: string, known?: string): Promise<TaskOutput | null> {
    return this.call('get_task_output', { task_id: taskId, known: known ?? null });
  }

  /** Return a run's graph, laid out for `width` px; null if it is unchanged since version `known`. */
  graph(taskId: string, width: number, known?: string): Promise<TaskGraph | null> {
    return this.call('get_task_graph', { task_id: taskId, width, known: known ?? null });
  }

  runStep(taskId: string, stepId: string): Promise<StepDetail> {
    return this.call('get_run_step', { task_id: taskId, step_id: stepId });
  }

  /** Return the task's events, the newest first. */
  events(taskId: string, limit: number): Promise<EventRecordPage> {
    return this.call('list_events', { task_id: taskId, newest_first: true, limit });
  }

  /** Return the usage since midnight at the gateway. */
  usageToday(): Promise<UsageSum> {
    return this.call('sum_today', {});
  }

  /** Return the first notebook and the files it reads, with their paths in the project folder. */
  async examples(): Promise<readonly Example[]> {
    return (await this.call('list_examples', {})).items;
  }

  /** Say that a person ran this cell just now, and what of it they typed. */
  async confirmMessage(what: Input<'confirm_message'>): Promise<void> {
    await this.call('confirm_message', what);
  }

  /** Answer a task's question. */
  async answer(taskId: string, answer: PromptAnswer): Promise<void> {
    await this.call('answer_task', { task_id: taskId, ...answer });
  }

  async cancel(taskId: string): Promise<void> {
    await this.call('cancel_task', { task_id: taskId, reason: '' });
  }

  async act(act: 'pause' | 'resume' | 'retry', taskId: string): Promise<void> {
    await this.call(`${act}_task`, { task_id: taskId });
  }

  approval(approvalId: string): Promise<Approval> {
    return this.call('get_approval', { approval_id: approvalId });
  }

  /** Return all that a person must read before answering, unredacted. */
  approvalCard(approvalId: string): Promise<ApprovalCard> {
    return this.call('get_approval_card', { approval_id: approvalId });
  }

  /** Return up to `max` approvals, the newest first. */
  async approvals(max: number, query: Input<'list_approvals'>): Promise<readonly Approval[]> {
    return (await this.upTo(max, page => this.call('list_approvals', { ...query, ...page }))).items;
  }

  /** Approve. `binds` stands for what was shown: a request that has changed since is not answered. */
  async approve(
    approvalId: string,
    answer: { extent: ApprovalScope; binds: string },
    signal: AbortSignal
  ): Promise<void> {
    await this.call('grant_approval', { approval_id: approvalId, ...answer }, signal);
  }

  async reject(approvalId: string, answer: { comment: string }, signal: AbortSignal): Promise<void> {
    await this.call('reject_approval', { approval_id: approvalId, ...answer }, signal);
  }

  /** Renew an approval that expired or whose card is out of date. */
  async renew(approvalId: string, signal: AbortSignal): Promise<void> {
    await this.call('renew_approval', { approval_id: approvalId }, signal);
  }

  /** Return the content of a text artifact. */
  async artifactText(artifactId: string): Promise<string> {
    const response = await this.request(`artifacts/${encodeURIComponent(artifactId)}/content`, { method: 'GET' });
    return response.text();
  }

  /** Call an operation: input that is not in its path goes into the query of a GET, else into the body. */
  private async call<N extends Name>(name: N, input: Input<N>, signal?: AbortSignal): Promise<Operations[N]['answer']> {
    const [method, route] = OPERATIONS[name].split(' /') as [string, string];
    const rest = new Map<string, unknown>(Object.entries(input));
    const path = route.replace(/\{(\w+)\}/g, (_, field: string) => {
      const value = String(rest.get(field));
      rest.delete(field);
      return encodeURIComponent(value);
    });
    const response = await (method === 'GET'
      ? this.request(path + search(rest), { method })
      : this.request(path, {
          method,
          body: JSON.stringify(Object.fromEntries(rest)),
          headers: { 'Content-Type': 'application/json' },
          ...(signal && { signal })
        }));
    return (await response.json().catch(() => null)) as Operations[N]['answer'];
  }

  private async upTo<T>(max: number, load: (page: IPart) => Promise<IPage<T>>): Promise<ISome<T>> {
    const items: T[] = [];
    let cursor: string | null = null;
    do {
      const limit = Math.min(max - items.length, MAX_IN_PAGE);
      const page: IPage<T> = await load({ limit, ...(cursor !== null && { cursor }) });
      items.push(...page.items);
      cursor = page.next;
    } while (cursor !== null && items.length < max);
    return { items, isAll: cursor === null };
  }

  /** Return the response unless it is a refusal. Raises RequestError. */
  private async request(path: string, init: RequestInit): Promise<Response> {
    let response: Response;
    try {
      response = await this.fetch(`${this.baseUrl}ozzie/api/${path}`, init);
    } catch {
      throw new RequestError(0, 'page.unreachable', 'The server does not answer.', 'Try again in a moment.');
    }
    if (response.ok) {
      return response;
    }
    const body: unknown = await response.json().catch(() => null);
    const refusal: Partial<Refusal> = typeof body === 'object' && body !== null ? body : {};
    throw new RequestError(
      response.status,
      refusal.code ?? '',
      refusal.message ?? `The server answered ${response.status}.`,
      refusal.hint ?? ''
    );
  }
}

/** Return the query string; nulls are left out, lists are repeated parameters. */
function search(query: ReadonlyMap<string, unknown>): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of query) {
    for (const one of Array.isArray(value) ? value : value === null ? [] : [value]) {
      parameters.append(name, String(one));
    }
  }
  const text = parameters.toString();
  return text && `?${text}`;
}
