/** Everything that this extension asks the server for: the only file that fetches. */

import type { Approval, ApprovalCard, Extent } from './approval';
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

/** Lab's own way of asking, which knows the user's cookie and XSRF token. */
export type Ask = (url: string, init: RequestInit) => Promise<Response>;

/** What the server said no with; `status` is 0 where nobody answered at all. */
export class AskError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly hint: string
  ) {
    super(message);
  }

  /** Whether there is no Ozzie behind this server, rather than one that refuses. */
  get isAbsent(): boolean {
    return this.status === 404 && this.code === '';
  }
}

/** `isAll`: there are no others. */
export interface ISomeTasks {
  readonly tasks: readonly Task[];
  readonly isAll: boolean;
}

/** A page has no more than that. */
const MOST_IN_PAGE = 500;

type Name = keyof Operations;
type Input<N extends Name> = Operations[N]['input'];

/** Which part of a list. */
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

/** An answer. `amount` takes the place of the one that was offered, `text` goes with an option that takes words. */
export interface Given {
  readonly option: string;
  readonly prompt_id: string;
  readonly amount?: number;
  readonly text?: string;
}

/** The REST interface (SPEC.md), as far as a page needs it. All is GET but what answers, asks anew or stops. */
export class OzzieApi {
  /** `baseUrl` is the server's, with a slash at its end. */
  constructor(
    private readonly baseUrl: string,
    private readonly ask: Ask
  ) {}

  health(): Promise<Health> {
    return this.call('get_health', {});
  }

  /** The newest tasks first. `notebook` is a path of the contents API. */
  async tasks(query: { limit: number; notebook: string }): Promise<readonly Task[]> {
    return (await this.call('list_tasks', query)).items;
  }

  /** The newest tasks first, page by page, but no more than `most` of them; with `all`, the steps of runs as well. */
  async tasksUpTo(most: number, query: Input<'list_tasks'> = {}): Promise<ISomeTasks> {
    const { items, isAll } = await this.upTo(most, page => this.call('list_tasks', { ...query, ...page }));
    return { tasks: items, isAll };
  }

  task(taskId: string): Promise<TaskWithSteps> {
    return this.call('get_task', { task_id: taskId });
  }

  /** A turn as a cell shows it; null where nothing is new since the answer of the version `known`. */
  output(taskId: string, known?: string): Promise<TaskOutput | null> {
    return this.call('get_task_output', { task_id: taskId, known: known ?? null });
  }

  /** A run of a skill, laid out for `width` px; null where it is as the answer of the version `known` told. */
  graph(taskId: string, width: number, known?: string): Promise<TaskGraph | null> {
    return this.call('get_task_graph', { task_id: taskId, width, known: known ?? null });
  }

  /** One step of a run in full. */
  runStep(taskId: string, stepId: string): Promise<StepDetail> {
    return this.call('get_run_step', { task_id: taskId, step_id: stepId });
  }

  /** The task's newest events first. */
  events(taskId: string, limit: number): Promise<EventRecordPage> {
    return this.call('list_events', { task_id: taskId, newest_first: true, limit });
  }

  /** What was used since midnight where the gateway runs. */
  usageToday(): Promise<UsageSum> {
    return this.call('sum_today', {});
  }

  /** The notebook to begin with and what it reads, by their places in the project folder. */
  async examples(): Promise<readonly Example[]> {
    return (await this.call('list_examples', {})).items;
  }

  /** Answer what a task waits to be told. */
  async answer(taskId: string, answer: Given): Promise<void> {
    await this.call('answer_task', { task_id: taskId, ...answer });
  }

  async cancel(taskId: string): Promise<void> {
    await this.call('cancel_task', { task_id: taskId, reason: '' });
  }

  /** Hold a task, let it go on, or have it tried again. */
  async act(act: 'pause' | 'resume' | 'retry', taskId: string): Promise<void> {
    await this.call(`${act}_task`, { task_id: taskId });
  }

  approval(approvalId: string): Promise<Approval> {
    return this.call('get_approval', { approval_id: approvalId });
  }

  /** All that a person has to read before they answer it, with nothing taken out. */
  approvalCard(approvalId: string): Promise<ApprovalCard> {
    return this.call('get_approval_card', { approval_id: approvalId });
  }

  /** The newest approvals first, page by page, but no more than `most` of them. */
  async approvals(most: number, query: Input<'list_approvals'>): Promise<readonly Approval[]> {
    return (await this.upTo(most, page => this.call('list_approvals', { ...query, ...page }))).items;
  }

  /** Say yes. `binds` is what was shown: a request that has changed meanwhile is not answered. */
  async approve(approvalId: string, answer: { extent: Extent; binds: string }, signal: AbortSignal): Promise<void> {
    await this.call('grant_approval', { approval_id: approvalId, ...answer }, signal);
  }

  async reject(approvalId: string, answer: { comment: string }, signal: AbortSignal): Promise<void> {
    await this.call('reject_approval', { approval_id: approvalId, ...answer }, signal);
  }

  /** Ask again for an approval that expired, or whose card is out of date. */
  async renew(approvalId: string, signal: AbortSignal): Promise<void> {
    await this.call('renew_approval', { approval_id: approvalId }, signal);
  }

  /** The content of an artifact that is text. */
  async artifactText(artifactId: string): Promise<string> {
    const response = await this.request(`artifacts/${encodeURIComponent(artifactId)}/content`, { method: 'GET' });
    return response.text();
  }

  /** Carry out an operation: what its path does not name goes into the query of a GET, else into the body. */
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

  private async upTo<T>(most: number, ask: (page: IPart) => Promise<IPage<T>>): Promise<ISome<T>> {
    const items: T[] = [];
    let cursor: string | null = null;
    do {
      const limit = Math.min(most - items.length, MOST_IN_PAGE);
      const page: IPage<T> = await ask({ limit, ...(cursor !== null && { cursor }) });
      items.push(...page.items);
      cursor = page.next;
    } while (cursor !== null && items.length < most);
    return { items, isAll: cursor === null };
  }

  /** What was answered, if that was no refusal. Raises AskError. */
  private async request(path: string, init: RequestInit): Promise<Response> {
    let response: Response;
    try {
      response = await this.ask(`${this.baseUrl}ozzie/api/${path}`, init);
    } catch {
      throw new AskError(0, 'page.unreachable', 'The server does not answer.', 'Try again in a moment.');
    }
    if (response.ok) {
      return response;
    }
    const said: unknown = await response.json().catch(() => null);
    const refusal: Partial<Refusal> = typeof said === 'object' && said !== null ? said : {};
    throw new AskError(
      response.status,
      refusal.code ?? '',
      refusal.message ?? `The server answered ${response.status}.`,
      refusal.hint ?? ''
    );
  }
}

/** A query; what is null is left out, and what is a list stands there several times. */
function search(query: ReadonlyMap<string, unknown>): string {
  const asked = new URLSearchParams();
  for (const [name, value] of query) {
    for (const one of Array.isArray(value) ? value : value === null ? [] : [value]) {
      asked.append(name, String(one));
    }
  }
  const text = asked.toString();
  return text && `?${text}`;
}
