import { Signal } from '@lumino/signaling';
import { act } from 'react';
import * as React from 'react';
import { createRoot, type Root } from 'react-dom/client';

import type { AnswerOption, Question, TaskWithSteps } from '../api/protocol.gen';
import { RequestError } from '../api/requests';
import type { ApprovalBook, ApprovalRow } from '../model/approvals';
import { allowLabel, amountText, readAmount } from '../model/answers';
import { drawPrompts, type ICells, type IPromptParts, type PromptingTask } from '../widgets/cellPrompts';
import { QuestionCard } from '../widgets/questionCard';
import { anApproval, aTask, TRANS } from './rig';

(globalThis as { IS_REACT_ACT_ENVIRONMENT?: boolean }).IS_REACT_ACT_ENVIRONMENT = true;

const ID = aTask().task_id;
const anAnswer = (name: string, label: string, changed: Partial<AnswerOption> = {}): AnswerOption => ({
  name,
  label,
  help: '',
  amount: 0,
  unit: '',
  takes_text: false,
  ...changed
});
const OF_SERVER: Question = {
  prompt_id: '01M800000000000000000000PS',
  kind: 'server',
  question: 'The server `trips` asks: Who travels?',
  notes: ['`Your name`: As on the ticket', "These are the server's words. It gets what you answer."],
  options: [
    anAnswer('text', 'Answer', { takes_text: true }),
    anAnswer('decline', 'Decline'),
    anAnswer('skip', 'Cancel')
  ]
};
const QUESTION: Question = {
  prompt_id: '01M800000000000000000000PR',
  kind: 'budget',
  question: 'This turn has used its $1.00.',
  notes: ['The next step takes $0.04 at the most, with "main".', 'What was done so far stays.'],
  options: [
    anAnswer('allow', 'Allow $0.50 more', { amount: 500_000_000, unit: 'cost' }),
    anAnswer('cheap', 'Go on with "cheap"'),
    anAnswer('stop', 'Stop here')
  ]
};

type Given = Parameters<React.ComponentProps<typeof QuestionCard>['api']['answer']>;

/** A server that has this question, and takes answers as it is told to. */
class Asked {
  question: Question | null = QUESTION;
  readonly answers: Given[] = [];
  take: () => Promise<void> = () => Promise.resolve();

  task = (): Promise<TaskWithSteps> =>
    Promise.resolve({
      ...aTask(),
      content: '',
      text: '',
      answer: null,
      steps: [],
      question: this.question,
      waits_for: [],
      updates: [],
      failed_steps: []
    });

  answer = (...given: Given): Promise<void> => {
    this.answers.push(given);
    return this.take();
  };
}

let node: HTMLElement;
let root: Root;
let server: Asked;

beforeEach(() => {
  jest.useFakeTimers();
  node = document.body.appendChild(document.createElement('div'));
  root = createRoot(node);
  server = new Asked();
});

afterEach(() => {
  act(() => root.unmount());
  node.remove();
  jest.useRealTimers();
});

const heard = (): Promise<void> => act(async () => Promise.resolve());
const pass = (milliseconds: number): void => {
  act(() => {
    jest.advanceTimersByTime(milliseconds);
  });
};
const button = (label: string): HTMLButtonElement | undefined =>
  [...node.querySelectorAll('button')].find(each => each.textContent === label);
const labels = (): (string | null)[] => [...node.querySelectorAll('button')].map(each => each.textContent);
const status = (): string => node.querySelector('[role=status]')?.textContent ?? '';

async function show(): Promise<void> {
  act(() => root.render(<QuestionCard taskId={ID} version={1} api={server} trans={TRANS} />));
  await heard();
}

