import { act } from 'react';
import * as React from 'react';
import { createRoot, type Root } from 'react-dom/client';

import type { Approval, ApprovalCard as ApprovalCardTexts, CardTarget } from '../api/approval';
import { RequestError } from '../api/requests';
import type { Answer } from '../model/approvals';
import {
  becauseText,
  endText,
  expiryText,
  sessionText,
  spans,
  spokenExpiry,
  worstText
} from '../model/approvalWording';
import { clockMinute } from '../model/wording';
import { ApprovalCard, type IApprovalCardProps } from '../widgets/approvalCard';
import { anApproval, AT, at, TRANS } from './rig';

(globalThis as { IS_REACT_ACT_ENVIRONMENT?: boolean }).IS_REACT_ACT_ENVIRONMENT = true;

const GRAVE = { side_effect: 'irreversible', session_cover: null } as const;

/** A book that has this approval, and takes answers as it is told to. */
class Asked {
  readonly answers: Answer[] = [];
  take: () => Promise<void> = () => Promise.resolve();
  changed = false;
  renewable = false;
  answer = (_: string, answer: Answer): Promise<void> => {
    this.answers.push(answer);
    return this.take();
  };
  isChanged = (): boolean => this.changed;
  isRenewable = (): boolean => this.renewable;
}

let node: HTMLElement;
let root: Root;
let book: Asked;
let top: number;

beforeEach(() => {
  jest.useFakeTimers({ now: Date.parse(AT) });
  node = document.body.appendChild(document.createElement('div'));
  root = createRoot(node);
  book = new Asked();
  top = 100;
  jest.spyOn(HTMLElement.prototype, 'getBoundingClientRect').mockImplementation(() => ({ top }) as DOMRect);
});

afterEach(() => {
  act(() => root.unmount());
  node.remove();
  jest.restoreAllMocks();
  jest.useRealTimers();
});

const heard = (): Promise<void> => act(async () => Promise.resolve());
const pass = (milliseconds: number): Promise<void> =>
  act(async () => {
    await jest.advanceTimersByTimeAsync(milliseconds);
  });
const find = (selector: string): HTMLElement => node.querySelector<HTMLElement>(selector)!;
const all = (selector: string): (string | null)[] => [...node.querySelectorAll(selector)].map(each => each.textContent);
const button = (label: string): HTMLButtonElement =>
  [...node.querySelectorAll('button')].find(each => each.textContent === label)!;
const labels = (): (string | null)[] => all('.jp-Ozzie-answers button');
const status = (): string => find('[role=status]').textContent ?? '';

/** A server that has neither artifacts nor cards. */
const NOTHING: IApprovalCardProps['api'] = {
  artifactText: () => Promise.reject(new RequestError(404, 'not_found', 'It is not there.', '')),
  approvalCard: () => Promise.reject(new RequestError(404, 'not_found', 'It is not there.', ''))
};

function show(given: Partial<Approval> = {}, props: Partial<IApprovalCardProps> = {}): void {
  const row = anApproval(given);
  act(() => root.render(<ApprovalCard row={row} book={book} api={NOTHING} trans={TRANS} isConnected {...props} />));
}

/** Shown, and standing still for as long as it takes. */
async function armed(given: Partial<Approval> = {}, props: Partial<IApprovalCardProps> = {}): Promise<void> {
  show(given, props);
  await pass(700);
}

async function click(label: string): Promise<void> {
  act(() => button(label).click());
  await heard();
}

async function press(target: Element, key: string, more: KeyboardEventInit = {}): Promise<void> {
  act(() => {
    target.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true, ...more }));
  });
  await heard();
}

function type(text: string): void {
  const field = node.querySelector('input')!;
  act(() => {
    // React listens to the setter of the element itself.
    Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value')?.set?.call(field, text);
    field.dispatchEvent(new Event('input', { bubbles: true }));
  });
}

