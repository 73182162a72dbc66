/** The lines of what an approval shows; pure. */

import type { ApprovalRequested } from '../api/protocol.gen';
import { visibleProse } from './visible';

export interface IProofLine {
  readonly kind: 'added' | 'removed' | 'same' | 'aside';
  /** Where it stands: of what is removed in the old text, else in the new one; null outside of both. */
  readonly number: number | null;
  readonly text: string;
}

/** Between two passages, and what diff says of a text without a last line end. */
const HUNK = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@/;

/** A unified diff without names of files, or a text, line by line. */
export function proofLines(proof: string, shown: ApprovalRequested['shown']): IProofLine[] {
  const lines = visibleProse(proof).split('\n');
  if (lines.at(-1) === '') {
    lines.pop(); // the end of the last line begins none
  }
  return shown === 'diff' ? diffLines(lines) : lines.map((text, at) => ({ kind: 'same', number: at + 1, text }));
}

function diffLines(lines: readonly string[]): IProofLine[] {
  let [before, after] = [1, 1];
  return lines.map(line => {
    const hunk = HUNK.exec(line);
    if (hunk) {
      [before, after] = [Number(hunk[1]), Number(hunk[2])];
      return { kind: 'aside', number: null, text: line };
    }
    const text = line.slice(1);
    switch (line[0]) {
      case '+':
        return { kind: 'added', number: after++, text };
      case '-':
        return { kind: 'removed', number: before++, text };
      case '\\':
        return { kind: 'aside', number: null, text: text.trim() };
      case ' ':
        before++;
        return { kind: 'same', number: after++, text };
      default:
        return { kind: 'aside', number: null, text: line };
    }
  });
}

/** How many lines of that kind there are. */
export function countOf(lines: readonly IProofLine[], kind: IProofLine['kind']): number {
  return lines.reduce((count, line) => count + Number(line.kind === kind), 0);
}
