/** Why a notebook request was not carried out; the message is for people. */

import type { NotDoneCode } from '../api/notebookFrames';

export class NotDone extends Error {
  constructor(
    readonly code: NotDoneCode,
    message: string
  ) {
    super(message);
  }
}
