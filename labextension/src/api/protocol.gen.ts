/** The shapes on the wire. Made from protocol.schema.json by `make types`: not to be changed by hand. */

/**
 * Where an answer came from, weakest first: a second model, if a rule allows that; a kernel, which runs the user's code; another program of the user's; a page under the user's own identity; a user who authenticated again.
 */
export type AuthStrength = 'browser' | 'cli' | 'model' | 'relay' | 'step_up';
export type RiskLevel = 'high' | 'low' | 'medium';
export type SideEffect = 'irreversible' | 'none' | 'reversible';

/**
 * One answer that may be given. `amount` is what it offers where it has a `unit`: 1e-9 USD, tokens, or milliseconds. `help` is a line about it; one that `takes_text` is given with what a person writes.
 */
export interface AnswerOption {
  amount: number;
  help: string;
  label: string;
  name: string;
  takes_text: boolean;
  unit: '' | 'cost' | 'time' | 'tokens';
}
/**
 * A call that a person was asked for, and the answer. `why` says more of the `status`: an expired one's time was up, the call would do something else by now ("changed"), or its task ended; a granted one that is void was "revoked" or has "changed". `sentence` is the question and `proof` what the call would do, a diff or a text as `shown` says; the artifact `whole` is all of it where that is more. `reason`, `rule` and `place` are those of the decision to ask, `undo` how it can be taken back where that is known. A yes has to come by the way `needs`, or by a stronger one: model, relay, cli, browser, step_up. `session_cover` tells what one for the session would cover; null where none is offered. `binds` is a SHA-256 of all that a yes is for, `key` the call's idempotency key. `by`, `way`, `extent` and `comment` are those of the answer, empty before it; `in_force_until` is the end of a yes for the session. `notebook` is the path of the session's notebook below the root of the server that was asked; empty where it has none there. `checked` is why a second model did not say yes, a sentence; empty where none was to. `arguments` are those that are carried out, as JSON, the long ones shortened. `made_from`: where from outside the content came that the call is made from, a phrase; empty where nothing did. `run_id` is the task of the run of a skill that a step asks for, and `step` names the skill and the step: "sums: gate"; empty where no step does. `card`: if something that looks like a secret was taken out of these texts, the SHA-256 of the card that has it, which is to be read before a yes (GET /approvals/{approval_id}/card); else empty.
 */
export interface Approval {
  answered_at: string | null;
  approval_id: string;
  arguments: string;
  binds: string;
  by: string;
  call_id: string;
  card: string;
  checked: string;
  comment: string;
  expires_at: string;
  extent: '' | 'once' | 'session';
  in_force_until: string | null;
  key: string;
  made_from: string;
  name: string;
  needs: AuthStrength;
  notebook: string;
  place: string;
  proof: string;
  reason: string;
  requested_at: string;
  risk_level: RiskLevel;
  rule: string;
  run_id: string;
  sentence: string;
  session_cover: string | null;
  session_id: string;
  shown: '' | 'diff' | 'text';
  side_effect: SideEffect;
  status: 'expired' | 'granted' | 'pending' | 'rejected';
  step: string;
  task_id: string;
  tool_id: string;
  undo: string;
  way: '' | 'browser' | 'cli' | 'model' | 'relay' | 'step_up';
  whole: string | null;
  why: '' | 'changed' | 'revoked' | 'task' | 'time';
}
/**
 * An approval can't be answered any more, or its yes is void: its time is up, the call would now do something else, or a person revoked what they had allowed for the session.
 */
export interface ApprovalExpired {
  approval_id: string;
  why: 'changed' | 'revoked' | 'time';
}
/**
 * `extent`: what the yes is good for, this call or also those that `session_cover` tells of.
 */
export interface ApprovalGrant {
  approval_id: string;
  /**
   * That of the request that was seen: another one is not answered then. Empty: whatever it asks.
   */
  binds?: string;
  extent?: 'once' | 'session';
}
/**
 * A tool call was approved.
 */
export interface ApprovalGranted {
  approval_id: string;
  by: string;
  extent: 'once' | 'session';
  way: AuthStrength;
}
export interface ApprovalNamed {
  approval_id: string;
}
/**
 * A part of a list. `next` is the `cursor` of the part behind it, null at the end.
 */
export interface ApprovalPage {
  items: Approval[];
  next: string | null;
}
export interface ApprovalQuery {
  approval_id: string;
}
export interface ApprovalReject {
  approval_id: string;
  /**
   * Why not, for the model to read.
   */
  comment?: string;
}
/**
 * A tool call was rejected. The model gets the comment.
 */