test('a card says what would happen, why Ozzie asks, what changes and what is at stake', () => {
  show();
  const card = find('[role=group]');
  expect(document.getElementById(card.getAttribute('aria-labelledby')!)?.textContent).toBe(
    'Change 2 lines of notes/a.md?'
  );
  expect(all('.jp-Ozzie-sentence code')).toEqual(['notes/a.md']);
  expect(card.textContent).toContain('Ozzie asks because it changes something of yours.');
  expect(all('.jp-Ozzie-mod-added')).toEqual(['2+added new']);
  expect(all('.jp-Ozzie-mod-removed')).toEqual(['2-removed old']);
  expect(all('.jp-Ozzie-proofHead')).toEqual(['1 line added, 1 line removed']);
  expect(card.textContent).toContain('It can be undone: the old version is kept among the artifacts.');
  expect(all('.jp-Ozzie-facts dd').slice(1, 3)).toEqual(['Low', 'Can be undone']);
  expect(labels()).toEqual(['Approve once', 'Approve for this session', 'Reject…']);
  expect(find('.jp-Ozzie-answers').textContent).toContain('For this session: edit_file in notes/');
  expect(find('.jp-Ozzie-arguments').textContent).toBe('{\n  "path": "notes/a.md"\n}');
  expect(card.hasAttribute('data-lm-suppress-shortcuts')).toBe(true);
  expect(find('[role=timer]').textContent).toBe('Expires in 60:00');
});

test('a card says where from outside that came which is behind the call', () => {
  show({ made_from: 'web content (example.org)' });
  expect(node.textContent).toContain('Made from web content (example.org).');
  show({ made_from: '' });
  expect(node.textContent).not.toContain('Made from');
});

describe('what a call names', () => {
  const named = (kind: CardTarget['kind'], argument: string, ...texts: string[]): CardTarget => ({
    kind,
    argument,
    names: texts.map(text => ({ text, written: '', is_read: true })),
    more: 0
  });
  const lines = (): string[] => {
    const values = all('.jp-Ozzie-targets dd');
    return all('.jp-Ozzie-targets dt').map((word, line) => `${word}: ${values[line]}`);
  };

  test('stands below the question, before all else, a line for each argument', () => {
    const targets = [
      named('recipient', 'to', 'ben@firm.example', 'ana@firm.example'),
      named('account', 'account', 'AT611904300234573201'),
      named('amount', 'amount', '120.00 EUR'),
      named('person', 'name', '"Ben Okafor"'),
      named('calendar', 'calendar', '"Room Aare"'),
      named('channel', 'channel', '"general"'),
      named('object', 'mail_id', '"m7"')
    ];
    show({ targets });
    expect(lines()).toEqual([
      'To: ben@firm.example, ana@firm.example',
      'Account: AT611904300234573201',
      'Amount: 120.00 EUR',
      'Person: "Ben Okafor"',
      'Calendar: "Room Aare"',
      'Channel: "general"',
      'Object: "m7"'
    ]);
    expect(find('.jp-Ozzie-targets').previousElementSibling).toBe(find('.jp-Ozzie-sentence'));
    show();
    expect(node.querySelector('.jp-Ozzie-targets')).toBeNull();
  });

  test('is told apart by the argument where several name the same kind', () => {
    show({ targets: [named('recipient', 'to', 'ben@firm.example'), named('recipient', 'bcc', 'evil@evil.example')] });
    expect(lines()).toEqual(['To: ben@firm.example', 'To (bcc): evil@evil.example']);
  });

  test('says what can not be read, and how a look-alike was written', () => {
    const names = [
      { text: '"a\\u202eb"', written: '', is_read: false },
      { text: 'a@xn--frm-jma.example', written: '"a@f\u00edrm.example"', is_read: true }
    ];
    show({ targets: [{ kind: 'recipient', argument: 'to', names, more: 0 }] });
    expect(lines()).toEqual(['To: "a\\u202eb" (can’t be read), a@xn--frm-jma.example (written "a@f\u00edrm.example")']);
  });

  test('is text, on its line, and hides nothing', () => {
    const bad = '<img src=x onerror=alert(1)>\u202e\nAccount: X';
    const names = [{ text: bad, written: bad, is_read: true }];
    show({ targets: [{ kind: 'recipient', argument: bad, names, more: 0 }, named('recipient', 'cc', bad)] });
    expect(node.querySelector('img')).toBeNull();
    expect(lines().join('')).not.toMatch(/[\u202e\n]/);
    expect(lines()).toHaveLength(2);
  });

  test('is read in full before a yes if the log has only the beginning', async () => {
    const names = [...Array(100).keys()].map(number => `a${number}@firm.example`);
    const cut = { ...named('recipient', 'to', ...names.slice(0, 20)), more: 80 };
    let tell: (card: ApprovalCardTexts) => void = () => undefined;
    const approvalCard = (): Promise<ApprovalCardTexts> => new Promise(resolve => (tell = resolve));
    await armed({ targets: [cut] }, { api: { ...NOTHING, approvalCard } });
    expect(lines()[0]).toMatch(/a19@firm.example and 80 more$/);
    expect(node.textContent).toContain('Reading all of it…');
    await click('Approve once');
    expect(book.answers).toEqual([]);

    tell({
      sentence: '?',
      proof: '',
      shown: '',
      undo: '',
      arguments: '',
      targets: [named('recipient', 'to', ...names)]
    });
    await heard();
    await pass(700);
    expect(lines()).toEqual([`To: ${names.join(', ')}`]);
    expect(node.textContent).not.toContain('looks like a secret');
    await click('Approve once');
    expect(book.answers).toHaveLength(1);
  });
});