async function click(label: string): Promise<void> {
  act(() => button(label)?.click());
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

test('the card has the question, its notes and its answers, and nothing before the server has told them', async () => {
  act(() => root.render(<QuestionCard taskId={ID} version={1} api={server} trans={TRANS} />));
  expect(node.textContent).toBe('');
  await heard();

  expect(node.querySelector('.jp-Ozzie-sentence')?.textContent).toBe('This turn has used its $1.00.');
  expect([...node.querySelectorAll('.jp-Ozzie-note')].map(note => note.textContent)).toEqual([...QUESTION.notes, '']);
  expect(labels()).toEqual(['Allow $0.50 more', 'Go on with "cheap"', 'Stop here']);
  expect(node.querySelector('input')?.value).toBe('0.50');
  expect(node.querySelector('[data-lm-suppress-shortcuts]')).not.toBeNull();
});

test('where nothing is asked any more there is no card', async () => {
  server.question = null;
  await show();
  expect(node.textContent).toBe('');
});

test('a click before the card is armed does nothing', async () => {
  await show();
  pass(400);
  await click('Stop here');
  expect(server.answers).toEqual([]);
  pass(200);
  await click('Stop here');
  expect(server.answers).toEqual([[ID, { option: 'stop', prompt_id: QUESTION.prompt_id }]]);
});

test('what is offered is allowed as it is, and another amount where one is typed', async () => {
  await show();
  pass(600);
  type('2');
  expect(labels()[0]).toBe('Allow $2.00 more');
  await click('Allow $2.00 more');
  expect(server.answers[0]?.[1]).toEqual({ option: 'allow', prompt_id: QUESTION.prompt_id, amount: 2e9 });
});

test('an amount that was not changed is not sent', async () => {
  await show();
  pass(600);
  await click('Allow $0.50 more');
  expect(server.answers[0]?.[1]).toEqual({ option: 'allow', prompt_id: QUESTION.prompt_id });
});

test.each(['', 'lots', '0', '-1', '1e9', '$', '0,500', '1,00', '1,0000'])(
  '"%s" is no amount, and the others may still be answered',
  async typed => {
    await show();
    pass(600);
    type(typed);
    expect(button('Allow $0.50 more')?.disabled).toBe(true);
    expect(node.querySelector('input')?.getAttribute('aria-invalid')).toBe('true');
    await click('Stop here');
    expect(server.answers).toHaveLength(1);
  }
);

test('while an answer is on its way no other can be given, and a refusal is said', async () => {
  let refuse: (error: Error) => void = () => undefined;
  server.take = () => new Promise((_, reject) => (refuse = reject));
  await show();
  pass(600);
  await click('Stop here');
  expect(labels()[2]).toBe('Sending…');
  expect([...node.querySelectorAll('button')].every(each => each.disabled)).toBe(true);

  refuse(new RequestError(409, 'answer.late', 'Already answered. Your answer did nothing.', ''));
  await heard();
  await heard();
  expect(status()).toBe('Already answered. Your answer did nothing.');
  expect(labels()[2]).toBe('Stop here');
});

test('an answer of which nothing is heard says that it was not sent', async () => {
  server.take = () => new Promise(() => undefined);
  await show();
  pass(600);
  await click('Stop here');
  pass(5_000);
  expect(status()).toBe('No connection. Your answer was not sent.');
  expect(button('Stop here')?.disabled).toBe(false);
});

test('another question of the same task takes the place of the first', async () => {
  await show();
  server.question = { ...QUESTION, prompt_id: '01M800000000000000000000PS', question: 'This turn has used its $2.00.' };
  act(() => root.render(<QuestionCard taskId={ID} version={2} api={server} trans={TRANS} />));
  await heard();
  expect(node.querySelector('.jp-Ozzie-sentence')?.textContent).toBe('This turn has used its $2.00.');
});

test('what a server asks is shown with what it says of it, and can be declined or cancelled', async () => {
  server.question = OF_SERVER;
  await show();
  pass(600);

  const notes = [...node.querySelectorAll('.jp-Ozzie-sentence ~ .jp-Ozzie-note')].map(each => each.textContent);
  expect(notes.slice(0, 2)).toEqual(OF_SERVER.notes);
  expect([...node.querySelectorAll('.jp-Ozzie-choice')].map(each => each.textContent)).toEqual(['Answer', 'Decline']);
  expect(labels()).toEqual(['Answer', 'Cancel']);
  await click('Cancel');
  expect(server.answers.map(([, given]) => given)).toEqual([{ option: 'skip', prompt_id: OF_SERVER.prompt_id }]);
});

describe('what the model asks', () => {
  const WORDS = anAnswer('text', 'Something else…', { takes_text: true });
  const SKIP = anAnswer('skip', 'Skip');
  const WHICH: Question = {
    prompt_id: '01M800000000000000000000PT',
    kind: 'question',
    question: 'Which year?\nThe table has two.',
    notes: [],
    options: [anAnswer('1', '2025', { help: 'The last full one.' }), anAnswer('2', '2026'), WORDS, SKIP]
  };
  const radios = (): HTMLInputElement[] => [...node.querySelectorAll<HTMLInputElement>('input[type=radio]')];
  const field = (): HTMLTextAreaElement | null => node.querySelector('textarea');
  const press = (target: Element, key: string, how: KeyboardEventInit = {}): void => {
    act(
      () => void target.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true, ...how }))
    );
  };
  const write = (text: string): void => {
    act(() => {
      Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, 'value')?.set?.call(field(), text);
      field()!.dispatchEvent(new Event('input', { bubbles: true }));
    });
  };
  const sent = (): unknown => server.answers.map(([, given]) => given);

  beforeEach(() => {
    server.question = WHICH;
  });

  test('shows the question with its lines, a row for each answer, and nothing chosen', async () => {
    await show();

    expect(node.querySelector('.jp-Ozzie-sentence')?.textContent).toBe('Which year?\nThe table has two.');
    const rows = [...node.querySelectorAll('.jp-Ozzie-choice')].map(each => each.textContent);
    expect(rows).toEqual(['2025The last full one.', '2026', 'Something else…']);
    expect(radios().some(each => each.checked)).toBe(false);
    expect(labels()).toEqual(['Answer', 'Skip']);
    expect(button('Answer')?.disabled).toBe(true);
    expect(field()).toBeNull();
  });

  test('a choice is sent by its button, and not by choosing', async () => {
    await show();
    pass(600);
    act(() => radios()[1]?.click());
    expect(sent()).toEqual([]);

    await click('Answer');

    expect(sent()).toEqual([{ option: '2', prompt_id: WHICH.prompt_id }]);
  });

  test('digits choose, and Shift Enter answers', async () => {
    await show();
    pass(600);
    const card = node.querySelector('.jp-Ozzie-question')!;
    press(card, '7');
    press(card, '1', { ctrlKey: true });
    press(card, 'Enter', { shiftKey: true });
    expect(sent()).toEqual([]);

    press(card, '1');
    expect(radios()[0]?.checked).toBe(true);
    press(card, 'Enter');
    expect(sent()).toEqual([]);
    press(card, 'Enter', { shiftKey: true });

    expect(sent()).toEqual([{ option: '1', prompt_id: WHICH.prompt_id }]);
  });

  test('words of ones own have a field that takes the focus, and digits are text in it', async () => {
    await show();
    pass(600);
    act(() => radios()[2]?.click());
    expect(document.activeElement).toBe(field());
    expect(button('Answer')?.disabled).toBe(true);
    write(' ');
    expect(button('Answer')?.disabled).toBe(true);

    press(field()!, '1');
    expect(radios()[2]?.checked).toBe(true);
    write('2019\nor before');
    press(field()!, 'Enter', { shiftKey: true });

    expect(sent()).toEqual([{ option: 'text', text: '2019\nor before', prompt_id: WHICH.prompt_id }]);
  });

  test('the field grows with what is written, from 3 lines to 8', async () => {
    await show();
    act(() => radios()[2]?.click());
    expect(field()?.rows).toBe(3);
    write('a\n'.repeat(5));
    expect(field()?.rows).toBe(6);
    write('a\n'.repeat(20));
    expect(field()?.rows).toBe(8);
  });

  test('without choices there is only the field, which does not take the focus by itself', async () => {
    server.question = { ...WHICH, options: [{ ...WORDS, label: 'Answer' }, SKIP] };
    await show();
    pass(600);

    expect(radios()).toEqual([]);
    expect(field()).not.toBeNull();
    expect(document.activeElement).not.toBe(field());
    write('Ana');
    await click('Answer');

    expect(sent()).toEqual([{ option: 'text', text: 'Ana', prompt_id: WHICH.prompt_id }]);
  });

  test('a question may be skipped, whatever was begun', async () => {
    await show();
    pass(600);
    act(() => radios()[2]?.click());
    write('half a tho');

    await click('Skip');

    expect(sent()).toEqual([{ option: 'skip', prompt_id: WHICH.prompt_id }]);
  });

  test('neither a click nor Shift Enter counts before the card is armed', async () => {
    await show();
    act(() => radios()[0]?.click());
    await click('Answer');
    press(node.querySelector('.jp-Ozzie-question')!, 'Enter', { shiftKey: true });
    await click('Skip');

    expect(sent()).toEqual([]);
  });

  test('what the gateway has against an answer is said, and what was written stays', async () => {
    server.take = () => Promise.reject(new RequestError(400, 'answer.text', 'The answer is empty.', ''));
    await show();
    pass(600);
    act(() => radios()[2]?.click());
    write('mine');

    await click('Answer');
    await heard();

    expect(status()).toBe('The answer is empty.');
    expect(field()?.value).toBe('mine');
    expect(button('Answer')?.disabled).toBe(false);
  });
});