export interface ApprovalRejected {
  approval_id: string;
  by: string;
  comment: string;
  way: AuthStrength;
}
/**
 * A person, or a second model before them, was asked to approve a tool call. `sentence` is the question, `proof` shows what the call would do, in the form `shown`. Both come from the tool's contract and the checked arguments, never from the model; `whole` is the complete proof if it is long. `reason`, `rule` and `place` are those of the decision. `undo` tells how to take the call back; empty if unknown. `binds` is a SHA-256 of everything that a yes is for: if it changes, the yes is void. `needs` is the minimum strength of a yes; `cover` is what a yes for the session would cover, null if none is offered. `expires_at` is RFC 3339 in UTC. `checked` is a sentence why a second model did not say yes, empty if none was asked. `arguments` are the call's, as JSON without secrets, long ones shortened. `made_from` is a phrase for the outside provenance of the call, or empty. `card`: if something that looks like a secret was removed from these texts, the SHA-256 of the complete card, which is drawn from the recorded call for a person who may answer; otherwise empty. `brought` are the outside sources that these texts may quote, such as those of a labelled file that would be changed.
 */
export interface ApprovalRequested {
  approval_id: string;
  arguments: string;
  binds: string;
  brought: string[];
  call_id: string;
  card: string;
  checked: string;
  cover: SessionGrant | null;
  expires_at: string;
  key: string;
  made_from: string;
  name: string;
  needs: AuthStrength;
  place: string;
  proof: string;
  reason: string;
  risk_level: RiskLevel;
  rule: string;
  sentence: string;
  shown: '' | 'diff' | 'text';
  side_effect: SideEffect;
  tool_id: string;
  undo: string;
  whole: string | null;
}
/**
 * What a yes for the session covers: calls of the tool in this version and project that the same rule asks for, if every path is below one of the folders `below` or is one of the files `on`, every host is one of `hosts`, and the call is made from content with the same labels. A call without paths and hosts could do anything, so only the identical call is covered: `arguments` is the SHA-256 of its arguments, otherwise empty. `said` describes the grant to people: "`edit_file` in `notes/`".
 */
export interface SessionGrant {
  arguments: string;
  below: string[][];
  hosts: string[];
  labels: string[];
  on: string[][];
  project: string;
  rule: string;
  said: string;
  tool_id: string;
  version: string;
}
/**
 * Of several states where `status` stands several times, of any without it.
 */
export interface ApprovalsQuery {
  cursor?: string | null;
  /**
   * How many items a page has at most.
   */
  limit?: number;
  session_id?: string | null;
  status?: ('expired' | 'granted' | 'pending' | 'rejected')[];
  task_id?: string | null;
}
/**
 * A server that hands on to the owner what it is asked, and takes over when that goes.
 */
export interface Attached {
  headless: boolean;
  pid: number;
  url: string;
}
/**
 * The instructions of a delegated task beside its message. `tools` are those that it may call (None for all); `dangerous_tools` ask first whatever the rules say, and with `asks_for_changes` so do all tools with effects. `skill` is the brief's origin; `one_by_one`: read-only calls are not made in parallel either. `given` are the addresses that a person gave for it (ADR 31).
 */
export interface Brief {
  asks_for_changes: boolean;
  dangerous_tools: string[];
  given: string[];
  instruction: string;
  one_by_one: boolean;
  skill: string;
  tools: string[] | null;
}
/**
 * Tokens of one call, as the provider counted them.
 */
export interface CallUsage {
  cached_tokens: number;
  input_tokens: number;
  output_tokens: number;
}
/**
 * All that a person has to read before they answer, with nothing taken out of it: the question, what the call would do (`proof`, of the kind `shown`), how it can be taken back, and all arguments as JSON. Characters that nobody sees are escaped.
 */
export interface Card {
  arguments: string;
  proof: string;
  sentence: string;
  shown: '' | 'diff' | 'text';
  undo: string;
}
/**
 * The run can resume after `node_id`. `state` is its progress at that time.
 */
export interface CheckpointSaved {
  checkpoint_id: string;
  node_id: string;
  state: {
    [k: string]: unknown;
  };
}
/**
 * What delegated tasks had used when the delegating task ended. `cost` is in 1e-9 USD, a lower bound if `cost_known` is false; `models` are in the order of their first calls.
 */
export interface DelegatedUse {
  cost: number;
  cost_known: boolean;
  models: UsedModel[];
  usage: CallUsage;
}
/**
 * A model that was called, and the alias used.
 */
export interface UsedModel {
  alias: string;
  model: string;
  provider: string;
}
/**
 * It is so.
 */
export interface Done {
  done: true;
}
/**
 * Why something was refused: a stable code, a sentence, and what to do next (may be empty).
 */
export interface Error {
  code: string;
  hint: string;
  message: string;
}
/**
 * A failed request: a stable code, a sentence, and what to do next.
 */
