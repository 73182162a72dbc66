/** The lines of the content that an approval shows; pure. */

import type { ApprovalRequested } from '../api/protocol.gen';
import { visibleProof } from './visible';

export interface IProofLine {
  readonly kind: 'added' | 'removed' | 'same' | 'aside';
  /** The line number in a diff: in the old text for removed lines, else in the new one; null outside both. */
  readonly number: number | null;
  readonly text: string;
}

/** A hunk header: where the hunk begins in the old and in the new text. */
const HUNK = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@$/;
const GAP: IProofLine = { kind: 'aside', number: null, text: '⋯' };

/** Split a unified diff without file names, or a text, into lines. */
export function proofLines(proof: string, shown: ApprovalRequested['shown']): IProofLine[] {
  const lines = visibleProof(proof).split('\n');
  if (lines.at(-1) === '') {
    lines.pop(); // the text ends with a line feed
  }
  return shown === 'diff' ? diffLines(lines) : lines.map(text => ({ kind: 'same', number: null, text }));
}

function diffLines(lines: readonly string[]): IProofLine[] {
  let [before, after] = [1, 1];
  return lines.flatMap((line, at): IProofLine[] => {
    const hunk = HUNK.exec(line);
    if (hunk) {
      [before, after] = [Number(hunk[1]), Number(hunk[2])];
      return at === 0 ? [] : [GAP];
    }
    const text = line.slice(1);
    switch (line[0]) {
      case '+':
        return [{ kind: 'added', number: after++, text }];
      case '-':
        return [{ kind: 'removed', number: before++, text }];
      case '\\':
        return [{ kind: 'aside', number: null, text: text.trim() }];
      case ' ':
        before++;
        return [{ kind: 'same', number: after++, text }];
      default:
        return [{ kind: 'aside', number: null, text: line }];
    }
  });
}

export function countOf(lines: readonly IProofLine[], kind: IProofLine['kind']): number {
  return lines.reduce((count, line) => count + Number(line.kind === kind), 0);
}
