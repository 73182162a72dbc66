/** The effect of a call, to be read before approving: text nodes only. */

import * as React from 'react';

import { errorText } from '../api/requests';
import type { ApprovalRow } from '../model/approvals';
import { countOf, type IProofLine, proofLines } from '../model/diff';
import type { ITranslate } from '../model/wording';

const FEW_LINES = 12;
/** Lines with an element each; more are slow, so the rest is plain text. */
const MAX_ROWS = 2_000;

export interface IProofProps {
  readonly row: ApprovalRow;
  /** Whether all of it is shown from the start. */
  readonly isOpen: boolean;
  /** The text of an artifact. */
  readonly textOf: (artifactId: string) => Promise<string>;
  readonly trans: ITranslate;
  /** Called once nothing is left out, even if it has to be scrolled. */
  readonly onWhole: () => void;
}

export function Proof({ row, isOpen, textOf, trans, onWhole }: IProofProps): React.JSX.Element | null {
  const [text, setText] = React.useState(row.whole === null ? row.proof : null);
  const [isAll, setAll] = React.useState(isOpen);
  const [problem, setProblem] = React.useState('');
  const lines = React.useMemo(() => proofLines(text ?? row.proof, row.shown), [text, row]);
  const isWhole = text !== null;
  React.useEffect(() => {
    if (isWhole) {
      onWhole();
    }
  }, [isWhole, onWhole]);
  const load = React.useCallback((): void => {
    if (row.whole !== null) {
      setProblem('');
      textOf(row.whole).then(setText, (error: unknown) => {
        setProblem(errorText(error));
      });
    }
  }, [row.whole, textOf]);
  React.useEffect(() => {
    if (isOpen) {
      load();
    }
  }, [isOpen, load]);
  if (row.shown === '' || row.proof === '') {
    return null;
  }
  const drawn = lines.slice(0, isAll ? MAX_ROWS : FEW_LINES);
  const behind = isAll ? lines.slice(MAX_ROWS) : [];
  const hasMore = problem !== '' || (isAll ? !isWhole : !isWhole || lines.length > FEW_LINES);
  return (
    <div className="jp-Ozzie-proof">
      {row.shown === 'diff' && isWhole && <ProofHead lines={lines} trans={trans} />}
      <div
        className={`jp-Ozzie-proofLines jp-Ozzie-mod-${row.shown}`}
        dir="ltr"
        tabIndex={0}
        role="group"
        aria-label={trans.__('What it would do')}
      >
        {drawn.map((line, at) => (
          <Line key={at} line={line} trans={trans} />
        ))}
        {behind.length > 0 && <pre>{behind.map(line => SIGNS[line.kind] + line.text).join('\n')}</pre>}
      </div>
      {hasMore && (
        <button
          className="jp-Ozzie-link"
          onClick={() => {
            setAll(true);
            if (!isWhole) {
              load();
            }
          }}
        >
          {isWhole ? trans.__('Show all %1 lines', lines.length.toLocaleString()) : trans.__('Show all')}
        </button>
      )}
      {problem && <p role="alert">{problem}</p>}
    </div>
  );
}

const SIGNS: Readonly<Record<IProofLine['kind'], string>> = { added: '+ ', removed: '- ', same: '  ', aside: '' };

function Line({ line, trans }: { line: IProofLine; trans: ITranslate }): React.JSX.Element {
  const { kind, number, text } = line;
  const spoken = { added: trans.__('added'), removed: trans.__('removed'), same: '', aside: '' }[kind];
  return (
    <div className={`jp-Ozzie-proofLine jp-Ozzie-mod-${kind}`}>
      <span className="jp-Ozzie-proofNumber" aria-hidden="true">
        {number ?? ''}
      </span>
      <span aria-hidden="true">{SIGNS[kind].trim()}</span>
      {spoken && <span className="jp-Ozzie-spoken">{`${spoken} `}</span>}
      <span className="jp-Ozzie-proofText">{text || '\u00a0'}</span>
    </div>
  );
}

/** How many lines a change adds and removes. If it does only one of both, the card's sentence says how many. */
function ProofHead({ lines, trans }: { lines: readonly IProofLine[]; trans: ITranslate }): React.JSX.Element | null {
  const [added, removed] = [countOf(lines, 'added'), countOf(lines, 'removed')];
  if (added === 0 || removed === 0) {
    return null;
  }
  return (
    <p className="jp-Ozzie-proofHead">
      {[
        trans._n('%1 line added', '%1 lines added', added, added),
        trans._n('%1 line removed', '%1 lines removed', removed, removed)
      ].join(', ')}
    </p>
  );
}