export interface ErrorInfo {
  code: string;
  hint?: string;
  message: string;
}
export interface EventBodies {
  'approval.expired': ApprovalExpired;
  'approval.granted': ApprovalGranted;
  'approval.rejected': ApprovalRejected;
  'approval.requested': ApprovalRequested;
  'checkpoint.saved': CheckpointSaved;
  'message.received': MessageReceived;
  'model.call.completed': ModelCallCompleted;
  'model.call.failed': ModelCallFailed;
  'model.call.started': ModelCallStarted;
  'step.failed': StepFailed;
  'step.skipped': StepSkipped;
  'step.started': StepStarted;
  'task.cancelled': TaskCancelled;
  'task.created': TaskCreated;
  'task.failed': TaskFailed;
  'task.paused': TaskPaused;
  'task.pausing': TaskPauseRequested;
  'task.queued': TaskQueued;
  'task.resumed': TaskResumed;
  'task.retried': TaskRetried;
  'task.started': TaskStarted;
  'task.stopping': TaskCancelRequested;
  'task.succeeded': TaskSucceeded;
  'task.waiting_approval': TaskWaitingApproval;
  'task.waiting_input': TaskWaitingInput;
  'tool.call.cancelled': ToolCallCancelled;
  'tool.call.completed': ToolCallCompleted;
  'tool.call.decided': ToolCallDecided;
  'tool.call.failed': ToolCallFailed;
  'tool.call.requested': ToolCallRequested;
  'tool.call.started': ToolCallStarted;
  'tool.call.uncertain': ToolCallUncertain;
}
/**
 * A message arrived, which begins a turn. `pictures` are those that it mentions with an `@`, `absent` the mentioned paths without a file.
 */
export interface MessageReceived {
  absent: string[];
  message_id: string;
  origin: Origin;
  pictures: Picture[];
  text: string;
}
/**
 * Where a message came from. Fields that a channel lacks are empty.
 */
export interface Origin {
  cell_id: string;
  channel: string;
  kernel_id: string;
  sender_id: string;
  sender_name: string;
}
/**
 * `path` is relative to the project, `ref` the file's content at that time, `size` in bytes.
 */
export interface Picture {
  media_type: string;
  path: string;
  ref: string;
  size: number;
}
/**
 * The model's complete response. `cost` is in 1e-9 USD, None if unknown; `ttft_ms` is None if no token came.
 */
export interface ModelCallCompleted {
  call_id: string;
  cost: number | null;
  finish: 'cancelled' | 'content_filter' | 'failed' | 'length' | 'stop' | 'tool_calls';
  latency_ms: number;
  response_blob: string;
  tool_uses: ToolUse[];
  ttft_ms: number | null;
  usage: CallUsage;
}
/**
 * A tool call as the model requested it: the name that the provider saw, unchecked arguments. `call_id` is the model's own, unique within one response; events about the call have a ULID.
 */
export interface ToolUse {
  arguments: string;
  call_id: string;
  name: string;
}
/**
 * The model call ended without a complete response. `partial_blob` holds what had arrived, if anything. `latency_ms` is None if the gateway ended during the call; then it is unknown what had arrived. If the provider may still charge for it, budgets count all that was reserved: `settled_cost` (1e-9 USD; None for an unknown price) and `settled_tokens`. Older logs have neither.
 */
export interface ModelCallFailed {
  call_id: string;
  code: string;
  latency_ms: number | null;
  message: string;
  partial_blob: string | null;
  settled_cost: number | null;
  settled_tokens: number;
}
/**
 * One request to a model. `config`, `prompt` and `tools` are content hashes, so that a deterministic replay can tell what changed. A round may need several calls: `attempt` counts them, and `instead_of` names the provider that this one replaces. It reserves `reserved_tokens` and `reserved_cost` (1e-9 USD; None for an unknown price) in the budgets of its task, session, `project` (a folder) and `day` (YYYY-MM-DD where the gateway runs). `updates` counts the task's updates in the request. `purpose`: to answer the user, or to check a tool call; a check has no reply with its `reply_id`.
 */
export interface ModelCallStarted {
  alias: string;
  attempt: number;
  call_id: string;
  config: string;
  day: string;
  instead_of: string;
  model: string;
  project: string;
  prompt: string;
  provider: string;
  purpose: 'answer' | 'check';
  reply_id: string;
  request_blob: string;
  reserved_cost: number | null;
  reserved_tokens: number;
  round: number;
  tools: string;
  updates: number;
}
/**
 * An attempt at a step failed. `again_in_s` is the delay before the next attempt; None if there is none. `to` is the state that the failure leads to, if any; `call`: see `StepCompleted`.
 */
export interface StepFailed {
  again_in_s: number | null;
  attempt: number;
  call: MadeCall | null;
  code: string;
  hint: string;
  kind: 'business' | 'model' | 'parse' | 'system' | 'tool';
  message: string;
  step_id: string;
  to: string;
  visit: number;
}
/**
 * A call of a read-only tool, recorded together with the end of its step (ADR 44). `rule` and `policy`: see `ToolCallDecided`.
 */
export interface MadeCall {
  args: {
    [k: string]: unknown;
  };
  duration_ms: number;
  name: string;
  policy: string;
  rule: string;
  summary: string;
  tool_id: string;
  version: string;
}
/**
 * A step was skipped: its condition is false, or none of the steps that it needs was carried out.
 */
