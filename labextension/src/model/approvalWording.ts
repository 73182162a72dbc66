/** Words for approvals, without invisible characters; pure. */

import type { CardTarget } from '../api/approval';
import type { ApprovalRow } from './approvals';
import { visibleLabel } from './visible';
import { clockMinute, type ITranslate } from './wording';

const HOUR_MS = 3_600_000;

/** A piece of a sentence; `isCode` if the gateway put it in backticks. */
export interface ISpan {
  readonly text: string;
  readonly isCode: boolean;
}

/** Split "Change 3 lines of `notes/a.md`?" into pieces. */
export function spans(sentence: string): ISpan[] {
  return visibleLabel(sentence)
    .split('`')
    .map((text, at) => ({ text, isCode: at % 2 === 1 }))
    .filter(({ text }) => text !== '');
}

/** Return the sentence without backticks, for titles and screen readers. */
export function plain(sentence: string): string {
  return spans(sentence)
    .map(({ text }) => text)
    .join('');
}

/** Whether answering needs special care: irreversible, or high risk. */
export function isHighStakes(row: Pick<ApprovalRow, 'side_effect' | 'risk_level'>): boolean {
  return row.side_effect === 'irreversible' || row.risk_level === 'high';
}

export function becauseText(reason: string, trans: ITranslate): string {
  const text = inside(reason);
  return text ? trans.__('Ozzie asks because %1.', text) : '';
}

/** A sentence of the gateway's within another one: it begins with a small letter, unless its first word is "I", a name
 * or an abbreviation. */
function inside(sentence: string): string {
  const text = visibleLabel(sentence).replace(/\.$/, '');
  return /^(?!I\s)\p{Lu}\p{Ll}*(?=\s|$)/u.test(text) ? text.charAt(0).toLowerCase() + text.slice(1) : text;
}

/**
 * What may become of the call at worst, but for what the reason of the floor that asks says already. A floor has no
 * place: a rule in a file may have the same id and say something else.
 */
export function worstText(
  {
    side_effect,
    risk_level,
    undo,
    rule,
    place
  }: Pick<ApprovalRow, 'side_effect' | 'risk_level' | 'undo' | 'rule' | 'place'>,
  trans: ITranslate
): string {
  const floor = place === '' ? rule : '';
  const isHigh = risk_level === 'high' && floor !== 'floor.high_risk';
  return [undoText(side_effect, undo, floor, trans), isHigh && trans.__('Its risk is high.')].filter(Boolean).join(' ');
}

function undoText(effect: ApprovalRow['side_effect'], undo: string, floor: string, trans: ITranslate): string {
  switch (effect) {
    case 'irreversible':
      return [floor !== 'floor.irreversible' && trans.__('It can’t be undone.'), visibleLabel(undo)]
        .filter(Boolean)
        .join(' ');
    case 'reversible':
      return undo ? trans.__('It can be undone: %1.', inside(undo)) : trans.__('It can be undone; how is not known.');
    case 'none':
      return trans.__('It changes nothing.');
    default:
      return trans.__('Whether it can be undone is not known.');
  }
}

/** What one argument of a call names; `word` says what it is. */
export interface ITargetLine {
  readonly word: string;
  readonly names: readonly ITargetName[];
  /** What is left out, in words to put behind the names; empty if nothing is. */
  readonly rest: string;
}

export interface ITargetName {
  readonly text: string;
  /** What there is to say about it; empty if nothing. */
  readonly note: string;
}

export function targetLines({ targets }: Pick<ApprovalRow, 'targets'>, trans: ITranslate): ITargetLine[] {
  return targets.map(({ kind, argument, names, more }) => {
    const word = targetWord(kind, trans);
    const isAlone = targets.filter(each => each.kind === kind).length === 1;
    return {
      word:
        isAlone || argument === '' || argument === word.toLowerCase()
          ? word
          : trans.__('%1 (%2)', word, visibleLabel(argument)),
      names: names.map(name => ({ text: visibleLabel(name.text), note: nameNote(name, trans) })),
      rest: restText(names.length, more, trans)
    };
  });
}

function restText(shown: number, more: number, trans: ITranslate): string {
  if (more === 0) {
    return '';
  }
  return shown > 0 ? trans._n(' and %1 more', ' and %1 more', more, more) : trans.__('too long to be shown here');
}

function targetWord(kind: CardTarget['kind'], trans: ITranslate): string {
  switch (kind) {
    case 'recipient':
      return trans.__('To');
    case 'account':
      return trans.__('Account');
    case 'amount':
      return trans.__('Amount');
    case 'person':
      return trans.__('Person');
    case 'calendar':
      return trans.__('Calendar');
    case 'channel':
      return trans.__('Channel');
    case 'object':
      return trans.__('Object');
    default:
      return trans.__('Not known');
  }
}

function nameNote({ written, is_read }: CardTarget['names'][number], trans: ITranslate): string {
  if (!is_read) {
    return trans.__('can’t be read');
  }
  return written ? trans.__('written %1', visibleLabel(written)) : '';
}

