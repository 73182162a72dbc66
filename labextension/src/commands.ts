/** The ids of the commands. */

export const CommandIDs = {
  showTasks: 'ozzie:show-tasks',
  openTask: 'ozzie:open-task',
  pauseTask: 'ozzie:pause-task',
  resumeTask: 'ozzie:resume-task',
  retryTask: 'ozzie:retry-task',
  stopTask: 'ozzie:stop-task',
  copyTaskId: 'ozzie:copy-task-id',
  nextApproval: 'ozzie:next-approval',
  stopTurn: 'ozzie:stop-turn',
  newNotebook: 'ozzie:new-notebook',
  firstNotebook: 'ozzie:open-first-notebook'
} as const;

export const CATEGORY = 'Ozzie';
