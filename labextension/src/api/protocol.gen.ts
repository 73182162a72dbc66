/** The shapes on the wire. Made from protocol.schema.json by `make types`: not to be changed by hand. */

/**
 * Where an answer came from, weakest first: a second model, if a rule allows that; a kernel, which runs the user's code; another program of the user's; a page under the user's own identity; a user who authenticated again.
 */
export type AuthStrength = 'browser' | 'cli' | 'model' | 'relay' | 'step_up';
export type RiskLevel = 'high' | 'low' | 'medium';
export type SideEffect = 'irreversible' | 'none' | 'reversible';
/**
 * What an argument names: a file or folder below the project, an address of the web, a command as a list of words; an address of mail, an account, an amount of money, a person, a calendar or a channel by name, or an object of a service by its id or title.
 */
export type TargetKind =
  'account' | 'amount' | 'calendar' | 'channel' | 'command' | 'object' | 'path' | 'person' | 'recipient' | 'url';
/**
 * Effects that ask first whatever the tool's side effect, unless a rule names the tool; some even then (`policy.engine`).
 */
export type Category =
  'code_cell' | 'config_change' | 'delete' | 'external_send' | 'host_command' | 'live_kernel' | 'payment';

/**
 * One possible answer. `amount` is the amount offered, if it has a `unit`: 1e-9 USD, tokens, or milliseconds. `help` is a line about it; an option that `takes_text` comes with the person's text.
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
 * A call that a person must approve, and the answer. `why` explains the `status`: an approval expired because its time was up, the call would now do something else ("changed"), or its task ended; a granted one became void because it was "revoked" or the call has "changed". `sentence` is the question and `proof` what the call would do, a diff or a text as `shown` says; the artifact `whole` has all of it if that is more. `reason`, `rule` and `place` belong to the decision to ask; `undo` is how to take the effect back, if known. A yes must come by the way `needs` or a stronger one: model, relay, cli, browser, step_up. `session_cover` describes what a yes for the session covers, null if none is offered, and `standing` what a standing yes lets through from now on, which the page alone may give, empty if none is offered. `binds` is a SHA-256 of everything that a yes is for, `key` the call's idempotency key. `by`, `way`, `extent` and `comment` belong to the answer, empty before it; `in_force_until` is the end of a yes for the session. `notebook` is the session's notebook below the root of the requested server, empty if it is elsewhere. `checked` is why a second model did not say yes, empty if none was to check. `arguments` are the call's, as JSON, long ones shortened. `made_from` is a phrase on the outside content that the call was made from, empty without any. `run_id` is the run of a skill that the call's step belongs to, and `step` names the skill and the step ("sums: gate"); both are empty outside a run. `card`: if something that looks like a secret was removed from these texts, the SHA-256 of the full card, which must be read before a yes (GET /approvals/{approval_id}/card); else empty. `targets` are what the arguments name, to be shown below the sentence; of a long list only the beginning, and the card has all. `known_from` is a sentence that says where they stand, such as in the user's own words; empty if that is not known.
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
  extent: '' | 'once' | 'session' | 'standing';
  in_force_until: string | null;
  key: string;
  known_from: string;
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
  standing: string;
  status: 'expired' | 'granted' | 'pending' | 'rejected';
  step: string;
  targets: CardTarget[];
  task_id: string;
  tool_id: string;
  undo: string;
  way: '' | 'browser' | 'cli' | 'model' | 'relay' | 'step_up';
  whole: string | null;
  why: '' | 'changed' | 'revoked' | 'task' | 'time';
}
/**
 * What one argument of a call names: recipients, accounts, amounts, people, calendars, channels or objects. `more` is how many names are left out; a card that is drawn for a person has all.
 */
export interface CardTarget {
  argument: string;
  kind: TargetKind;
  more: number;
  names: TargetName[];
}
/**
 * One name, in text that hides nothing: `text` is its normal form, or, unless it `is_read`, what was given for it. `written` is an address as given if its domain is of another alphabet, where another letter may look the same.
 */
export interface TargetName {
  is_read: boolean;
  text: string;
  written: string;
}
/**
 * An approval can't be answered any more, or its yes is void: its time is up, the call would now do something else, or a person revoked what they had allowed for the session.
 */
