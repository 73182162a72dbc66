/** What the kernel calls our widget by; the version is this package's. */

export const WIDGETS = {
  module: '@ozzie/labextension',
  version: '0.1.0',
  model: 'ApprovalModel',
  view: 'ApprovalView'
} as const;