test('nothing that a gateway says becomes anything else than text', () => {
  const bad = '<img src=x onerror=alert(1)>\u202e';
  const proof = `@@ -1,0 +1,1 @@\n+${bad}`;
  const everywhere = {
    reason: bad,
    undo: bad,
    rule: bad,
    key: bad,
    session_cover: bad,
    arguments: bad,
    made_from: bad
  };
  show({ sentence: `Run \`${bad}\`?`, ...everywhere, proof });
  expect(node.querySelector('img')).toBeNull();
  expect(node.textContent).not.toContain('\u202e');
  expect(find('.jp-Ozzie-sentence').textContent).toBe('Run <img src=x onerror=alert(1)>\\u202e?');
});

test('a yes says what was shown', async () => {
  await armed();
  await click('Approve once');
  await click('Approve for this session');
  const { binds } = anApproval();
  expect(book.answers).toEqual([
    { act: 'approve', extent: 'once', binds },
    { act: 'approve', extent: 'session', binds }
  ]);
});

test('for half a second after a card came, clicks and keys do nothing', async () => {
  show();
  await pass(400);
  await click('Approve once');
  await press(find('.jp-Ozzie-sentence'), 'a');
  expect(book.answers).toEqual([]);
  await pass(200);
  await click('Approve once');
  expect(book.answers).toHaveLength(1);
});

test('a card that was pushed down a moment ago does nothing either, until it stood still', async () => {
  await armed();
  expect(find('[role=group]').dataset.armed).toBe('true');
  top = 180;
  await click('Approve once');
  expect(book.answers).toEqual([]);
  await pass(300);
  expect(find('[role=group]').dataset.armed).toBe('false');
  await pass(400);
  await click('Approve once');
  expect(book.answers).toHaveLength(1);
});

test('scrolling moves nothing', async () => {
  await armed();
  top = 40;
  node.scrollTop = 60;
  await click('Approve once');
  expect(book.answers).toHaveLength(1);
});

test.each([
  ['a', { act: 'approve', extent: 'once', binds: anApproval().binds }],
  ['S', { act: 'approve', extent: 'session', binds: anApproval().binds }]
])('the key %s answers while the focus is inside', async (key, answer) => {
  await armed();
  await press(document.body, key);
  await press(find('.jp-Ozzie-sentence'), key, { ctrlKey: true });
  await press(find('.jp-Ozzie-sentence'), key, { repeat: true });
  expect(book.answers).toEqual([]);
  await press(find('.jp-Ozzie-sentence'), key);
  expect(book.answers).toEqual([answer]);
});