export interface ApprovalExpired {
  approval_id: string;
  why: 'changed' | 'revoked' | 'time';
}
/**
 * `extent`: this call only, or also those that `session_cover` or `standing` describes.
 */
export interface ApprovalGrant {
  approval_id: string;
  /**
   * That of the request that was seen: another one is not answered then. Empty: whatever it asks.
   */
  binds?: string;
  extent?: 'once' | 'session' | 'standing';
}
/**
 * A tool call was approved.
 */
export interface ApprovalGranted {
  approval_id: string;
  by: string;
  extent: 'once' | 'session' | 'standing';
  way: AuthStrength;
}
export interface ApprovalNamed {
  approval_id: string;
}
/**
 * A part of a list. `next` is the `cursor` of the following page, null at the end.
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
 * A person, or a second model before them, was asked to approve a tool call. `sentence` is the question, `proof` shows what the call would do, in the form `shown`. Both come from the tool's contract and the checked arguments, never from the model; `whole` is the complete proof if it is long. `reason`, `rule` and `place` are those of the decision. `undo` tells how to take the call back; empty if unknown. `binds` is a SHA-256 of everything that a yes is for: if it changes, the yes is void. `needs` is the minimum strength of a yes; `cover` is what a yes for the session would cover, null if none is offered. `expires_at` is RFC 3339 in UTC. `checked` is a sentence why a second model did not say yes, empty if none was asked. `arguments` are the call's, as JSON without secrets, long ones shortened. `made_from` is a phrase for the outside provenance of the call, or empty. `card`: if something that looks like a secret was removed from these texts, the SHA-256 of the complete card, which is drawn from the recorded call for a person who may answer; otherwise empty. `brought` are the outside sources that these texts may quote, such as those of a labelled file that would be changed. `targets` are what the arguments name beside paths, addresses of the web and commands, which a card shows below the sentence; `known_from` is a sentence that says where they stand, such as in the user's own words, or empty. `standing` is what a person may let through from now on ("`write_file` and `edit_file` in `notes/`"), empty if that is not offered.
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
  known_from: string;
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
  standing: string;
  targets: CardTarget[];
  tool_id: string;
  undo: string;
  whole: string | null;
}
/**
 * What a yes for the session covers: calls of the tool in this version and project that the same rule asks for, if every path is below one of the folders `below` or is one of the files `on`, every host is one of `hosts`, and the call is made from content with the same labels. A call without paths and hosts could do anything, and one that names a recipient or the like is for just that, so only the identical call is covered: `arguments` is the SHA-256 of its arguments, otherwise empty. `said` describes the grant to people: "`edit_file` in `notes/`".
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
 * `status` may be repeated; without it, approvals of any status.
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
 * A server that relays requests to the owner, and takes over when the owner goes.
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
 * Everything that a person must read before answering, complete: the question, all that the call names (`targets`), what it would do (`proof`, of the kind `shown`), how to undo it, and all arguments as JSON. Invisible characters are escaped.
 */
