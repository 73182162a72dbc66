/** Everything that this extension asks the server for: the only file that fetches. */

import type {
  Error as Refusal,
  EventRecordPage,
  Example,
  ExamplePage,
  Health,
  Task,
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

/** The REST interface (SPEC.md), as far as a page needs it. All but `answer` and `cancel` are GETs. */
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

  /** The newest tasks first, page by page, but no more than `most` of them. */
  async tasksUpTo(most: number, query: { status?: readonly Task['status'][] } = {}): Promise<ISomeTasks> {
    const tasks: Task[] = [];
    let cursor: string | null = null;
    do {
      const limit = Math.min(most - tasks.length, MOST_IN_PAGE);
      const page: TaskPage = await this.get<TaskPage>('tasks', {
        ...query,
        limit,
        ...(cursor !== null && { cursor })
      });
      tasks.push(...page.items);
      cursor = page.next;
    } while (cursor !== null && tasks.length < most);
    return { tasks, isAll: cursor === null };
  }

  task(taskId: string): Promise<TaskWithSteps> {
    return this.get(`tasks/${encodeURIComponent(taskId)}`);
  }

  /** A turn as a cell shows it; null where nothing is new since the answer of the version `known`. */
  output(taskId: string, known?: string): Promise<TaskOutput | null> {
    return this.get(`tasks/${encodeURIComponent(taskId)}/output`, { known });
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

  /** Answer what a task waits to be told. `amount` takes the place of the one that was offered. */
  async answer(taskId: string, answer: { option: string; prompt_id: string; amount?: number }): Promise<void> {
    await this.post(`tasks/${encodeURIComponent(taskId)}/answer`, answer);
  }

  async cancel(taskId: string): Promise<void> {
    await this.post(`tasks/${encodeURIComponent(taskId)}/cancel`, { reason: '' });
  }

  private post(path: string, body: object): Promise<unknown> {
    return this.send(path, {
      method: 'POST',
      body: JSON.stringify(body),
      headers: { 'Content-Type': 'application/json' }
    });
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
    let response: Response;
    try {
      response = await this.ask(`${this.baseUrl}ozzie/api/${path}`, init);
    } catch {
      throw new AskError(0, 'page.unreachable', 'The server does not answer.', 'Try again in a moment.');
    }
    const said: unknown = await response.json().catch(() => null);
    if (response.ok) {
      return said as T;
    }
    const refusal: Partial<Refusal> = typeof said === 'object' && said !== null ? said : {};
    throw new AskError(
      response.status,
      refusal.code ?? '',
      refusal.message ?? `The server answered ${response.status}.`,
      refusal.hint ?? ''
    );
  }
}
