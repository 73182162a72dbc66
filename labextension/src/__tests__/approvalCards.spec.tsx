import { act } from 'react';
import * as React from 'react';
import { createRoot, type Root } from 'react-dom/client';

import type { Approval, CardTarget } from '../api/approval';
import { RequestError } from '../api/requests';
import { alikeGroups } from '../model/alike';
import type { Answer, ApprovalRow } from '../model/approvals';
import { ApprovalCards } from '../widgets/approvalCards';
import { anApproval, AT, TRANS } from './rig';

(globalThis as { IS_REACT_ACT_ENVIRONMENT?: boolean }).IS_REACT_ACT_ENVIRONMENT = true;

/** Calls that a task asks for together. */
function asked(...given: Partial<Approval>[]): ApprovalRow[] {
  return given.map((each, at) =>
    anApproval({
      approval_id: `01A${at}`,
      call_id: `c${at}`,
      binds: String(at).repeat(64),
      sentence: `Do ${at}?`,
      ...each
    })
  );
}

describe('what stands on one card', () => {
  const groups = (...given: Partial<Approval>[]): string[] =>
    alikeGroups(asked(...given)).map(group => group.map(row => row.approval_id.slice(-1)).join(''));

  test('calls of one tool, of which the same is to be said', () => {
    expect(groups({}, {}, {})).toEqual(['012']);
    expect(groups({}, { key: 'another' }, { cover: null, known_from: 'x.' } as Partial<Approval>)).toEqual(['012']);
  });

  test.each([
    { tool_id: 'fs.trash' },
    { task_id: '01M8000000000000000000000Z' },
    { rule: 'other' },
    { reason: 'Because.' },
    { side_effect: 'irreversible' },
    { risk_level: 'high' },
    { undo: 'Not so.' },
    { needs: 'browser' },
    { made_from: 'web content' },
    { status: 'granted' },
    { status: 'expired' }
  ] as const)('not one with %j', given => {
    expect(groups({}, given, {})).toEqual(['0', '1', '2']);
  });

  test('none of which a part is left out', () => {
    const cut: CardTarget = { kind: 'recipient', argument: 'to', names: [], more: 3 };
    expect(groups({ card: 'ab' }, { card: 'ab' })).toEqual(['0', '1']);
    expect(groups({ whole: '01X' }, { whole: '01X' })).toEqual(['0', '1']);
    expect(groups({ shown: '' }, { shown: '' })).toEqual(['0', '1']);
    expect(groups({ targets: [cut] }, { targets: [cut] })).toEqual(['0', '1']);
  });

  test('at most twenty', () => {
    expect(alikeGroups(asked(...Array.from({ length: 45 }, () => ({})))).map(group => group.length)).toEqual([
      20, 20, 5
    ]);
  });
});