export function riskText(row: Pick<ApprovalRow, 'risk_level'>, trans: ITranslate): string {
  switch (row.risk_level) {
    case 'low':
      return trans.__('Low');
    case 'medium':
      return trans.__('Medium');
    case 'high':
      return trans.__('High');
    default:
      return trans.__('Not known');
  }
}

export function effectText(row: Pick<ApprovalRow, 'side_effect'>, trans: ITranslate): string {
  switch (row.side_effect) {
    case 'none':
      return trans.__('None');
    case 'reversible':
      return trans.__('Can be undone');
    case 'irreversible':
      return trans.__('Cannot be undone');
    default:
      return trans.__('Not known');
  }
}

/** The coverage of a yes for the session, or that none is offered. */
export function sessionText(row: ApprovalRow, trans: ITranslate): string {
  return !isHighStakes(row) && row.session_cover !== null
    ? trans.__('For this session: %1', row.session_cover)
    : trans.__('Each such call asks.');
}

/** "Expires in 9:41"; after more than an hour "Expires at 16:10". Only the gateway decides when time is up. */
export function expiryText(row: Pick<ApprovalRow, 'expires_at'>, now: number, trans: ITranslate): string {
  const time = shortExpiry(row, now);
  return Date.parse(row.expires_at) - now > HOUR_MS ? trans.__('Expires at %1', time) : trans.__('Expires in %1', time);
}

/** The time alone, for narrow places: "9:41", "16:10". */
export function shortExpiry(row: Pick<ApprovalRow, 'expires_at'>, now: number): string {
  const at = Date.parse(row.expires_at);
  if (at - now > HOUR_MS) {
    return clockMinute(at);
  }
  const { minutes, seconds } = left(at, now);
  return `${minutes}:${String(seconds).padStart(2, '0')}`;
}

/** The same for screen readers: "Expires in 9 minutes 41 seconds". */
export function spokenExpiry(row: Pick<ApprovalRow, 'expires_at'>, now: number, trans: ITranslate): string {
  const at = Date.parse(row.expires_at);
  if (at - now > HOUR_MS) {
    return expiryText(row, now, trans);
  }
  const { minutes, seconds } = left(at, now);
  const parts = [
    minutes && trans._n('%1 minute', '%1 minutes', minutes, minutes),
    (seconds || !minutes) && trans._n('%1 second', '%1 seconds', seconds, seconds)
  ];
  return trans.__('Expires in %1', parts.filter(Boolean).join(' '));
}

function left(at: number, now: number): { minutes: number; seconds: number } {
  const whole = Math.max(Math.floor((at - now) / 1000), 0);
  return { minutes: Math.floor(whole / 60), seconds: whole % 60 };
}

/** Return the outcome, for one row. */
export function endText(row: ApprovalRow, trans: ITranslate): string {
  const at = row.answered_at === null ? '' : clockMinute(Date.parse(row.answered_at));
  const who = visibleLabel(row.by);
  switch (row.status) {
    case 'granted': {
      if (row.way === 'model') {
        return [trans.__('Approved by %1, %2.', modelText(who, trans), at), voidText(row, trans)]
          .filter(Boolean)
          .join(' ');
      }
      const where = whereText(row, trans);
      return [grantedText(row.extent, who, where, at, trans), voidText(row, trans)].filter(Boolean).join(' ');
    }
    case 'rejected': {
      const comment = visibleLabel(row.comment);
      if (row.way === 'model') {
        return trans.__('Rejected by %1: "%2"', modelText(who, trans), comment);
      }
      return comment
        ? trans.__('Rejected by %1: "%2"', who, comment)
        : trans.__('Rejected by %1 in %2, %3.', who, whereText(row, trans), at);
    }
    case 'expired':
      switch (row.why) {
        case 'changed':
          return trans.__('The request changed. Nothing was done.');
        case 'task':
          return trans.__('The task ended. Nothing was done.');
        default:
          return trans.__('Expired at %1. Nothing was done.', at);
      }
    case 'pending':
      return '';
  }
}

function grantedText(extent: ApprovalRow['extent'], who: string, where: string, at: string, trans: ITranslate): string {
  switch (extent) {
    case 'session':
      return trans.__('Approved for this session by %1 in %2, %3.', who, where, at);
    case 'standing':
      return trans.__('Approved from now on by %1 in %2, %3.', who, where, at);
    default:
      return trans.__('Approved once by %1 in %2, %3.', who, where, at);
  }
}

/** Why a yes no longer counts. */
function voidText(row: ApprovalRow, trans: ITranslate): string {
  switch (row.why) {
    case 'changed':
      return trans.__('The request changed since: the answer is void.');
    case 'revoked':
      return trans.__('Taken back since.');
    default:
      return '';
  }
}

function modelText(who: string, trans: ITranslate): string {
  return trans.__('a second model (%1)', who.replace(/ \(model\)$/, ''));
}

function whereText(row: ApprovalRow, trans: ITranslate): string {
  switch (row.way) {
    case 'relay':
      return trans.__('the notebook');
    case 'cli':
      return trans.__('the terminal');
    default:
      return trans.__('the page');
  }
}