export interface Card {
  arguments: string;
  proof: string;
  sentence: string;
  shown: '' | 'diff' | 'text';
  targets: CardTarget[];
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
 * Done.
 */
export interface Done {
  done: true;
}
/**
 * A refusal: a stable code, a sentence, and what to do next (may be empty).
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
  'prompt.answered': PromptAnswered;
  'prompt.requested': PromptRequested;
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
 * `path` is relative to the project, or the name of one that came with its message; `ref` is its content at that time, `size` in bytes.
 */
export interface Picture {
  media_type: string;
  path: string;
  ref: string;
  size: number;
}
/**
 * The model's complete response. `cost` is in 1e-9 USD, None if unknown; `ttft_ms` is None if no token came. `alias`, `provider` and `model` are those of its start, empty in logs older than that.
 */
export interface ModelCallCompleted {
  alias: string;
  call_id: string;
  cost: number | null;
  finish: 'cancelled' | 'content_filter' | 'failed' | 'length' | 'stop' | 'tool_calls';
  latency_ms: number;
  model: string;
  provider: string;
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
 * The model call ended without a complete response. `partial_blob` holds what had arrived, if anything. `latency_ms` is None if the gateway ended during the call; then it is unknown what had arrived. If the provider may still charge for it, budgets count all that was reserved: `settled_cost` (1e-9 USD; None for an unknown price) and `settled_tokens`. Older logs have neither. `hint` is the next step, `detail` the provider's own message, shortened and without keys, `after_s` how long it asks to wait; older logs have none of them.
 */
export interface ModelCallFailed {
  after_s: number | null;
  call_id: string;
  code: string;
  detail: string;
  hint: string;
  latency_ms: number | null;
  message: string;
  partial_blob: string | null;
  settled_cost: number | null;
  settled_tokens: number;
}
/**
 * One request to a model. `config`, `prompt` and `tools` are content hashes, so that a deterministic replay can tell what changed. A round may need several calls: `attempt` counts them, and `instead_of` names the provider that this one replaces. It reserves `reserved_tokens` and `reserved_cost` (1e-9 USD; None for an unknown price) in the budgets of its task, session, `project` (a folder) and `day` (YYYY-MM-DD where the gateway runs). `updates` counts the task's updates in the request. `purpose`: to answer the user, to check a tool call, or to summarize earlier turns or a long result; only the first has a reply with its `reply_id`. `context` and `max_output` are the model's limits in tokens, of a conversation and of an answer, as far as they were known; older logs lack them.
 */
export interface ModelCallStarted {
  alias: string;
  attempt: number;
  call_id: string;
  config: string;
  context: number | null;
  day: string;
  instead_of: string;
  max_output: number | null;
  model: string;
  project: string;
  prompt: string;
  provider: string;
  purpose: 'answer' | 'check' | 'summary';
  reply_id: string;
  request_blob: string;
  reserved_cost: number | null;
  reserved_tokens: number;
  round: number;
  tools: string;
  updates: number;
}
/**
 * The first answer to a question; later ones are refused. `option` is the name of the chosen one, `text` what the person wrote. `message_id` is that of a message to the session which was taken as the answer.
 */
export interface PromptAnswered {
  amount: number;
  by: string;
  message_id: string | null;
  option: string;
  prompt_id: string;
  text: string;
}
/**
 * A person was asked a question. `notes` are sentences below it; `call_id` is set for a question of the model: the answer is the result of that tool call; and for one of an MCP `server`, which asks during that call.
 */
export interface PromptRequested {
  call_id: string | null;
  kind: 'asks' | 'budget' | 'question' | 'server' | 'uncertain';
  notes: string[];
  options: PromptOption[];
  prompt_id: string;
  question: string;
}
/**
 * One answer to choose from. `unit` is the unit of `amount` (1e-9 USD, tokens, ms), which the person may change; empty without an amount. `help` is a line about the option; with `takes_text`, the answer has a text.
 */
export interface PromptOption {
  amount: number;
  help: string;
  label: string;
  name: string;
  takes_text: boolean;
  unit: '' | 'cost' | 'time' | 'tokens';
}
/**
 * An attempt at a step failed. `again_in_s` is the delay before the next attempt; None if there is none. `to` is the state that the failure leads to, if any; for `call` and `took_ms` see `StepCompleted`.
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
  took_ms: number | null;
  visit: number;
}
/**
 * A call of a read-only tool, as earlier versions recorded it: in the end of its step, instead of events of its own (ADR 44). `rule` and `policy`: see `ToolCallDecided`.
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
 * A task was created, with its limits and its requester. `attended`: a person can be asked. `answer_schema` is the JSON Schema that the answer must fit, if a program reads it. `call`: the task consists of this one call. `first`: the calls that its message makes of MCP servers, before a model is asked. `mode`: an agent that is free to choose its calls, or a graph of steps; `mode_reason` says why, for a task of a session.
 */
export interface TaskCreated {
  answer_schema: {} | null;
  attended: boolean;
  brief: Brief | null;
  call: GivenCall | null;
  channel: string;
  first: GivenCall[];
  limits: Limits;
  message_id: string;
  mode: 'FREE' | 'GRAPH';
  mode_reason: string;
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
 * The task is ready to run: created, or recovered after a restart; older logs also have the reasons `answered` and `resumed`.
 */
export interface TaskQueued {
  reason: 'answered' | 'created' | 'recovered' | 'resumed';
}
/**
 * The task goes on: it is not paused any more, or what it waited for was answered or decided.
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
 * A driver claimed the task. `epoch` is a fencing token, another for each start: only the holder of the highest one may go on. `attempt` counts from 1; only a retry raises it.
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
 * The task succeeded. `rounds` counts the rounds of a turn, or the steps of a run that have ended. `delegated` is what its delegated tasks have used; None if none of them called a model.
 */
export interface TaskSucceeded {
  delegated: DelegatedUse | null;
  rounds: number;
}
/**
 * The task waits for an approval: its own, or a run for one of a step, because all its open steps wait.
 */
export interface TaskWaitingApproval {
  approval_id: string;
}
/**
 * The task waits for the answer to its question. For a run, whose open steps all wait, `question` says for what: an answer or a signal.
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
 * A tool call ended with a result. `data` is the result; of a large one its beginning and end, and the whole is the first of `artifacts`. `cut`: the artifact with the whole of a text of which `data` has only beginning and end, be it the result or something that the call made. `summary` is for people, in a few words. `blob` held large results before there were artifacts. `brought` are the outside sources of the result, `links` the addresses in content from the web, `wrote` the absolute paths of files that have the labels of this event from now on.
 */
export interface ToolCallCompleted {
  artifacts: string[];
  blob: string | null;
  brought: string[];
  call_id: string;
  cut: string | null;
  data: unknown;
  duration_ms: number;
  links: string[];
  ok: boolean;
  summary: string;
  wrote: string[];
}
/**
 * The rules' decision on a tool call: the rule that decided, its place in a file, the reason in words, and the version of all rules. `categories` are those of this call beyond its tool's contract, as its plan showed; `reaches` is whom or what it reaches beyond its arguments; `spent` is what had been spent on that day, by currency, as "50.00 EUR", if it has amounts.
 */
export interface ToolCallDecided {
  call_id: string;
  categories: Category[];
  decision: 'ALLOW' | 'ASK' | 'CHECK' | 'DENY';
  place: string;
  policy: string;
  reaches: Reached[];
  reason: string;
  rule: string;
  spent: string[];
}
/**
 * Whom or what a call reaches without naming it in an argument, as whoever gets the answer to a mail: `text` as the service has it. With `of`, an id in an argument, it is not reached, but another name of what has this id: its title, who sent it, who takes part.
 */
export interface Reached {
  kind: TargetKind;
  of: string;
  text: string;
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
 * The model requested a tool call; or a step of a run that only reads, `step_id`, in the run's stream. `use_id` is the model's own id, unique within the round; `call_id` is ours.
 */
export interface ToolCallRequested {
  args: {
    [k: string]: unknown;
  };
  call_id: string;
  index: number;
  name: string;
  round: number;
  step_id: string;
  tool_id: string;
  use_id: string;
  version: string;
}
/**
 * A tool is about to run; recorded durably before. `effect` describes what it will do, so that the tool can tell after a crash whether it did; null if it can't. `before` is the content that it replaces, `approval_id` the approval that it needed, if any. `writes` are the absolute paths of files that it will write: they get the labels of this event, however the call ends. `amounts` are those that its arguments name, such as "50.00 EUR".
 */
export interface ToolCallStarted {
  amounts: string[];
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
 * `position` is None and `ts` empty for a transient; else `ts` is RFC 3339 in UTC.
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
 * An event of the log. `name` is its name on the WebSocket.
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
 * A part of a list. `next` is the `cursor` of the following page, null at the end.
 */
export interface EventRecordPage {
  items: EventRecord[];
  next: string | null;
}
/**
 * `since` is the first moment included, `until` the first one excluded.
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
 * A text file that comes with Ozzie. `path` is its place in a project folder.
 */
export interface Example {
  content: string;
  path: string;
}
/**
 * A part of a list. `next` is the `cursor` of the following page, null at the end.
 */
export interface ExamplePage {
  items: Example[];
  next: string | null;
}
/**
 * No parameters.
 */
export interface ExamplesQuery {}
/**
 * A step that a run failed by. `task_id` carried out its last attempt, if a task did.
 */
export interface FailedStep {
  error: Failure;
  step_id: string;
  task_id: string | null;
  title: string;
}
/**
 * Why a task or a step failed. `kind` is its class (of the model, its text, a tool, the request, or Ozzie), empty for a call. `hint` is the next step.
 */
export interface Failure {
  code: string;
  hint: string;
  kind: '' | 'business' | 'model' | 'parse' | 'system' | 'tool';
  message: string;
}
/**
 * `from_position`: events after it; None: only new ones. `types`: names as in frames, or canonical ones. With a `task_id` the feed ends with the task; to follow a retry, subscribe again.
 */
export interface FeedSubscribe {
  from_position?: number | null;
  session_id?: string | null;
  task_id?: string | null;
  types?: string[] | null;
}
/**
 * The centre of one step's dot.
 */
export interface GraphDot {
  step_id: string;
  x: number;
  y: number;
}
/**
 * A line between nodes, as an SVG path. `label_x` and `label_y` are the middle of its label's base line.
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
 * The drawing, `width` × `height` px. It depends only on the structure, so nothing moves during the run.
 */
export interface GraphLayout {
  edges: GraphEdge[];
  form: 'compact' | 'dots' | 'full';
  height: number;
  nodes: GraphNode[];
  width: number;
}
/**
 * A box by its upper left corner: one step, a stack of steps, or a dot for each of its steps. `told` describes all of them as one, `after` what they wait for in words.
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
 * One step, or one state of a state machine. `note` is its own remark, `problem` why it failed; `task_id` is the task of its latest `attempt` of `attempts`, empty if it has none. `visits` is how often a state machine has entered it.
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
 * The state of the gateway. `status` is degraded if there is a `log_warning` or a warning or finding in `store`. `pid` is the process that owns the folder; `server_pid` the requested one, which differs if the `role` is attached. `temporary`: started for a while, it gives way to any server that a person starts. `position` is the end of the log; `config_error`, `policy_error`, `log_warning` and `vault_warning` are empty if all is well; `ignored_config` and `ignored_policy` are files that nobody has trusted; `policy_warnings` are about rules that may not do what their author meant. `vault` is null without a usable one.
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
 * The state of the event log and the blobs. `warnings`: what can't be written or read now, and what to do; they disappear once it works again. `checked_at`: the last daily check of everything stored; `findings`: what it found wrong.
 */
export interface StoreHealth {
  checked_at: string | null;
  findings: string[];
  warnings: string[];
}
/**
 * The state of the vault, without any names in it. `opens_with`: what can open it; `locked`: the gateway has not opened it.
 */
export interface VaultHealth {
  locked: boolean;
  opens_with: ('keyfile' | 'keyring' | 'passphrase')[];
  secrets: number;
}
/**
 * A process that calls models: `ready` or still starting, with its current `calls` and the `share` of a core that it used in the last second.
 */
export interface ModelWorker {
  calls: number;
  pid: number;
  ready: boolean;
  share: number;
}
/**
 * No parameters.
 */
export interface HealthQuery {}
/**
 * `execution`: the `msg_id` of the request to the kernel that ran the cell. `parts`: all of the cell's text, in parts that are in turn typed by the person and not: pasted, or there before. The first is typed, and may be empty.
 */
export interface MessageConfirm {
  execution: string;
  /**
   * @minItems 1
   * @maxItems 200
   */
  parts: [string, ...string[]];
}
/**
 * A task's latest event of consequence, and the checkpoint that a run goes on from.
 */
export interface Pointers {
  latest_checkpoint_id: string | null;
  latest_event_id: string;
}
/**
 * A task's question. `notes` are sentences below it.
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
/**
 * Who requested a task: `sender_id` on a `channel`, such as notebook, page or cli.
 */
export interface Requester {
  channel: string;
  sender_id: string;
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
 * A call of a model or a tool. Fields of the other kind are null or empty: `provider`, `model`, `ttft_ms`, `token_usage` and `cost` belong to models; `tool_id`, `arguments`, `summary` and `artifacts` to tools. `name` is the model's alias, or the tool's name for the model; a model's `purpose` is to answer, to check a tool call in place of a person, or to summarize earlier turns or a long result. A "rejected" answer doesn't fit its schema: `error` says why.
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
  purpose: '' | 'answer' | 'check' | 'summary';
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
 * One attempt at a step. `message` is why it failed, or why its acceptance holds. If the run is paused, an attempt that ended meanwhile is shown as the run will record it; it is "Paused" if its result must be checked first, or its own task is paused.
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
 * A tool call that a step made at once, without a task. `argument` is the one of `args` that a row shows, `rule` what allowed the call, `summary` the result in a few words.
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
 * One step in full. `instruction` is filled in as far as known; `input` goes to a call or another skill, else null. `acceptance` must hold for the result, `accepted` is why it does. `result` is text, only its beginning if `is_cut`. `calls` are those of its latest task, `call` the one made without a task, else null.
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
 * One unit of work. `model` is the requested one, empty for the session's own; `reason` explains the state; `stopping` and `pausing`: requested, but not yet done. `cell_id` is its notebook cell, empty without one. `parent_id` is the task that delegated it, as a run of a skill does with each `step`; `run_id` is the topmost one, its own id if nobody delegated it. `thread_id` and `scope_id` name the conversation that it belongs to; `assigned_worker` is the latest start of it by a gateway, empty before the first. `waiting` are delegated tasks below it, at any depth, that wait for a person.
 */
export interface Task {
  assigned_worker: string;
  attempt: number;
  budget: TaskBudget;
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
  pointers: Pointers;
  reason: string;
  requester: Requester;
  risk_level: string;
  rounds: number;
  run_id: string;
  scope_id: string;
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
  thread_id: string;
  title: string;
  token_usage: TokenUsage;
  tool_calls: number;
  updated_at: string;
  waiting: WaitingStep[];
}
/**
 * A task's own limits; null means none. `deadline_s`: seconds of work, without the time spent waiting for people, so it is no moment.
 */
export interface TaskBudget {
  deadline_s: number | null;
  max_cost_usd: number | null;
  max_rounds: number;
  max_tokens: number | null;
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
 * `option` is one of the question's options, by name or label; `amount` replaces the amount it offers, and `text` goes with an option that takes text. If `prompt_id` is not the current question, nothing is answered.
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
 * A run of a skill: the state of its steps, and how they are drawn. `state` is the whole in a word, `current` the state of a state machine. `settled` steps have ended, in whatever way. `version` changes with everything but the time.
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
 * `known`: the `version` of an earlier answer. If the run hasn't changed since, the answer is 204.
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
 * A turn as a cell shows it. After its end, `data` and `metadata` are the `display_data` that a kernel writes, and `html` is empty; `graph` is the `data` of a second one for a run of a skill with steps, else empty. Before, only `html` is set: its live, inert form; a running time has its seconds in `data-s`. `version` changes with everything else that is shown.
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
 * `known`: the `version` of an earlier answer. If nothing has changed since, the answer is 204.
 */
export interface TaskOutputQuery {
  known?: string | null;
  task_id: string;
}
/**
 * A part of a list. `next` is the `cursor` of the following page, null at the end.
 */
export interface TaskPage {
  items: Task[];
  next: string | null;
}
/**
 * `reason` is kept with the task; empty means "by you".
 */
export interface TaskPause {
  reason?: string;
  task_id: string;
}
export interface TaskQuery {
  task_id: string;
}
/**
 * The coming attempt, how many turns of its session come first, and what is left: rounds of a turn, steps of a run, and its own budget; null without a limit.
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
 * A task with its message, its answer so far, all its calls, and its question. `waits_for` are the signals that steps of a run wait for, `updates` the messages added meanwhile, `failed_steps` those that it failed by. `answer` is the value of an answer that had to fit a JSON Schema, once complete; else null.
 */
export interface TaskWithSteps {
  answer: unknown;
  assigned_worker: string;
  attempt: number;
  budget: TaskBudget;
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
  pointers: Pointers;
  question: Question | null;
  reason: string;
  requester: Requester;
  risk_level: string;
  rounds: number;
  run_id: string;
  scope_id: string;
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
  thread_id: string;
  title: string;
  token_usage: TokenUsage;
  tool_calls: number;
  updated_at: string;
  updates: string[];
  waiting: WaitingStep[];
  waits_for: string[];
}
/**
 * `notebook`: only tasks of this notebook's current session. `parent`: only tasks delegated by this one, such as the steps of a run; `all`: delegated tasks too.
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
 * No parameters.
 */
export interface TodayQuery {}
/**
 * What models used. Fields that the sums are not grouped by are null. `cost` is null if the price of any call is unknown; `known_cost` is the cost of the others.
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
