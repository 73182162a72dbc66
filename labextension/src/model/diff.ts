/** The lines of what an approval shows; pure. */

import type { ApprovalRequested } from '../api/protocol.gen';
import { visibleProof } from './visible';

export interface IProofLine {
  readonly kind: 'added' | 'removed' | 'same' | 'aside';
  /** Where it stands in a diff: what is removed in the old text, else in the new one; null outside of both. */
  readonly number: number | null;
  readonly text: string;
}

/** Before each passage: where it begins in the old text and in the new one. */
const HUNK = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@$/;
const GAP: IProofLine = { kind: 'aside', number: null, text: '⋯' };

/** A unified diff without names of files, or a text, line by line. */
export function proofLines(proof: string, shown: ApprovalRequested['shown']): IProofLine[] {
  const lines = visibleProof(proof).split('\n');
  if (lines.at(-1) === '') {
    lines.pop(); // the end of the last line begins none
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

/** How many lines of that kind there are. */
export function countOf(lines: readonly IProofLine[], kind: IProofLine['kind']): number {
  return lines.reduce((count, line) => count + Number(line.kind === kind), 0);
}
