/** Why something that the gateway asked of a notebook was not done; the message is a sentence for people. */

import type { NotDoneCode } from '../api/notebookFrames';

export class NotDone extends Error {
  constructor(
    readonly code: NotDoneCode,
    message: string
  ) {
    super(message);
  }
}