test('R opens one line, which sends its comment by Enter and is closed by Esc', async () => {
  await armed();
  await press(find('.jp-Ozzie-sentence'), 'r');
  expect(document.activeElement?.getAttribute('aria-label')).toBe('Tell Ozzie why (optional)');
  await press(document.activeElement!, 'a');
  expect(book.answers).toEqual([]);

  await press(document.activeElement!, 'Escape');
  expect(node.querySelector('input')).toBeNull();
  expect(document.activeElement).toBe(button('Reject…'));

  await click('Reject…');
  type('Not this file.');
  await click('Reject');
  expect(book.answers).toEqual([{ act: 'reject', comment: 'Not this file.' }]);
});

describe('don’t ask again', () => {
  const STANDING = { standing: '`write_file` and `edit_file` in `notes/`' };

  test('says first what would run from now on, and then sends it with the yes', async () => {
    await armed(STANDING);
    expect(labels()).toEqual(['Approve once', 'Approve for this session', 'Reject…', 'Don’t ask again…']);

    await click('Don’t ask again…');
    expect(book.answers).toEqual([]);
    expect(find('.jp-Ozzie-standing p').textContent).toBe(
      'From now on, write_file and edit_file in notes/ run without asking, in every session and also when nobody is ' +
        'there, unless content from outside is behind them. To take it back: ozzie policy revoke.'
    );
    expect(document.activeElement).toBe(find('.jp-Ozzie-standing p'));

    await click('Approve, and don’t ask again');
    expect(book.answers).toEqual([]); // the hand that opened it may still be there
    await pass(700);
    await click('Approve, and don’t ask again');
    expect(book.answers).toEqual([{ act: 'approve', extent: 'standing', binds: 'ab'.repeat(32) }]);
  });

  test('is closed by Esc, and by opening the rejection', async () => {
    await armed(STANDING);
    await click('Don’t ask again…');
    await press(document.activeElement!, 'Escape');
    expect(node.querySelector('.jp-Ozzie-standing')).toBeNull();
    expect(document.activeElement).toBe(button('Don’t ask again…'));

    await click('Don’t ask again…');
    await click('Reject…');
    expect(node.querySelector('.jp-Ozzie-standing')).toBeNull();
    expect(node.querySelector('input')).not.toBeNull();
  });

  test.each([{}, { ...STANDING, ...GRAVE }, { ...STANDING, risk_level: 'high' }] as const)(
    'is not offered with %j',
    async given => {
      await armed(given);
      expect(labels()).not.toContain('Don’t ask again…');
    }
  );

  test('can not be sent before the card has stood still, or without a connection', async () => {
    show(STANDING);
    await click('Don’t ask again…');
    expect(node.querySelector('.jp-Ozzie-standing')).toBeNull();
    await armed(STANDING, { isConnected: false });
    await click('Don’t ask again…');
    expect(node.querySelector('.jp-Ozzie-standing')).toBeNull();
  });
});

test('Esc leaves the card', async () => {
  const left: string[] = [];
  await armed({}, { onLeave: () => left.push('left') });
  await press(find('.jp-Ozzie-sentence'), 'Escape');
  expect(left).toEqual(['left']);
});

test.each([
  ['cannot be undone', GRAVE, 'It can’t be undone.'],
  ['is of high risk', { risk_level: 'high' }, 'Its risk is high.']
] as const)('what %s has no keys, no yes for the session, and says so', async (_, given, said) => {
  await armed(given);
  for (const key of ['a', 's', 'r']) {
    await press(find('.jp-Ozzie-sentence'), key);
  }
  expect([book.answers, node.querySelector('input')]).toEqual([[], null]);
  expect(labels()).toEqual(['Approve once', 'Reject…']);
  expect(button('Approve once').className).toContain('jp-Ozzie-mod-warn');
  expect(node.textContent).toContain(said);
  expect(find('.jp-Ozzie-answers').textContent).toContain('Each such call asks.');
});

const LONG = ['@@ -1,0 +1,40 @@', ...Array.from({ length: 40 }, (_, at) => `+line ${at}`)].join('\n');

test('of a long proof twelve lines are shown, and all on a click', async () => {
  show({ proof: LONG });
  expect(all('.jp-Ozzie-proofLine')).toHaveLength(12);
  await click('Show all 40 lines');
  expect(all('.jp-Ozzie-proofLine')).toHaveLength(40);
});

