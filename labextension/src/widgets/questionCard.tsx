/** The card of a turn's question, in its cell and in the sidebar: two views of one record. */

import * as React from 'react';

import type { AnswerOption, Question } from '../api/protocol.gen';
import type { OzzieApi } from '../api/requests';
import { allowLabel, amountText, readAmount, unitWord } from '../model/answers';
import type { ITranslate } from '../model/wording';
import { useArming } from './arming';
import { ModelQuestion } from './modelQuestion';
import { useSending } from './sending';

const RETRY_MS = 2_000;

export interface IQuestionCardProps {
  readonly taskId: string;
  /** A change loads the question again: the task may ask something else. */
  readonly version: number;
  readonly api: Pick<OzzieApi, 'task' | 'answer'>;
  readonly trans: ITranslate;
  /** Heading, if its surroundings don't show who asks. */
  readonly kicker?: string;
  /** Called with whether a question is visible. */
  readonly onShown?: (isShown: boolean) => void;
}

/** The question of a waiting task; nothing until it is loaded, or if there is none. */
export function QuestionCard(props: IQuestionCardProps): React.JSX.Element | null {
  const { taskId, version, api, trans, kicker, onShown } = props;
  const [question, setQuestion] = React.useState<Question | null>(null);
  React.useEffect(() => {
    let again: ReturnType<typeof setTimeout> | undefined;
    let isCurrent = true;
    const load = (): void => {
      api.task(taskId).then(
        task => {
          if (isCurrent) {
            setQuestion(task.question);
          }
        },
        () => {
          if (isCurrent) {
            again = setTimeout(load, RETRY_MS);
          }
        }
      );
    };
    load();
    return () => {
      isCurrent = false;
      clearTimeout(again);
    };
  }, [api, taskId, version]);
  React.useEffect(() => onShown?.(question !== null), [question, onShown]);
  if (question === null) {
    return null;
  }
  const isInWords = question.kind === 'question' || question.kind === 'server';
  const Card = isInWords ? ModelQuestion : OptionQuestion;
  return (
    <>
      {kicker && <p className="jp-Ozzie-kicker">{kicker}</p>}
      <Card key={question.prompt_id} question={question} taskId={taskId} api={api} trans={trans} />
    </>
  );
}

type IOptionQuestionProps = Pick<IQuestionCardProps, 'taskId' | 'api' | 'trans'> & { readonly question: Question };

function OptionQuestion({ question, taskId, api, trans }: IOptionQuestionProps): React.JSX.Element {
  const offered = question.options.find(option => option.unit !== '');
  const [typed, setTyped] = React.useState(offered ? amountText(offered) : '');
  const { ref, isArmed, mayAct } = useArming<HTMLDivElement>();
  const { sending, problem, send } = useSending(api, taskId, question, mayAct, trans);
  const id = React.useId();
  const amount = offered ? readAmount(typed, offered.unit) : null;

  const answer = (option: AnswerOption): void => {
    const given = option.unit !== '' && amount !== option.amount ? amount : null;
    send({ option: option.name, ...(given !== null && { amount: given }) });
  };

  return (
    <div
      className="jp-Ozzie-question"
      role="group"
      aria-labelledby={id}
      data-armed={isArmed}
      data-lm-suppress-shortcuts="true"
    >
      <p className="jp-Ozzie-sentence" id={id}>
        {question.question}
      </p>
      {question.notes.map(note => (
        <p className="jp-Ozzie-note" key={note}>
          {note}
        </p>
      ))}
      <div className="jp-Ozzie-answers" ref={ref}>
        {question.options.map(option => {
          const hasAmount = option.unit !== '';
          const label = hasAmount && amount !== null ? allowLabel(amount, option.unit, trans) : option.label;
          return (
            <React.Fragment key={option.name}>
              {hasAmount && (
                <label className="jp-Ozzie-amount">
                  <input
                    value={typed}
                    size={8}
                    inputMode="decimal"
                    aria-label={trans.__('How much more')}
                    aria-invalid={amount === null}
                    onChange={event => setTyped(event.target.value)}
                  />
                  {unitWord(option.unit, trans)}
                </label>
              )}
              <button
                className="jp-Ozzie-button"
                disabled={sending !== '' || (hasAmount && amount === null)}
                onClick={() => answer(option)}
              >
                {sending === option.name ? trans.__('Sending…') : label}
              </button>
            </React.Fragment>
          );
        })}
      </div>
      <p className="jp-Ozzie-note" role="status">
        {problem}
      </p>
    </div>
  );
}
