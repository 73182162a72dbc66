/** Everything that this extension asks the server for: the only file that fetches. */

import type { Approval, ApprovalCard, ApprovalStatus, Extent } from './approval';
import type {
  Error as Refusal,
  EventRecordPage,
  Example,
  ExamplePage,
  Health,
  StepDetail,
  Task,
  TaskGraph,
  TaskOutput,
  TaskPage,
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

type Query = Readonly<Record<string, string | number | readonly string[] | undefined>>;

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
    return this.get('health');
  }

  /** The newest tasks first. `notebook` is a path of the contents API. */
  async tasks(query: { limit: number; notebook: string }): Promise<readonly Task[]> {
    return (await this.get<TaskPage>('tasks', query)).items;
  }

  /** The newest tasks first, page by page, but no more than `most` of them; with `all`, the steps of runs as well. */
  async tasksUpTo(most: number, query: { status?: readonly Task['status'][]; all?: 'true' } = {}): Promise<ISomeTasks> {
    const { items, isAll } = await this.upTo<Task>(most, 'tasks', query);
    return { tasks: items, isAll };
  }

  task(taskId: string): Promise<TaskWithSteps> {
    return this.get(`tasks/${encodeURIComponent(taskId)}`);
  }

  /** A turn as a cell shows it; null where nothing is new since the answer of the version `known`. */
  output(taskId: string, known?: string): Promise<TaskOutput | null> {
    return this.get(`tasks/${encodeURIComponent(taskId)}/output`, { known });
  }

  /** A run of a skill, laid out for `width` px; null where it is as the answer of the version `known` told. */
  graph(taskId: string, width: number, known?: string): Promise<TaskGraph | null> {
    return this.get(`tasks/${encodeURIComponent(taskId)}/graph`, { width, known });
  }

  /** One step of a run in full. */
  runStep(taskId: string, stepId: string): Promise<StepDetail> {
    return this.get(`tasks/${encodeURIComponent(taskId)}/steps/${encodeURIComponent(stepId)}`);
  }

  /** The task's newest events first. */
  events(taskId: string, limit: number): Promise<EventRecordPage> {
    return this.get('events', { task_id: taskId, newest_first: 'true', limit });
  }

  /** What was used since midnight where the gateway runs. */
  usageToday(): Promise<UsageSum> {
    return this.get('usage/today');
  }

  /** The notebook to begin with and what it reads, by their places in the project folder. */
  async examples(): Promise<readonly Example[]> {
    return (await this.get<ExamplePage>('examples')).items;
  }

  /** Answer what a task waits to be told. */
  async answer(taskId: string, answer: Given): Promise<void> {
    await this.post(`tasks/${encodeURIComponent(taskId)}/answer`, answer);
  }

  async cancel(taskId: string): Promise<void> {
    await this.post(`tasks/${encodeURIComponent(taskId)}/cancel`, { reason: '' });
  }

  /** Hold a task, let it go on, or have it tried again. */
  async act(act: 'pause' | 'resume' | 'retry', taskId: string): Promise<void> {
    await this.post(`tasks/${encodeURIComponent(taskId)}/${act}`, {});
  }

  approval(approvalId: string): Promise<Approval> {
    return this.get(approvalPath(approvalId));
  }

  /** All that a person has to read before they answer it, with nothing taken out. */
  approvalCard(approvalId: string): Promise<ApprovalCard> {
    return this.get(approvalPath(approvalId, 'card'));
  }

  /** The newest approvals first, page by page, but no more than `most` of them. */
  async approvals(most: number, query: { status?: ApprovalStatus; task_id?: string }): Promise<readonly Approval[]> {
    return (await this.upTo<Approval>(most, 'approvals', query)).items;
  }

  /** Say yes. `binds` is what was shown: a request that has changed meanwhile is not answered. */
  async approve(approvalId: string, answer: { extent: Extent; binds: string }, signal: AbortSignal): Promise<void> {
    await this.post(approvalPath(approvalId, 'approve'), answer, signal);
  }

  async reject(approvalId: string, answer: { comment: string }, signal: AbortSignal): Promise<void> {
    await this.post(approvalPath(approvalId, 'reject'), answer, signal);
  }

  /** Ask again for an approval that expired, or whose card is out of date. */
  async renew(approvalId: string, signal: AbortSignal): Promise<void> {
    await this.post(approvalPath(approvalId, 'renew'), {}, signal);
  }

  /** The content of an artifact that is text. */
  async artifactText(artifactId: string): Promise<string> {
    const response = await this.request(`artifacts/${encodeURIComponent(artifactId)}/content`, { method: 'GET' });
    return response.text();
  }

  private post(path: string, body: object, signal?: AbortSignal): Promise<unknown> {
    return this.send(path, {
      method: 'POST',
      body: JSON.stringify(body),
      headers: { 'Content-Type': 'application/json' },
      ...(signal && { signal })
    });
  }

  private async upTo<T>(most: number, path: string, query: Query): Promise<ISome<T>> {
    const items: T[] = [];
    let cursor: string | null = null;
    do {
      const limit = Math.min(most - items.length, MOST_IN_PAGE);
      const page: IPage<T> = await this.get<IPage<T>>(path, { ...query, limit, ...(cursor !== null && { cursor }) });
      items.push(...page.items);
      cursor = page.next;
    } while (cursor !== null && items.length < most);
    return { items, isAll: cursor === null };
  }

  private get<T>(path: string, query: Query = {}): Promise<T> {
    const asked = new URLSearchParams();
    for (const [name, value] of Object.entries(query)) {
      for (const one of Array.isArray(value) ? value : value === undefined ? [] : [value]) {
        asked.append(name, String(one));
      }
    }
    const search = asked.toString();
    return this.send(search ? `${path}?${search}` : path, { method: 'GET' });
  }

  private async send<T>(path: string, init: RequestInit): Promise<T> {
    const response = await this.request(path, init);
    return (await response.json().catch(() => null)) as T;
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

function approvalPath(approvalId: string, act = ''): string {
  return ['approvals', encodeURIComponent(approvalId), act].filter(Boolean).join('/');
}