test('of what can not be undone all is shown at once', () => {
  show({ ...GRAVE, proof: LONG });
  expect(all('.jp-Ozzie-proofLine')).toHaveLength(40);
});

test('the rest of what is kept elsewhere is fetched on a click', async () => {
  const given = { proof: '@@ -1,0 +1,2 @@\n+one', whole: 'W' };
  const artifactText = (id: string): Promise<string> => Promise.resolve(`@@ -1,0 +1,2 @@\n+one\n+two of ${id}`);
  show(given, { api: { ...NOTHING, artifactText } });
  expect(node.querySelector('.jp-Ozzie-proofHead')).toBeNull();
  await click('Show all');
  expect(all('.jp-Ozzie-mod-added')).toEqual(['1+added one', '2+added two of W']);
});

test('what can not be undone is not approved before all of it is there', async () => {
  let tell: (text: string) => void = () => undefined;
  const artifactText = (): Promise<string> => new Promise(resolve => (tell = resolve));
  await armed({ ...GRAVE, shown: 'text', proof: 'beginning', whole: 'W' }, { api: { ...NOTHING, artifactText } });
  await click('Approve once');
  expect(book.answers).toEqual([]);
  expect(button('Approve once').getAttribute('aria-disabled')).toBe('true');

  tell('beginning\nand end');
  await heard();
  await pass(700);
  await click('Approve once');
  expect(book.answers).toHaveLength(1);
});

test('what can not be fetched is said, and can be asked for again', async () => {
  show({ whole: 'W' });
  await click('Show all');
  expect(find('[role=alert]').textContent).toBe('It is not there.');
  expect(button('Show all')).toBeDefined();
});

test('very many lines do not make very many rows, and none is missing', async () => {
  const proof = Array.from({ length: 30_000 }, (_, at) => `line ${at}`).join('\n');
  show({ shown: 'text', proof });
  await click(`Show all ${(30_000).toLocaleString()} lines`);
  expect(all('.jp-Ozzie-proofLine')).toHaveLength(2_000);
  expect(find('pre').textContent).toContain('line 29999');
});

test('while an answer is on its way no other can be given, and the focus stays', async () => {
  let refuse: (error: Error) => void = () => undefined;
  book.take = () => new Promise((_, reject) => (refuse = reject));
  await armed();
  button('Approve once').focus();
  await click('Approve once');
  expect(labels()[0]).toBe('Sending…');
  expect(node.querySelectorAll('.jp-Ozzie-answers [aria-disabled=true]')).toHaveLength(3);
  await click('Reject…');
  expect(book.answers).toHaveLength(1);
  expect(document.activeElement).toBe(button('Sending…'));

  refuse(new RequestError(0, 'page.unreachable', 'The server does not answer.', ''));
  await heard();
  expect(status()).toBe('No connection. Your answer was not sent.');
  expect(labels()[0]).toBe('Approve once');
});

test('what the gateway refuses is said in its words', async () => {
  book.take = () =>
    Promise.reject(new RequestError(403, 'policy.way', 'A yes has to come from elsewhere.', 'Go there.'));
  await armed();
  await click('Approve once');
  expect(status()).toBe('A yes has to come from elsewhere. Go there.');
});

test('without a connection nothing is sent, and the time goes on', async () => {
  await armed({}, { isConnected: false });
  await click('Approve once');
  await press(find('.jp-Ozzie-sentence'), 'a');
  expect(book.answers).toEqual([]);
  expect(find('.jp-Ozzie-answers').textContent).toContain('when reconnected');
  await pass(60_000);
  expect(find('[role=timer]').textContent).toBe('Expires in 59:00');
});

test('answered elsewhere it is one row without buttons, which has the focus that was inside', async () => {
  await armed();
  button('Approve once').focus();
  show({ status: 'granted', extent: 'once', by: 'Ana', way: 'cli', answered_at: at(65) });
  expect(node.querySelector('button')).toBeNull();
  expect(node.textContent).toBe(`Approved once by Ana in the terminal, ${clockMinute(Date.parse(at(65)))}.`);
  expect(document.activeElement).toBe(find('[role=group]'));
});

