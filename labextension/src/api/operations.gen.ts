/** Made by `make types` from the gateway's operations; not to be changed by hand. */

import type {
  Approval,
  ApprovalGrant,
  ApprovalNamed,
  ApprovalPage,
  ApprovalQuery,
  ApprovalReject,
  ApprovalsQuery,
  Card,
  Done,
  EventRecordPage,
  EventsQuery,
  ExamplePage,
  ExamplesQuery,
  Health,
  HealthQuery,
  MessageConfirm,
  RunStepQuery,
  StepDetail,
  TaskAnswer,
  TaskCancel,
  TaskGraph,
  TaskGraphQuery,
  TaskOutput,
  TaskOutputQuery,
  TaskPage,
  TaskPause,
  TaskQuery,
  TaskRetry,
  TaskWithSteps,
  TasksQuery,
  TodayQuery,
  UsageSum
} from './protocol.gen';

/** The method and the path of each operation that the page uses. */
export const OPERATIONS = {
  get_health: 'GET /health',
  list_tasks: 'GET /tasks',
  get_task: 'GET /tasks/{task_id}',
  get_task_output: 'GET /tasks/{task_id}/output',
  get_task_graph: 'GET /tasks/{task_id}/graph',
  get_run_step: 'GET /tasks/{task_id}/steps/{step_id}',
  list_events: 'GET /events',
  sum_today: 'GET /usage/today',
  list_examples: 'GET /examples',
  confirm_message: 'POST /messages/confirm',
  answer_task: 'POST /tasks/{task_id}/answer',
  cancel_task: 'POST /tasks/{task_id}/cancel',
  pause_task: 'POST /tasks/{task_id}/pause',
  resume_task: 'POST /tasks/{task_id}/resume',
  retry_task: 'POST /tasks/{task_id}/retry',
  list_approvals: 'GET /approvals',
  get_approval: 'GET /approvals/{approval_id}',
  get_approval_card: 'GET /approvals/{approval_id}/card',
  grant_approval: 'POST /approvals/{approval_id}/approve',
  reject_approval: 'POST /approvals/{approval_id}/reject',
  renew_approval: 'POST /approvals/{approval_id}/renew'
} as const;

/** What each takes and answers. */
export interface Operations {
  get_health: { input: HealthQuery; answer: Health };
  list_tasks: { input: TasksQuery; answer: TaskPage };
  get_task: { input: TaskQuery; answer: TaskWithSteps };
  get_task_output: { input: TaskOutputQuery; answer: TaskOutput | null };
  get_task_graph: { input: TaskGraphQuery; answer: TaskGraph | null };
  get_run_step: { input: RunStepQuery; answer: StepDetail };
  list_events: { input: EventsQuery; answer: EventRecordPage };
  sum_today: { input: TodayQuery; answer: UsageSum };
  list_examples: { input: ExamplesQuery; answer: ExamplePage };
  confirm_message: { input: MessageConfirm; answer: Done };
  answer_task: { input: TaskAnswer; answer: Done };
  cancel_task: { input: TaskCancel; answer: Done };
  pause_task: { input: TaskPause; answer: Done };
  resume_task: { input: TaskQuery; answer: Done };
  retry_task: { input: TaskQuery; answer: TaskRetry };
  list_approvals: { input: ApprovalsQuery; answer: ApprovalPage };
  get_approval: { input: ApprovalQuery; answer: Approval };
  get_approval_card: { input: ApprovalQuery; answer: Card };
  grant_approval: { input: ApprovalGrant; answer: Done };
  reject_approval: { input: ApprovalReject; answer: Done };
  renew_approval: { input: ApprovalNamed; answer: Done };
}