export interface StepSkipped {
  reason: string;
  step_id: string;
  visit: number;
}
/**
 * A step began. `attempt` counts from 1, and so does `visit`, the number of times that a state was entered. `task` carries the step out, if it has its own task.
 */
export interface StepStarted {
  attempt: number;
  step_id: string;
  task: string | null;
  visit: number;
}
/**
 * The task was cancelled by a person or a rule. `delegated`: see `TaskSucceeded`.
 */
export interface TaskCancelled {
  by: string;
  delegated: DelegatedUse | null;
  reason: string;
}
/**
 * A task was created, with its limits and its requester. `attended`: a person can be asked. `answer_schema` is the JSON Schema that the answer must fit, if a program reads it. `call`: the task consists of this one call.
 */
export interface TaskCreated {
  answer_schema: {} | null;
  attended: boolean;
  brief: Brief | null;
  call: GivenCall | null;
  channel: string;
  limits: Limits;
  message_id: string;
  mode: 'FREE' | 'GRAPH';
  model: string;
  parent: string | null;
  risk_level: 'high' | 'low' | 'medium';
  scope_id: string;
  sender_id: string;
  step: string;
  thread_id: string;
  title: string;
}
/**
 * A tool call that a task makes without a model. `tool` is a name or an id.
 */
export interface GivenCall {
  args: {
    [k: string]: unknown;
  };
  tool: string;
}
/**
 * The limits of a task; None means no limit. Money is in 1e-9 USD. `skill` is the one that it runs, if that has a budget; `skill_bounds` are the limits from that budget, which are narrower than the configuration's.
 */
export interface Limits {
  deadline_s: number | null;
  max_cost: number | null;
  max_rounds: number;
  max_tokens: number | null;
  skill: string;
  skill_bounds: ('cost' | 'time' | 'tokens')[];
}
/**
 * The task failed. `kind` is the class of failure, `hint` the next step, `detail` the provider's own message, shortened and without keys; `delegated`: see `TaskSucceeded`.
 */
export interface TaskFailed {
  code: string;
  delegated: DelegatedUse | null;
  detail: string;
  hint: string;
  kind: 'business' | 'model' | 'parse' | 'system' | 'tool';
  message: string;
}
/**
 * The task was paused by a person or a rule.
 */
export interface TaskPaused {
  by: string;
  reason: string;
}
/**
 * A person requested a pause, which follows before a turn's next calls or a run's next steps. If not `wanted`, an earlier request is withdrawn.
 */
export interface TaskPauseRequested {
  by: string;
  reason: string;
  wanted: boolean;
}
/**
 * The task is ready to run: created, recovered after a restart, answered, or resumed after a pause.
 */
export interface TaskQueued {
  reason: 'answered' | 'created' | 'recovered' | 'resumed';
}
/**
 * The task is not paused any more, or its question was answered.
 */
export interface TaskResumed {
  by: string;
}
/**
 * A failed or cancelled task is queued again. `attempt` is the next one. `taken_up` maps steps of a run to the tasks that they continue; all other steps get new tasks. `limits` replace the task's, if its skill's budget has changed.
 */
export interface TaskRetried {
  attempt: number;
  by: string;
  limits: Limits | null;
  taken_up: {
    [k: string]: unknown;
  };
}
/**
 * A driver claimed the task. `epoch` is a fencing token: only the holder of the highest one may go on.
 */
export interface TaskStarted {
  attempt: number;
  epoch: string;
}
/**
 * A person or a rule requested the task's cancellation, which follows once it has stopped its work.
 */
export interface TaskCancelRequested {
  by: string;
  reason: string;
}
/**
 * The task succeeded. `delegated` is what its delegated tasks have used; None if none of them called a model.
 */
export interface TaskSucceeded {
  delegated: DelegatedUse | null;
  rounds: number;
}
/**
 * The task waits for an approval.
 */
export interface TaskWaitingApproval {
  approval_id: string;
}
/**
 * The task waits for the answer to its question.
 */
export interface TaskWaitingInput {
  question: string;
}
/**
 * A tool call was stopped before it had a result.
 */
export interface ToolCallCancelled {
  call_id: string;
  reason: string;
}
/**
 * A tool call ended with a result. `data` is the result; of a large one its beginning and end, and the whole is the first of `artifacts`. `summary` is for people, in a few words. `blob` held large results before there were artifacts. `brought` are the outside sources of the result, `links` the addresses in content from the web, `wrote` the absolute paths of files that have the labels of this event from now on.
 */
export interface ToolCallCompleted {
  artifacts: string[];
  blob: string | null;
  brought: string[];
  call_id: string;
  data: unknown;
  duration_ms: number;
  links: string[];
  ok: boolean;
  summary: string;
  wrote: string[];
}
/**
 * The rules' decision on a tool call: the rule that decided, its place in a file, the reason in words, and the version of all rules.
 */
export interface ToolCallDecided {
  call_id: string;
  decision: 'ALLOW' | 'ASK' | 'CHECK' | 'DENY';
  place: string;
  policy: string;
  reason: string;
  rule: string;
}
/**
 * A tool call failed. `message` is for the model and the user; `brought` are the outside sources that it may quote.
 */
