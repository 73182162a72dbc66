import { type IExecution, PersonsRuns } from '../model/personsRuns';

const RUN = 'notebook:run-cell-and-select-next';

describe("a person's run of a cell", () => {
  let runs: PersonsRuns<string>;
  const run = (cell: string): IExecution<string> => ({ cell, id: `of ${cell}`, code: 'Hello.' });

  beforeEach(() => {
    runs = new PersonsRuns<string>();
  });

  it('begins by their key, whichever Lab tells first', () => {
    runs.acts(['a'], 0);
    expect(runs.begins(run('a'), 10)).toBeNull();
    expect(runs.ran(RUN, 11)).toEqual(run('a'));

    runs.acts(['b'], 1_000);
    expect(runs.ran(RUN, 1_001)).toBeNull();
    expect(runs.begins(run('b'), 1_400)).toEqual(run('b'));
  });

  it.each([
    ['all cells run', ['a'], 'notebook:run-all-cells', 1],
    ['several are selected', ['a', 'b'], RUN, 1],
    ['none is selected', [], RUN, 1],
    ['a program carries it out later', ['a'], RUN, 1_000]
  ] as const)('is none if %s', (_, selected, command, at) => {
    runs.acts(selected, 0);
    expect(runs.ran(command, at)).toBeNull();
    expect(runs.begins(run('a'), at)).toBeNull();
  });

  it('is one for each key, and of the selected cell alone', () => {
    runs.acts(['a'], 0);
    expect(runs.ran(RUN, 1)).toBeNull();
    expect(runs.ran(RUN, 2)).toBeNull();
    expect(runs.begins(run('a'), 4)).toEqual(run('a'));
    expect(runs.begins(run('a'), 5)).toBeNull();

    runs.acts(['a'], 10);
    expect(runs.ran(RUN, 11)).toBeNull();
    expect(runs.begins(run('b'), 12)).toBeNull();
    expect(runs.begins(run('a'), 13)).toBeNull();
  });

  it('is none of several that ran at once', () => {
    runs.acts(['a'], 0);
    for (const cell of ['a', 'b', 'c']) {
      expect(runs.begins(run(cell), 1)).toBeNull();
    }
    expect(runs.ran(RUN, 2)).toBeNull();
  });

  it('is none without a key of theirs, or before it', () => {
    expect(runs.ran(RUN, 1)).toBeNull();
    expect(runs.begins(run('a'), 2)).toBeNull();
    runs.acts(['a'], 3);
    expect(runs.ran(RUN, 4)).toBeNull();
  });

  it('waits for no kernel', () => {
    runs.acts(['a'], 0);
    runs.ran(RUN, 1);
    expect(runs.begins(run('a'), 1_000)).toBeNull();
  });
});
