/** Sends an answer once, and reports if it did not arrive. */

import * as React from 'react';

import type { Question } from '../api/protocol.gen';
import { errorText, type OzzieApi, type PromptAnswer } from '../api/requests';
import type { ITranslate } from '../model/wording';

const NO_ANSWER_MS = 5_000;

export interface ISending {
  /** The option being sent; empty for none. */
  readonly sending: string;
  /** Why the last one did not count; empty if it did. */
  readonly problem: string;
  readonly send: (given: Omit<PromptAnswer, 'prompt_id'>) => void;
}

/** `mayAct`: whether clicks count yet. On success, the feed reports that the turn goes on, and the card disappears. */
export function useSending(
  api: Pick<OzzieApi, 'answer'>,
  taskId: string,
  question: Question,
  mayAct: () => boolean,
  trans: ITranslate
): ISending {
  const [sending, setSending] = React.useState('');
  const [problem, setProblem] = React.useState('');
  const send = (given: Omit<PromptAnswer, 'prompt_id'>): void => {
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
          setProblem(errorText(error));
        }
      )
      .finally(() => clearTimeout(late));
  };
  return { sending, problem, send };
}
