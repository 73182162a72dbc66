/**
 * Which of a cell's text a person typed in this page: the gateway counts only these words as the user's own. Everything
 * that is in doubt is not: a question is asked then.
 */

/** How long after a person's input a change of the text may be its effect. */
const INPUT_MS = 100;
/** Of one text, typed and not typed; the gateway takes as many. */
export const MAX_PARTS = 200;

const TYPED = 't';
const OTHER = 'o';
/** What an editor adds behind an opening bracket or quote. */
const CLOSING = ')]}"\'`”»';

/** A change of a text, as a Y document tells it. */
export type Delta = readonly { readonly retain?: number; readonly insert?: unknown; readonly delete?: number }[];

interface IInput {
  /** What it writes; null for a key that deletes, or begins a line. */
  readonly text: string | null;
  readonly at: number;
}

/** A cell's text, with who wrote each of its characters. */
export class TypedText {
  /** A letter for each character: whether it was typed. */
  private marks: string;
  private input: IInput | null = null;

  /** What is there already was not typed: it was opened, pasted as a whole cell, or made by a program. */
  constructor(private text: string) {
    this.marks = OTHER.repeat(text.length);
  }

  /** A person writes this, or presses a key that deletes or begins a line. */
  writes(text: string | null, at: number): void {
    this.input = { text, at };
  }

  /** What comes next is not typed, as after a paste. */
  inserts(): void {
    this.input = null;
  }

  /** The text has changed, in this page (`isLocal`) or in another one. */
  changed(delta: Delta, text: string, isLocal: boolean, at: number): void {
    const input = isLocal && this.input !== null && at - this.input.at <= INPUT_MS ? this.input : null;
    if (isLocal) {
      this.input = null; // one change for each
    }
    let marks = '';
    let rest = this.marks;
    for (const part of delta) {
      if (part.retain !== undefined) {
        marks += rest.slice(0, part.retain);
        rest = rest.slice(part.retain);
      } else if (part.delete !== undefined) {
        rest = rest.slice(part.delete);
        if (input === null) {
          [marks, rest] = parted(marks, rest);
        }
      } else if (typeof part.insert === 'string') {
        const isOwn = isTyped(part.insert, input);
        if (!isOwn) {
          [marks, rest] = parted(marks, rest);
        }
        marks += (isOwn ? TYPED : OTHER).repeat(part.insert.length);
      }
    }
    this.text = text;
    this.marks = (marks + rest).length === text.length ? marks + rest : OTHER.repeat(text.length);
  }

  /** Return a text that was run in parts, in turn typed and not typed; the first is typed, and may be empty. */
  parts(run: string): [string, ...string[]] {
    if (run !== this.text) {
      return ['', run];
    }
    const parts: [string, ...string[]] = [''];
    let start = 0;
    for (let end = 1; end <= run.length; end += 1) {
      if (end === run.length || this.marks[end] !== this.marks[start]) {
        if (this.marks[start] === TYPED && start === 0) {
          parts.pop();
        }
        parts.push(run.slice(start, end));
        start = end;
      }
    }
    return parts.length <= MAX_PARTS ? parts : ['', run];
  }
}

/** What somebody else parts or brings together, nobody typed so. */
function parted(before: string, behind: string): [string, string] {
  return [
    before.slice(0, -1) + OTHER.repeat(Math.min(before.length, 1)),
    OTHER.repeat(Math.min(behind.length, 1)) + behind.slice(1)
  ];
}

function isTyped(inserted: string, input: IInput | null): boolean {
  if (input === null) {
    return false;
  }
  if (input.text === null) {
    return inserted.trim() === ''; // a new line, with its indentation
  }
  // An input method tells all of a word, and the change is what is new of it.
  const isClosed = inserted.length === input.text.length + 1 && CLOSING.includes(inserted.slice(-1));
  return input.text.includes(inserted) || (isClosed && inserted.startsWith(input.text));
}