export interface ToolCallFailed {
  brought: string[];
  call_id: string;
  code: string;
  duration_ms: number;
  message: string;
}
/**
 * The model requested a tool call. `use_id` is the model's own id, unique within the round; `call_id` is ours.
 */
export interface ToolCallRequested {
  args: {
    [k: string]: unknown;
  };
  call_id: string;
  index: number;
  name: string;
  round: number;
  tool_id: string;
  use_id: string;
  version: string;
}
/**
 * A tool is about to run; recorded durably before. `effect` describes what it will do, so that the tool can tell after a crash whether it did; null if it can't. `before` is the content that it replaces, `approval_id` the approval that it needed, if any. `writes` are the absolute paths of files that it will write: they get the labels of this event, however the call ends.
 */
export interface ToolCallStarted {
  approval_id: string | null;
  before: string | null;
  call_id: string;
  effect: {} | null;
  writes: string[];
}
/**
 * A tool call was started and it is unknown whether it took effect. It is not repeated, unless `again` is set: then another call with the same key replaces it, without asking anybody. If the task ends before that, it stays unknown. `brought`: see `ToolCallFailed`.
 */
export interface ToolCallUncertain {
  again: boolean;
  brought: string[];
  call_id: string;
  reason: string;
}
/**
 * `position` is None for what is transient. `ts` is RFC 3339 in UTC, empty for what is transient.
 */
export interface EventFrame {
  canonical?: string;
  event: string;
  labels?: string[];
  payload?: {
    [k: string]: unknown;
  };
  position?: number | null;
  session_id?: string | null;
  task_id?: string | null;
  ts?: string;
}
/**
 * A fact in the log. `name` is what the WebSocket calls it.
 */
export interface EventRecord {
  actor: string;
  causation_id: string | null;
  commitment: string;
  event_id: string;
  hash: string;
  idempotency_key: string | null;
  labels: string[];
  name: string;
  payload: {
    [k: string]: unknown;
  };
  position: number;
  prev_hash: string;
  schema: number;
  session_id: string | null;
  source: string;
  sources: string[];
  span_id: string;
  stream: string;
  task_id: string | null;
  trace_id: string;
  ts: string;
  type: string;
  version: number;
}
/**
 * A part of a list. `next` is the `cursor` of the part behind it, null at the end.
 */
export interface EventRecordPage {
  items: EventRecord[];
  next: string | null;
}
/**
 * `since` is the first moment that counts, `until` the first that does not any more.
 */
export interface EventsQuery {
  /**
   * A position in the event log.
   */
  after?: number;
  cursor?: string | null;
  /**
   * How many items a page has at most.
   */
  limit?: number;
  newest_first?: boolean;
  session_id?: string | null;
  since?:
    | ({
        [k: string]: unknown;
      } & string)
    | null;
  task_id?: string | null;
  type?: string[];
  until?:
    | ({
        [k: string]: unknown;
      } & string)
    | null;
}
/**
 * A file of text that comes with Ozzie. `path` is its place in a project folder.
 */
export interface Example {
  content: string;
  path: string;
}
/**
 * A part of a list. `next` is the `cursor` of the part behind it, null at the end.
 */
export interface ExamplePage {
  items: Example[];
  next: string | null;
}
/**
 * Nothing.
 */
export interface ExamplesQuery {}
/**
 * A step that a run of a skill failed by. `task_id` carried out its last attempt, where that was a task.
 */
export interface FailedStep {
  error: Failure;
  step_id: string;
  task_id: string | null;
  title: string;
}
/**
 * Why a task or a step failed. `kind` is the class of it, empty of a call: the model's own, what it wrote, a tool's, what was asked for, or Ozzie's. `hint` is the next step.
 */
export interface Failure {
  code: string;
  hint: string;
  kind: '' | 'business' | 'model' | 'parse' | 'system' | 'tool';
  message: string;
}
/**
 * `from_position`: events after it; None means only what is new. With a `task_id`, the feed ends by itself behind the task's end; who follows a retry subscribes again.
 */
export interface FeedSubscribe {
  from_position?: number | null;
  session_id?: string | null;
  task_id?: string | null;
  types?: string[] | null;
}
/**
 * The middle of one step's dot.
 */
export interface GraphDot {
  step_id: string;
  x: number;
  y: number;
}
/**
 * A line from node to node, as the path of an SVG. `label_x` and `label_y` are the middle of its label's base line.
 */
export interface GraphEdge {
  is_back: boolean;
  label: string;
  label_x: number;
  label_y: number;
  path: string;
  source: string;
  to: string;
}
/**
 * Everything that is drawn, within `width` × `height` px. It hangs on the structure alone, so nothing moves while the run goes on.
 */
