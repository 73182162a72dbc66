/** A question of the model or of an MCP server: choices, or a person's own words. */

import * as React from 'react';

import type { AnswerOption, Question } from '../api/protocol.gen';
import type { OzzieApi } from '../api/requests';
import type { ITranslate } from '../model/wording';
import { useArming } from './arming';
import { useSending } from './sending';

/** The gateway's name for the answer that declines. */
const SKIP = 'skip';
/** The gateway's limit. */
const MAX_CHARACTERS = 20_000;
const MIN_ROWS = 3;
const MAX_ROWS = 8;

export interface IModelQuestionProps {
  readonly question: Question;
  readonly taskId: string;
  readonly api: Pick<OzzieApi, 'answer'>;
  readonly trans: ITranslate;
}

export function ModelQuestion({ question, taskId, api, trans }: IModelQuestionProps): React.JSX.Element {
  const choices = question.options.filter(option => option.name !== SKIP);
  const skip = question.options.find(option => option.name === SKIP);
  const isOnlyText = choices.length === 1 && choices[0]?.takes_text === true;
  const [chosen, setChosen] = React.useState<AnswerOption | undefined>(isOnlyText ? choices[0] : undefined);
  const [text, setText] = React.useState('');
  const words = React.useRef<HTMLTextAreaElement>(null);
  const hasField = chosen?.takes_text === true;
  React.useEffect(() => {
    const field = words.current;
    field?.addEventListener('beforeinput', keepLineBreak);
    return () => field?.removeEventListener('beforeinput', keepLineBreak);
  }, [hasField]);
  // The field that a person's choice opened gets the focus.
  const isWriting = hasField && !isOnlyText;
  React.useEffect(() => {
    if (isWriting) {
      words.current?.focus();
    }
  }, [isWriting]);
  const { ref, isArmed, mayAct } = useArming<HTMLDivElement>();
  const { sending, problem, send } = useSending(api, taskId, question, mayAct, trans);
  const id = React.useId();
  const isOfServer = question.kind === 'server';
  const isReady = chosen !== undefined && (!chosen.takes_text || text.trim() !== '');

  const answer = (): void => {
    if (chosen && isReady) {
      send({ option: chosen.name, ...(chosen.takes_text && { text }) });
    }
  };
  const onKeyDown = (event: React.KeyboardEvent): void => {
    if (event.key === 'Enter' && event.shiftKey && !event.nativeEvent.isComposing) {
      event.preventDefault();
      answer();
    } else if (!(event.target instanceof HTMLTextAreaElement) && !event.ctrlKey && !event.metaKey && !event.altKey) {
      const named = choices.find(option => option.name === event.key && !option.takes_text);
      if (named) {
        event.preventDefault();
        setChosen(named);
      }
    }
  };

  return (
    <div
      className="jp-Ozzie-question jp-Ozzie-mod-model"
      role="group"
      aria-labelledby={id}
      tabIndex={-1}
      ref={ref}
      data-armed={isArmed}
      data-lm-suppress-shortcuts="true"
      onKeyDown={onKeyDown}
    >
      <p className="jp-Ozzie-sentence" id={id}>
        {question.question}
      </p>
      {question.notes.map(note => (
        <p className="jp-Ozzie-note" key={note}>
          {note}
        </p>
      ))}
      {!isOnlyText && (
        <div role="radiogroup" aria-labelledby={id}>
          {choices.map(option => (
            <label className="jp-Ozzie-choice" key={option.name}>
              <input
                type="radio"
                name={id}
                checked={chosen?.name === option.name}
                onChange={() => setChosen(option)}
                disabled={sending !== ''}
              />
              <span>
                {option.takes_text && !isOfServer ? trans.__('Something else…') : option.label}
                {option.help !== '' && <span className="jp-Ozzie-note">{option.help}</span>}
              </span>
            </label>
          ))}
        </div>
      )}
      {hasField && (
        <textarea
          className="jp-Ozzie-words"
          ref={words}
          value={text}
          rows={rowsOf(text)}
          maxLength={MAX_CHARACTERS}
          aria-label={trans.__('Your answer')}
          placeholder={trans.__('Your answer')}
          disabled={sending !== ''}
          onChange={event => setText(event.target.value)}
        />
      )}
      <div className="jp-Ozzie-answers">
        <button
          className="jp-Ozzie-button"
          disabled={sending !== '' || !isReady}
          title={trans.__('Shift Enter')}
          onClick={answer}
        >
          {sending !== '' && sending !== SKIP ? trans.__('Sending…') : trans.__('Answer')}
        </button>
        {skip && (
          <button className="jp-Ozzie-button" disabled={sending !== ''} onClick={() => send({ option: skip.name })}>
            {sending === SKIP ? trans.__('Sending…') : isOfServer ? trans.__('Cancel') : trans.__('Skip')}
          </button>
        )}
      </div>
      <p className="jp-Ozzie-note" role="status">
        {problem}
      </p>
    </div>
  );
}

/**
 * Lab takes Enter as a command in every field of a cell and prevents the line break; its listener runs after this one.
 */
function keepLineBreak(event: InputEvent): void {
  if (event.inputType === 'insertLineBreak') {
    event.stopImmediatePropagation();
  }
}

/** Grows with the text, within bounds. */
function rowsOf(text: string): number {
  return Math.min(Math.max(text.split('\n').length, MIN_ROWS), MAX_ROWS);
}
