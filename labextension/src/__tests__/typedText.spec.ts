import { type Delta, MAX_PARTS, TypedText } from '../model/typedText';

describe('what a person typed', () => {
  let typed: TypedText;
  let text: string;
  let now: number;

  /** Change the text from `at` on. */
  const change = (inserted: string, at = text.length, deleted = 0, isLocal = true): void => {
    text = text.slice(0, at) + inserted + text.slice(at + deleted);
    const delta: Delta = [
      { retain: at },
      ...(deleted > 0 ? [{ delete: deleted }] : []),
      ...(inserted === '' ? [] : [{ insert: inserted }])
    ];
    typed.changed(delta, text, isLocal, now);
  };
  const type = (words: string, at = text.length): void => {
    Array.from(words).forEach((letter, index) => {
      typed.writes(letter, now);
      change(letter, at + index);
      now += 150;
    });
  };
  const parts = (): readonly string[] => typed.parts(text);

  beforeEach(() => {
    text = '';
    typed = new TypedText(text);
    now = 1_000;
  });

  it('is typed letter by letter, or written by an input method', () => {
    type('to ana@firm.example ');
    typed.writes('どうぞ', now);
    change('どうぞ');
    expect(parts()).toEqual([text]);
  });

  it('has the bracket that the editor adds, and a new line with its indentation', () => {
    typed.writes('(', now);
    change('()');
    typed.writes(null, now);
    change('\n    ');
    expect(parts()).toEqual(['()\n    ']);
  });

  it('stands between what was there', () => {
    text = 'to x@evil.example';
    typed = new TypedText(text);
    type('ana and ', 3);
    type('!');
    expect(parts()).toEqual(['', 'to ', 'ana and ', 'x@evil.example', '!']);
  });

  it('has nothing that was pasted, though a key was pressed for it', () => {
    type('to ');
    typed.writes(null, now);
    typed.inserts();
    change('x');
    expect(parts()).toEqual(['to', ' x']);
  });

  it.each([
    ['more comes than was written, as by a completion', 'e', 0, 'evil@x.example'],
    ['something else comes', 'e', 0, 'x'],
    ['it comes long after', 'x', 500, 'x'],
    ['a key writes nothing', null, 0, 'x']
  ] as const)('has nothing of it if %s', (_, written, later, inserted) => {
    typed.writes(written, now);
    now += later;
    change(inserted);
    expect(parts()).toEqual(['', inserted]);
  });

  it('is one change for each input', () => {
    typed.writes('x', now);
    change('x');
    change('x');
    expect(parts()).toEqual(['', 'xx']);
  });

  it('has nothing that another page changes meanwhile, and what it parts', () => {
    type('boss@firm.co.uk');
    typed.writes(null, now);
    change(' ', 12, 0, false);
    expect(parts()).toEqual(['boss@firm.c', 'o .', 'uk']);
    typed.writes('x', now);
    change('x', text.length, 0, false);
    expect(parts()).toEqual(['boss@firm.c', 'o .', 'u', 'kx']);
  });

  it('stays typed where a person deletes, and not where a program does', () => {
    type('to not ana, not ben');
    typed.writes(null, now);
    change('', 3, 4);
    expect(parts()).toEqual(['to ana, not ben']);
    now += 1_000;
    change('', 8, 4);
    expect(parts()).toEqual(['to ana,', ' b', 'en']);
  });

  it('replaces what was selected', () => {
    type('to ana');
    typed.writes('b', now);
    change('b', 3, 3);
    expect(parts()).toEqual(['to b']);
  });

  it('is nothing at all of another text, or in too many parts', () => {
    type('to ana');
    expect(typed.parts('to ben')).toEqual(['', 'to ben']);
    for (let count = 0; count < MAX_PARTS; count += 1) {
      type('xxx');
      change('y');
    }
    expect(parts()).toEqual(['', text]);
  });
});