test('a focus that was elsewhere stays there', async () => {
  await armed();
  const field = document.body.appendChild(document.createElement('input'));
  field.focus();
  show({ status: 'rejected', by: 'Ana', comment: 'No.' });
  expect(document.activeElement).toBe(field);
  field.remove();
});

test('one whose time is up can be asked anew where its task still waits', async () => {
  const late = { status: 'expired', why: 'time', answered_at: at(3600) } as const;
  show(late);
  expect(node.querySelector('button')).toBeNull();
  book.renewable = true;
  show({ ...late });
  expect(node.textContent).toContain(`Expired at ${clockMinute(Date.parse(at(3600)))}. Nothing was done.`);
  await click('Ask again');
  expect(book.answers).toEqual([{ act: 'renew' }]);
});

test('a request that changed asks to be looked at again', () => {
  book.changed = true;
  show();
  expect(node.textContent).toContain('The request changed. Please look again.');
});

test.each([
  ['It changes something of yours.', 'Ozzie asks because it changes something of yours.'],
  ['API keys are private', 'Ozzie asks because API keys are private.'],
  ['I want to see it.', 'Ozzie asks because I want to see it.'],
  ['', '']
])('the reason %j reads %j', (reason, said) => {
  expect(becauseText(reason, TRANS)).toBe(said);
});

test('times run down, and are said as one says them', () => {
  const row = { expires_at: at(581) };
  const now = Date.parse(AT);
  expect(expiryText(row, now, TRANS)).toBe('Expires in 9:41');
  expect(spokenExpiry(row, now, TRANS)).toBe('Expires in 9 minutes 41 seconds');
  expect(expiryText(row, now + 600_000, TRANS)).toBe('Expires in 0:00');
  expect(expiryText(row, now - 4_000_000, TRANS)).toBe(`Expires at ${clockMinute(Date.parse(at(581)))}`);
});

test.each<[Partial<Approval>, string]>([
  [{ status: 'granted', extent: 'session', way: 'browser' }, 'Approved for this session by Ana in the page, %.'],
  [{ status: 'granted', extent: 'standing', way: 'browser' }, 'Approved from now on by Ana in the page, %.'],
  [
    { status: 'granted', extent: 'once', way: 'relay', why: 'changed' },
    'Approved once by Ana in the notebook, %. The request changed since: the answer is void.'
  ],
  [
    { status: 'granted', extent: 'session', way: 'cli', why: 'revoked' },
    'Approved for this session by Ana in the terminal, %. Taken back since.'
  ],
  [{ status: 'rejected', way: 'cli', comment: 'Not this\nfile.' }, 'Rejected by Ana: "Not this file."'],
  [{ status: 'rejected', way: 'browser' }, 'Rejected by Ana in the page, %.'],
  [{ status: 'granted', extent: 'once', way: 'model', by: 'cheap (model)' }, 'Approved by a second model (cheap), %.'],
  [
    { status: 'rejected', way: 'model', by: 'cheap (model)', comment: 'Too much.' },
    'Rejected by a second model (cheap): "Too much."'
  ],
  [{ status: 'expired', why: 'task' }, 'The task ended. Nothing was done.'],
  [{ status: 'expired', why: 'changed' }, 'The request changed. Nothing was done.']
])('what became of it: %j', (given, said) => {
  const row = anApproval({ by: 'Ana', answered_at: at(0), ...given });
  expect(endText(row, TRANS)).toBe(said.replace('%', clockMinute(Date.parse(AT))));
});

test.each([
  [{ undo: '' }, 'It can be undone; how is not known.'],
  [{ side_effect: 'none' }, 'It changes nothing.'],
  [{ side_effect: 'irreversible', undo: '' }, 'It can’t be undone.'],
  [{ side_effect: 'irreversible', undo: '', rule: 'floor.irreversible', place: '' }, ''],
  [{ side_effect: 'irreversible', undo: '', rule: 'floor.irreversible', place: 'policy.jsonc' }, 'It can’t be undone.'],
  [{ side_effect: 'irreversible', undo: 'Write again.' }, 'It can’t be undone. Write again.'],
  [{ side_effect: 'irreversible', undo: '', risk_level: 'high' }, 'It can’t be undone. Its risk is high.'],
  [{ undo: '', risk_level: 'high', rule: 'floor.high_risk', place: '' }, 'It can be undone; how is not known.']
] as const)('what may become of it is said once: %j', (given, said) => {
  expect(worstText(anApproval(given), TRANS)).toBe(said);
});