export interface GraphLayout {
  edges: GraphEdge[];
  form: 'compact' | 'dots' | 'full';
  height: number;
  nodes: GraphNode[];
  width: number;
}
/**
 * A box, with its left upper corner: of one step, of a stack of steps, or with a dot for each of its steps. `told` is what is said of all of them as of one, `after` what that waits for in words.
 */
export interface GraphNode {
  after: string;
  dots: GraphDot[];
  h: number;
  layer: number;
  node_id: string;
  step_ids: string[];
  told: GraphStep;
  w: number;
  x: number;
  y: number;
}
/**
 * One step, or one state of a state machine. `note` is what it tells of itself, `problem` why it failed; `task_id` the task that carries out its latest `attempt`, of `attempts`; empty where it has none. `visits` is how often a state machine has come to it.
 */
export interface GraphStep {
  attempt: number;
  attempts: number;
  /**
   * In 1e-9 USD; null where a price is unknown.
   */
  cost: number | null;
  finished_at: string | null;
  model: string;
  needs: string[];
  note: string;
  problem: string;
  skill: string;
  started_at: string | null;
  state:
    | 'Done'
    | 'Failed'
    | 'Needs a decision'
    | 'Paused'
    | 'Skipped'
    | 'Stopped'
    | 'Waiting'
    | 'Waiting for you'
    | 'Waiting for your answer'
    | 'Working';
  step_id: string;
  task_id: string;
  title: string;
  visits: number;
}
/**
 * How the gateway is. `status`: degraded if `log_warning` or `store` tell of something. `pid` is the process that owns the folder; `server_pid` the one that was asked, which is another where the `role` is attached. `temporary`: started for a while, it leaves the folder to any server that a person starts. `position` is where the log ends; `config_error`, `policy_error`, `log_warning` and `vault_warning` are empty where all is well; `ignored_config` and `ignored_policy` name files that nobody has trusted; `policy_warnings` tell of rules that may not do what their author meant. `vault` is null where there is none, or none that can be used.
 */
export interface Health {
  attached: Attached[];
  clients: number;
  config_error: string;
  headless: boolean;
  home: string;
  ignored_config: string[];
  ignored_policy: string[];
  log_warning: string;
  model: string;
  pid: number;
  policy_error: string;
  policy_warnings: string[];
  position: number;
  project: string;
  role: 'attached' | 'owner';
  server_pid: number;
  status: 'degraded' | 'ok';
  store: StoreHealth;
  tasks_running: number;
  temporary: boolean;
  uptime_s: number;
  vault: VaultHealth | null;
  vault_warning: string;
  version: string;
  workers: ModelWorker[];
}
/**
 * How the event log and the blobs are. `warnings`: what can't be written or read now, and what to do; they go away once it works again. `checked_at`: when everything kept was last checked, once a day; `findings`: what was wrong.
 */
export interface StoreHealth {
  checked_at: string | null;
  findings: string[];
  warnings: string[];
}
/**
 * How the vault is, without any name in it. `opens_with`: what opens it; `locked`: nothing has, in the gateway.
 */
export interface VaultHealth {
  locked: boolean;
  opens_with: ('keyfile' | 'keyring' | 'passphrase')[];
  secrets: number;
}
/**
 * A process that calls models. `ready`, or still starting; how many `calls` it answers, and what `share` of a core it used in the last second.
 */
export interface ModelWorker {
  calls: number;
  pid: number;
  ready: boolean;
  share: number;
}
/**
 * Nothing.
 */
export interface HealthQuery {}
/**
 * What a task waits to be told. `notes` are sentences below the question.
 */
export interface Question {
  kind: string;
  notes: string[];
  options: AnswerOption[];
  prompt_id: string;
  question: string;
}
export interface Request {
  id: string;
  method: string;
  params?: {
    [k: string]: unknown;
  };
}
export interface Response {
  error?: ErrorInfo | null;
  id: string;
  ok: boolean;
  payload?: {
    [k: string]: unknown;
  };
}
export interface RunStepQuery {
  step_id: string;
  task_id: string;
}
/**
 * A call of a model or of a tool. What the other kind has is null or empty: `provider`, `model`, `ttft_ms`, `token_usage` and `cost` are a model's, `tool_id`, `arguments`, `summary` and `artifacts` a tool's. `name` is the model's alias, or the name by which the model knows the tool; `purpose` is a model's: to answer, or to check a call of a tool in the place of a person. A model's answer that is "rejected" does not fit the schema that was asked for: `error` says why.
 */
export interface Step {
  arguments: {} | null;
  artifacts: string[];
  call_id: string;
  /**
   * In 1e-9 USD; null where a price is unknown.
   */
  cost: number | null;
  duration_ms: number | null;
  error: Failure | null;
  kind: 'model' | 'tool';
  model: string;
  name: string;
  provider: string;
  purpose: '' | 'answer' | 'check';
  round: number;
  started_at: string;
  status: 'cancelled' | 'completed' | 'denied' | 'failed' | 'rejected' | 'requested' | 'running' | 'uncertain';
  summary: string;
  token_usage: TokenUsage | null;
  tool_id: string;
  ttft_ms: number | null;
}
/**
 * Tokens, as the provider counted them.
 */