describe('the card', () => {
  let node: HTMLElement;
  let root: Root;
  let answers: [string, Answer][];
  let take: (approvalId: string) => Promise<void>;

  beforeEach(() => {
    jest.useFakeTimers({ now: Date.parse(AT) });
    node = document.body.appendChild(document.createElement('div'));
    root = createRoot(node);
    answers = [];
    take = () => Promise.resolve();
    jest.spyOn(HTMLElement.prototype, 'getBoundingClientRect').mockImplementation(() => ({ top: 100 }) as DOMRect);
  });

  afterEach(() => {
    act(() => root.unmount());
    node.remove();
    jest.restoreAllMocks();
    jest.useRealTimers();
  });

  const book = {
    answer: (approvalId: string, answer: Answer): Promise<void> => {
      answers.push([approvalId, answer]);
      return take(approvalId);
    },
    isChanged: (row: ApprovalRow): boolean => row.call_id === 'changed',
    isRenewable: () => false
  };
  const api = {
    artifactText: () => Promise.reject(new RequestError(404, 'not_found', 'It is not there.', '')),
    approvalCard: () => Promise.reject(new RequestError(404, 'not_found', 'It is not there.', ''))
  };
  const show = (rows: readonly ApprovalRow[]): void =>
    act(() => root.render(<ApprovalCards rows={rows} book={book} api={api} trans={TRANS} isConnected />));
  const armed = async (...given: Partial<Approval>[]): Promise<void> => {
    show(asked(...given));
    await act(async () => {
      await jest.advanceTimersByTimeAsync(700);
    });
  };
  const texts = (selector: string): (string | null)[] =>
    [...node.querySelectorAll(selector)].map(each => each.textContent);
  const click = (label: string): Promise<void> =>
    act(async () => {
      [...node.querySelectorAll('button')].find(each => each.textContent === label)!.click();
      await Promise.resolve();
    });

  test('offers not to be asked again where that would let the same through for all, and sends it for each', async () => {
    const standing = '`write_file` and `edit_file` in `notes/`';
    await armed({ standing }, { standing });
    await click('Don’t ask again…');
    expect(texts('.jp-Ozzie-standing p').join('')).toContain('From now on, write_file and edit_file in notes/ run');
    await act(async () => {
      await jest.advanceTimersByTimeAsync(700);
    });

    await click('Approve, and don’t ask again');

    expect(answers.map(([approvalId, answer]) => [approvalId, answer.act === 'approve' && answer.extent])).toEqual([
      ['01A0', 'standing'],
      ['01A1', 'standing']
    ]);
  });

  test.each([
    [{}, {}],
    [{ standing: 'changes in `a/`' }, { standing: 'changes in `b/`' }]
  ])('does not offer it for %j and %j', async (one, other) => {
    await armed(one, other);
    expect(texts('.jp-Ozzie-answers button')).not.toContain('Don’t ask again…');
  });

  test('lists each call with what it names, and says once what is the same of all', async () => {
    const to = (text: string): Partial<Approval> => ({
      targets: [{ kind: 'recipient', argument: 'to', names: [{ text, written: '', is_read: true }], more: 0 }],
      known_from: `${text} is in your own words.`
    });
    await armed(to('a@x.example'), to('b@x.example'));

    expect(texts('.jp-Ozzie-sentence')).toEqual(['Make these 2 calls of edit_file?']);
    expect(texts('.jp-Ozzie-alike > li > p:first-of-type')).toEqual(['Do 0?', 'Do 1?']);
    expect(texts('.jp-Ozzie-named')).toEqual(['a@x.example', 'b@x.example']);
    expect(node.textContent).toContain('b@x.example is in your own words.');
    expect(node.textContent.split('Ozzie asks because')).toHaveLength(2);
    expect(node.textContent.split('It can be undone')).toHaveLength(2);
  });

  test('takes no answer for calls of which one has just become another', async () => {
    await armed({}, {});
    show(asked({}, { approval_id: '01B' }));
    await click('Approve these 2');
    expect(answers).toEqual([]);
    await act(async () => {
      await jest.advanceTimersByTimeAsync(700);
    });
    await click('Approve these 2');
    expect(answers.map(([approvalId]) => approvalId)).toEqual(['01A0', '01B']);
  });

  test('answers each by itself, for what was shown of it', async () => {
    await armed({}, {}, {});
    await click('Approve these 3');
    expect(answers).toEqual(
      [0, 1, 2].map(at => [`01A${at}`, { act: 'approve', extent: 'once', binds: String(at).repeat(64) }])
    );
  });

  test('rejects each with the same words', async () => {
    await armed({}, {});
    await click('Reject these 2…');
    await click('Reject');
    expect(answers).toEqual([0, 1].map(at => [`01A${at}`, { act: 'reject', comment: '' }]));
  });

  test('does nothing in the moment in which it appears', async () => {
    show(asked({}, {}));
    await click('Approve these 2');
    expect(answers).toEqual([]);
  });

  test('tells how many answers were not taken, and why', async () => {
    take = approvalId =>
      approvalId === '01A1'
        ? Promise.reject(new RequestError(409, 'approval.late', 'Already answered.', ''))
        : Promise.resolve();
    await armed({}, {}, {});
    await click('Approve these 3');
    expect(node.querySelector('[role=alert]')?.textContent).toBe('One answer was not taken: Already answered.');
  });

  test('gives way to a card each', async () => {
    await armed({}, {});
    await click('One by one');
    expect(texts('.jp-Ozzie-sentence')).toEqual(['Do 0?', 'Do 1?']);
  });

  test('is not for one that changed since it was seen', async () => {
    await armed({}, { call_id: 'changed' });
    expect(texts('.jp-Ozzie-sentence')).toEqual(['Do 0?', 'Do 1?']);
  });

  test('takes no letter for an answer', async () => {
    await armed({}, {});
    act(() => {
      node
        .querySelector('.jp-Ozzie-sentence')!
        .dispatchEvent(new KeyboardEvent('keydown', { key: 'a', bubbles: true, cancelable: true }));
    });
    expect(answers).toEqual([]);
  });

  test('shows all of each that cannot be undone', async () => {
    const proof = Array.from({ length: 30 }, (_, at) => `+line ${at}`).join('\n');
    const grave = { side_effect: 'irreversible', session_cover: null, proof: `@@ -1,0 +1,30 @@\n${proof}` } as const;
    await armed(grave, grave);
    expect(texts('.jp-Ozzie-proofLine')).toHaveLength(60);
    expect(node.querySelector('.jp-Ozzie-mod-warn')?.textContent).toBe('Approve these 2');
  });
});