describe('below a cell', () => {
  const area = (): HTMLElement => node.querySelector<HTMLElement>('.jp-Cell-outputArea')!;
  let notebook: ICells;
  const asking = (): PromptingTask => ({
    taskId: ID,
    cellId: 'cell-1',
    mode: 'FREE',
    position: 1,
    status: 'WAITING_INPUT',
    waiting: []
  });
  const parts = (rows: readonly ApprovalRow[] = []): IPromptParts => {
    const signal = new Signal({});
    return {
      api: {
        task: server.task,
        answer: server.answer,
        artifactText: () => Promise.resolve(''),
        approvalCard: () => Promise.reject(new Error('none is asked for'))
      },
      approvals: { of: () => rows, changed: signal, isChanged: () => false } as unknown as ApprovalBook,
      board: { state: 'ready', changed: signal } as unknown as IPromptParts['board'],
      trans: TRANS,
      onLeave: () => undefined
    };
  };

  beforeEach(() => {
    const cell = node.appendChild(document.createElement('div'));
    cell.innerHTML = '<div class="jp-Cell-outputArea"><div class="oz-ask-card"></div></div>';
    notebook = { widgets: [{ model: { id: 'cell-1' }, node: cell }] };
  });

  test('the card stands once, and goes when the task waits no more', async () => {
    const task = asking();
    for (let count = 0; count < 3; count++) {
      act(() => drawPrompts(notebook, task, parts()));
      await heard();
    }
    act(() => jest.runOnlyPendingTimers());
    await heard();
    expect(area().querySelectorAll('.jp-Ozzie-inCell')).toHaveLength(1);
    expect(area().classList).toContain('jp-Ozzie-mod-asking');

    act(() => drawPrompts(notebook, undefined, parts()));
    expect(area().querySelectorAll('.jp-Ozzie-inCell')).toHaveLength(0);
    expect(area().classList).not.toContain('jp-Ozzie-mod-asking');
  });

  test("the kernel's own form stays until the card has something to show, which is asked for until it comes", async () => {
    let refusals = 2;
    const told = server.task;
    server.task = () => (refusals-- > 0 ? Promise.reject(new RequestError(0, '', 'No.', '')) : told());
    act(() => drawPrompts(notebook, asking(), parts()));
    pass(20);
    await heard();
    expect(area().classList).not.toContain('jp-Ozzie-mod-asking');
    for (let count = 0; count < 3; count++) {
      pass(2_000);
      await heard();
    }
    expect(area().classList).toContain('jp-Ozzie-mod-asking');
    expect(area().textContent).toContain('has used its $1.00');
  });

  test('a task that waits for approvals has a card for each, in the place of its question', async () => {
    act(() => drawPrompts(notebook, asking(), parts()));
    await heard();
    const waits: PromptingTask = { ...asking(), status: 'WAITING_APPROVAL', position: 2 };
    act(() => drawPrompts(notebook, undefined, parts()));
    act(() =>
      drawPrompts(notebook, waits, parts([anApproval(), anApproval({ approval_id: 'second', tool_id: 'fs.trash' })]))
    );
    expect(area().querySelectorAll('.jp-Ozzie-approval')).toHaveLength(2);
    expect(area().querySelector('.jp-Ozzie-question')).toBeNull();
    expect(area().classList).toContain('jp-Ozzie-mod-asking');
  });

  test('a task of a cell that is gone has no card', () => {
    act(() => drawPrompts(notebook, { ...asking(), cellId: 'elsewhere' }, parts()));
    expect(node.querySelector('.jp-Ozzie-inCell')).toBeNull();
  });
});

test.each([
  ['cost', 500_000_000, '0.50'],
  ['cost', 1_234_000_000, '1.234'],
  ['tokens', 2000, '2000'],
  ['time', 30_000, '30']
] as const)('an amount of %s, %d, stands in a field as %s and is read back', (unit, amount, text) => {
  expect(amountText({ amount, unit })).toBe(text);
  expect(readAmount(text, unit)).toBe(amount);
});

test('amounts may be typed as people write them', () => {
  expect(readAmount(' $1,000.50 ', 'cost')).toBe(1_000_500_000_000);
  expect(readAmount('20,000', 'tokens')).toBe(20_000);
  expect(readAmount('.5', 'cost')).toBe(500_000_000);
  expect([allowLabel(750_000_000, 'cost', TRANS), allowLabel(30_000, 'time', TRANS)]).toEqual([
    'Allow $0.75 more',
    'Allow 30 s more'
  ]);
  expect(allowLabel(20_000, 'tokens', TRANS)).toBe(`Allow ${(20_000).toLocaleString()} tokens more`);
});