export interface TokenUsage {
  input: number;
  output: number;
}
/**
 * One try at a step. `message` is why it failed, or why what had to hold does. Of a run that is held, one that ended meanwhile is told as the run will record it; it is "Paused" where its result is to be checked first, or its task is held itself.
 */
export interface StepAttempt {
  attempt: number;
  finished_at: string | null;
  message: string;
  started_at: string;
  state: 'Done' | 'Failed' | 'Paused' | 'Working';
  task_id: string;
  visit: number;
}
/**
 * The call of a tool that a step made at once, without a task of its own. `argument` is the one of `args` that a row shows, `rule` what let the call pass, `summary` the result in a few words.
 */
export interface StepCall {
  args: {
    [k: string]: unknown;
  };
  argument: string;
  duration_ms: number;
  name: string;
  rule: string;
  summary: string;
}
/**
 * One step in full. `instruction` says what is to be done, filled in as far as that is known; `input` what a call, or another skill, is given; null where there is none. `acceptance` is what has to hold for the result, `accepted` why it does. `result` is what the step gave, as text, its beginning where `is_cut`. `calls` are those of its latest task, `call` the one that it made without a task; null where it made none so.
 */
export interface StepDetail {
  acceptance: string;
  accepted: string;
  attempts: StepAttempt[];
  call: StepCall | null;
  calls: Step[];
  input: unknown;
  instruction: string;
  is_cut: boolean;
  kind: 'agent' | 'approve' | 'ask' | 'call' | 'none' | 'skill' | 'wait';
  result: string;
  step_id: string;
  title: string;
}
/**
 * One unit of work. `model` is what was asked for it, empty for the session's own; `reason` says why it is in its state, where there is more to say; `stopping`: its end was asked for, and has not come; `pausing`: it is to be held, and goes on to where it can be. `cell_id` is the notebook's cell that it came from, empty where it came from none. `parent_id` is the task that delegated it, as a run of a skill does with each `step`, and `run_id` the one above all of these: its own where nobody delegated it. `waiting` is what was delegated below it, however deep, and waits for a person.
 */
export interface Task {
  attempt: number;
  cell_id: string;
  channel: string;
  /**
   * In 1e-9 USD; null where a price is unknown.
   */
  cost: number | null;
  created_at: string;
  error: Failure | null;
  finished_at: string | null;
  mode: string;
  model: string;
  parent_id: string | null;
  pausing: boolean;
  reason: string;
  risk_level: string;
  rounds: number;
  run_id: string;
  sender_id: string;
  session_id: string | null;
  status:
    | 'CANCELLED'
    | 'CREATED'
    | 'FAILED'
    | 'PAUSED'
    | 'QUEUED'
    | 'RUNNING'
    | 'SUCCEEDED'
    | 'WAITING_APPROVAL'
    | 'WAITING_INPUT';
  step: string;
  stopping: boolean;
  task_id: string;
  title: string;
  token_usage: TokenUsage;
  tool_calls: number;
  updated_at: string;
  waiting: WaitingStep[];
}
/**
 * A delegated task that waits for a person; `title` names the skill and the step: "sums: gate".
 */
export interface WaitingStep {
  status:
    | 'CANCELLED'
    | 'CREATED'
    | 'FAILED'
    | 'PAUSED'
    | 'QUEUED'
    | 'RUNNING'
    | 'SUCCEEDED'
    | 'WAITING_APPROVAL'
    | 'WAITING_INPUT';
  task_id: string;
  title: string;
}
/**
 * `option` is one of those that the question offers, by its name or label; `amount` takes the place of the one it offers, `text` goes with one that takes words. `prompt_id` says which question was seen: another one is not answered then.
 */
export interface TaskAnswer {
  amount?: number | null;
  option: string;
  prompt_id?: string | null;
  task_id: string;
  text?: string;
}
/**
 * `reason` is kept with the task.
 */
export interface TaskCancel {
  reason?: string;
  task_id: string;
}
/**
 * A run of a skill: its steps as they stand, and how they are drawn. `state` is the whole in a word, `current` the state in which a state machine is. `settled` steps have come to their end, whichever. `version` changes with everything but the time.
 */
export interface TaskGraph {
  asking: number;
  current: string;
  failed: number;
  kind: 'dag' | 'fsm';
  layout: GraphLayout;
  name: string;
  running: number;
  settled: number;
  state:
    | 'Done'
    | 'Failed'
    | 'Needs a decision'
    | 'Paused'
    | 'Skipped'
    | 'Stopped'
    | 'Waiting'
    | 'Waiting for you'
    | 'Waiting for your answer'
    | 'Working';
  status:
    | 'CANCELLED'
    | 'CREATED'
    | 'FAILED'
    | 'PAUSED'
    | 'QUEUED'
    | 'RUNNING'
    | 'SUCCEEDED'
    | 'WAITING_APPROVAL'
    | 'WAITING_INPUT';
  steps: GraphStep[];
  task_id: string;
  version: string;
}
/**
 * `known`: the `version` of the answer before. Where the run still is like that, the answer is 204.
 */