test('a cover that is missing is said', () => {
  expect(sessionText(anApproval({ session_cover: null }), TRANS)).toBe('Each such call asks.');
});

test('a card says where that stands which the call names', () => {
  show({ known_from: 'evil@evil.example comes from web content (evil.example\u202e).' });
  expect(node.textContent).toContain('evil@evil.example comes from web content (evil.example\\u202e).');
});

test('only what the gateway marked is code', () => {
  expect(spans('Move `a b` to the trash?')).toEqual([
    { text: 'Move ', isCode: false },
    { text: 'a b', isCode: true },
    { text: ' to the trash?', isCode: false }
  ]);
});

describe('of a question that something was taken out of', () => {
  const HIDDEN = {
    card: 'cd'.repeat(32),
    shown: 'text',
    proof: 'git clone https://user:[redacted: password]@a'
  } as const;
  const WHOLE: ApprovalCardTexts = {
    sentence: 'Run `git` on this machine?',
    proof: 'git clone https://user:x`./x.sh`@a',
    shown: 'text',
    undo: '',
    arguments: '{"argv": ["git"]}',
    targets: []
  };

  test('all of it is read from the server before a yes can be given', async () => {
    let tell: (card: ApprovalCardTexts) => void = () => undefined;
    const approvalCard = (): Promise<ApprovalCardTexts> => new Promise(resolve => (tell = resolve));
    await armed(HIDDEN, { api: { ...NOTHING, approvalCard } });
    await click('Approve once');
    expect(book.answers).toEqual([]);
    expect(node.textContent).toContain('Reading all of it…');

    tell(WHOLE);
    await heard();
    await pass(700);
    expect(all('.jp-Ozzie-proofText')).toEqual([WHOLE.proof]);
    expect(find('.jp-Ozzie-arguments').textContent).toBe(WHOLE.arguments);
    expect(node.textContent).not.toContain('[redacted');
    expect(node.textContent).toContain('Something in it looks like a secret.');
    await click('Approve once');
    expect(book.answers).toHaveLength(1);
  });

  test('nobody says yes where it can not be read, and it is tried again', async () => {
    const answers = [() => Promise.reject(new RequestError(0, '', '', '')), () => Promise.resolve(WHOLE)];
    const approvalCard = (): Promise<ApprovalCardTexts> => answers.shift()!();
    await armed(HIDDEN, { api: { ...NOTHING, approvalCard } });
    expect(find('[role=alert]').textContent).toContain('No connection.');
    await click('Approve once');
    expect(book.answers).toEqual([]);
    await click('Try again');
    expect(all('.jp-Ozzie-proofText')).toEqual([WHOLE.proof]);
  });

  test('what would be something else by now is asked again', async () => {
    const changed = new RequestError(
      409,
      'approval.changed',
      'It would do something else by now.',
      'Have it asked again.'
    );
    await armed(HIDDEN, { api: { ...NOTHING, approvalCard: () => Promise.reject(changed) } });
    expect(button('Approve once').getAttribute('aria-disabled')).toBe('true');
    await click('Ask again');
    expect(book.answers).toEqual([{ act: 'renew' }]);
  });
});

test('long arguments are there in full once somebody looks for them', async () => {
  const approvalCard = (): Promise<never> => Promise.resolve({ arguments: '{"text": "all of it"}' } as never);
  show({ arguments: '{"text": "all… (2,001 characters in all)"}' }, { api: { ...NOTHING, approvalCard } });
  const details = node.querySelector('details')!;
  act(() => {
    details.open = true;
    details.dispatchEvent(new Event('toggle'));
  });
  await heard();
  expect(find('.jp-Ozzie-arguments').textContent).toBe('{"text": "all of it"}');
});
