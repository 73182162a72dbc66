/** An answer on its way to the gateway: sent once, and told where it did not arrive (UX 2.4, "Sending"). */

import * as React from 'react';

import type { Question } from '../api/protocol.gen';
import { AskError, type Given, type OzzieApi } from '../api/requests';
import type { ITranslate } from '../model/wording';

const NO_ANSWER_MS = 5_000;

export interface ISending {
  /** The option that is being sent; empty for none. */
  readonly sending: string;
  /** Why the last one did not count; empty where nothing is wrong. */
  readonly problem: string;
  readonly send: (given: Omit<Given, 'prompt_id'>) => void;
}

/** `mayAct`: whether a click counts by now. That the turn goes on, the feed tells, and the card goes. */
export function useSending(
  api: Pick<OzzieApi, 'answer'>,
  taskId: string,
  question: Question,
  mayAct: () => boolean,
  trans: ITranslate
): ISending {
  const [sending, setSending] = React.useState('');
  const [problem, setProblem] = React.useState('');
  const send = (given: Omit<Given, 'prompt_id'>): void => {
    if (sending !== '' || !mayAct()) {
      return;
    }
    setSending(given.option);
    setProblem('');
    const late = setTimeout(() => {
      setSending('');
      setProblem(trans.__('No connection. Your answer was not sent.'));
    }, NO_ANSWER_MS);
    api
      .answer(taskId, { prompt_id: question.prompt_id, ...given })
      .then(
        () => undefined,
        (error: unknown) => {
          setSending('');
          setProblem(error instanceof AskError ? `${error.message} ${error.hint}`.trim() : String(error));
        }
      )
      .finally(() => clearTimeout(late));
  };
  return { sending, problem, send };
}