export interface TaskGraphQuery {
  known?: string | null;
  task_id: string;
  /**
   * So many px there are for the picture.
   */
  width?: number;
}
/**
 * A turn as a cell shows it. Once it has ended, `data` and `metadata` are what a kernel writes at its end as one `display_data`, and `html` is empty; `graph` is the `data` of a second one where the task is a run of a skill with steps, else empty. While it goes on, only `html` is there, its live form, which is inert; a time in it that runs on has its seconds in `data-s`. `version` changes with all else that is shown.
 */
export interface TaskOutput {
  data: {
    [k: string]: unknown;
  };
  graph: {
    [k: string]: unknown;
  };
  html: string;
  metadata: {
    [k: string]: unknown;
  };
  status:
    | 'CANCELLED'
    | 'CREATED'
    | 'FAILED'
    | 'PAUSED'
    | 'QUEUED'
    | 'RUNNING'
    | 'SUCCEEDED'
    | 'WAITING_APPROVAL'
    | 'WAITING_INPUT';
  task_id: string;
  version: string;
}
/**
 * `known`: the `version` of the answer before. Where that is still how the turn is, the answer is 204.
 */
export interface TaskOutputQuery {
  known?: string | null;
  task_id: string;
}
/**
 * A part of a list. `next` is the `cursor` of the part behind it, null at the end.
 */
export interface TaskPage {
  items: Task[];
  next: string | null;
}
/**
 * `reason` is kept with the task; empty stands for "by you".
 */
export interface TaskPause {
  reason?: string;
  task_id: string;
}
export interface TaskQuery {
  task_id: string;
}
/**
 * Which attempt comes, how many turns of its session come before, and what it has left: rounds where it is a turn, steps where it is a run of a workflow, and of its own budget; null where that has no limit.
 */
export interface TaskRetry {
  ahead: number;
  attempt: number;
  /**
   * In 1e-9 USD.
   */
  cost_left: number | null;
  rounds_left: number | null;
  steps_left: number | null;
  task_id: string;
  time_left_s: number | null;
  tokens_left: number | null;
}
/**
 * A task with what was asked, what was answered so far, each call on the way there, and what it waits to be told. `waits_for` are the events outside that steps of a run wait for, `updates` what was said to it meanwhile, `failed_steps` those that it failed by. `answer` is the value of an answer that had to fit a JSON Schema, once it is there; else null.
 */
export interface TaskWithSteps {
  answer: unknown;
  attempt: number;
  cell_id: string;
  channel: string;
  content: string;
  /**
   * In 1e-9 USD; null where a price is unknown.
   */
  cost: number | null;
  created_at: string;
  error: Failure | null;
  failed_steps: FailedStep[];
  finished_at: string | null;
  mode: string;
  model: string;
  parent_id: string | null;
  pausing: boolean;
  question: Question | null;
  reason: string;
  risk_level: string;
  rounds: number;
  run_id: string;
  sender_id: string;
  session_id: string | null;
  status:
    | 'CANCELLED'
    | 'CREATED'
    | 'FAILED'
    | 'PAUSED'
    | 'QUEUED'
    | 'RUNNING'
    | 'SUCCEEDED'
    | 'WAITING_APPROVAL'
    | 'WAITING_INPUT';
  step: string;
  steps: Step[];
  stopping: boolean;
  task_id: string;
  text: string;
  title: string;
  token_usage: TokenUsage;
  tool_calls: number;
  updated_at: string;
  updates: string[];
  waiting: WaitingStep[];
  waits_for: string[];
}
/**
 * `notebook`: those of the session that this notebook has now. `parent`: those that this task has delegated, such as the steps of a run; `all`: those that any has, too.
 */
export interface TasksQuery {
  all?: boolean;
  cursor?: string | null;
  /**
   * How many items a page has at most.
   */
  limit?: number;
  notebook?: string | null;
  parent?: string | null;
  session_id?: string | null;
  status?: (
    | 'CANCELLED'
    | 'CREATED'
    | 'FAILED'
    | 'PAUSED'
    | 'QUEUED'
    | 'RUNNING'
    | 'SUCCEEDED'
    | 'WAITING_APPROVAL'
    | 'WAITING_INPUT'
  )[];
}
/**
 * Nothing.
 */
export interface TodayQuery {}
/**
 * What models used. What the sums are not grouped by is null. `cost` is null where the price of any call is unknown, `known_cost` what the others cost.
 */
export interface UsageSum {
  alias: string | null;
  cached_tokens: number;
  calls: number;
  /**
   * In 1e-9 USD; null where a price is unknown.
   */
  cost: number | null;
  day: string | null;
  failed_calls: number;
  input_tokens: number;
  known_cost: number;
  model: string | null;
  output_tokens: number;
  provider: string | null;
  session_id: string | null;
  unknown_price_calls: number;
}
