"""A change by somebody else at the very moment of Ozzie's change is not lost, and is not written through."""

import os
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ozzie_server_ext.tools.base import ToolFailed, Unsettled
from ozzie_server_ext.tools.changes.replace import replace
from ozzie_server_ext.tools.changes.seen import Looked, Seen, look
from tests.hostile.racing import FILE, NEW_FILE, RACES, lay_out, run
from tests.tiers import SOAK
from tests.warm import WarmPopen

ROOT = Path(__file__).resolve().parents[4]
ATTEMPTS = 10_000 if SOAK else 20
"""For each race, and for each way to run it; with `make soak` ten thousand."""

Race = Callable[[str, Path], AbstractContextManager[None]]
MOST_LOOKS = 100_000
MOVING = sorted(set(RACES) - {"the file appended to", "a file made and taken"})


def name(racing: Race) -> str:
    return getattr(racing, "__name__", "")


@contextmanager
def in_a_thread(race: str, base: Path) -> Iterator[None]:
    stop = threading.Event()
    racer = threading.Thread(target=run, args=(RACES[race], base, stop), daemon=True)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    racer.start()
    try:
        yield
    finally:
        stop.set()
        racer.join(20)
        sys.setswitchinterval(interval)


@contextmanager
def in_a_process(race: str, base: Path) -> Iterator[None]:
    command = [sys.executable, "-m", "tests.hostile.racing", race, str(base)]
    with WarmPopen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as racer:
        assert racer.stdin
        assert racer.stdout
        try:
            assert racer.stdout.readline() == b"racing\n"
            yield
        finally:
            racer.stdin.close()
            assert racer.wait(20) == 0


def attempts(ended: Counter[str], most: int = ATTEMPTS) -> Iterator[int]:
    """As many as are asked for, and on a busy machine some more, until the racer was there at one of them."""
    for number in range(20 * most):
        if number >= most and len(ended) > 1:
            return
        yield number


def contents(base: Path) -> Counter[str]:
    """What lies anywhere below `base`, and how often; a link counts as where it leads."""
    paths = [path for path in base.rglob("*") if path.is_symlink() or path.is_file()]
    return Counter(f"-> {os.readlink(path)}" if path.is_symlink() else path.read_text() for path in paths)


@dataclass
class Tally:
    """How the attempts ended, and what must lie somewhere in the end."""

    expected: Counter[str]
    ended: Counter[str] = field(default_factory=Counter)
    seen: list[str] = field(default_factory=list)
    perhaps: Counter[str] = field(default_factory=Counter)

    def replace(self, root: Path, number: int) -> None:
        """One attempt on what is seen in a moment in which it can be seen."""
        new = f"ours {number}\n"
        looked = seen_file(root)
        try:
            replace(root, looked.seen, new.encode())
        except ToolFailed as error:
            self.ended[error.code] += 1
        except Unsettled as error:
            self.ended[error.code] += 1
            self.perhaps[new] += 1
        else:
            self.ended["done"] += 1
            self.seen.append(looked.content.decode())
            self.expected[looked.content.decode()] -= 1
            self.expected[new] += 1


def looked_at(root: Path, path: str) -> Looked:
    """In a moment in which the path can be looked at."""
    for _ in range(MOST_LOOKS):
        with suppress(ToolFailed):
            return look(root, path)
    raise AssertionError("the path never leads anywhere")


def seen_file(root: Path) -> Looked:
    for _ in range(MOST_LOOKS):
        looked = looked_at(root, FILE)
        if looked.seen.file is not None:
            return looked
    raise AssertionError("the file is never there")


def absent_file(root: Path) -> Seen:
    for _ in range(MOST_LOOKS):
        looked = look(root, NEW_FILE)
        if looked.seen.file is None:
            return looked.seen
    raise AssertionError("the file is always there")


@pytest.mark.sampled
@pytest.mark.timeout(1800 if SOAK else 60)
@pytest.mark.parametrize("racing", [in_a_thread, in_a_process])
@pytest.mark.parametrize("race", MOVING)
def test_a_racer_loses_no_content_and_none_is_written_elsewhere(
    tmp_path: Path, race: str, racing: Race, say: Callable[[str], None]
) -> None:
    root = lay_out(tmp_path)
    tally = Tally(contents(tmp_path))

    with racing(race, tmp_path):
        for number in attempts(tally.ended):
            tally.replace(root, number)

    say(f"{race}, {name(racing)}: {dict(tally.ended)}")
    found = contents(tmp_path)
    assert +(tally.expected - found) == Counter(), "this is lost"
    assert found - +tally.expected <= tally.perhaps, "this should not be there"
    assert (tmp_path / "victim.txt").read_text() == "first of victim.txt\n"
    assert len(tally.ended) > 1, "nobody raced"


@pytest.mark.sampled
@pytest.mark.timeout(1800 if SOAK else 60)
@pytest.mark.parametrize("racing", [in_a_thread, in_a_process])
def test_nothing_that_is_appended_in_place_is_lost(tmp_path: Path, racing: Race, say: Callable[[str], None]) -> None:
    """Each of it was seen by an attempt that replaced it, or lies there in the end."""
    root = lay_out(tmp_path)
    tally = Tally(contents(tmp_path))

    with racing("the file appended to", tmp_path):
        for number in attempts(tally.ended):
            tally.replace(root, number)

    sent = re.findall(r"<\d+>", (tmp_path / "sent.txt").read_text())
    say(f"{len(sent)} times appended to, {name(racing)}: {dict(tally.ended)}")
    (tmp_path / "sent.txt").unlink()
    there = set(re.findall(r"<\d+>", "".join((*tally.seen, *contents(tmp_path)))))
    assert [one for one in sent if one not in there] == [], "this is lost"
    assert len(tally.ended) > 1, "nobody raced"


@pytest.mark.sampled
@pytest.mark.timeout(1800 if SOAK else 60)
@pytest.mark.parametrize("racing", [in_a_thread, in_a_process])
def test_a_new_file_is_never_put_over_another(tmp_path: Path, racing: Race, say: Callable[[str], None]) -> None:
    root = lay_out(tmp_path)
    ours: list[str] = []
    ended: Counter[str] = Counter()

    with racing("a file made and taken", tmp_path):
        for number in attempts(ended):
            try:
                replace(root, absent_file(root), f"ours {number}\n".encode())
                ours.append(f"ours {number}\n")
                ended["done"] += 1
            except ToolFailed as error:
                ended[error.code] += 1

    say(f"a file made and taken, {name(racing)}: {dict(ended)}")
    found = contents(tmp_path)
    made = re.findall(r"made \d+\n", (tmp_path / "sent.txt").read_text())
    assert Counter([*ours, *made]) - found == Counter(), "this is lost"
    assert [one for one in found if one.startswith("ours") and one not in ours] == []
    assert len(ended) > 1, "nobody raced"


@pytest.mark.sampled
@pytest.mark.timeout(1800 if SOAK else 60)
@pytest.mark.parametrize("racing", [in_a_thread, in_a_process])
@pytest.mark.parametrize("race", ["the folder swapped for another", "the folder swapped for a link"])
def test_a_new_file_lies_in_the_project_or_nowhere(
    tmp_path: Path, race: str, racing: Race, say: Callable[[str], None]
) -> None:
    root = lay_out(tmp_path)
    ended: Counter[str] = Counter()
    expected, perhaps = contents(tmp_path), Counter[str]()

    with racing(race, tmp_path):
        for number in attempts(ended):
            new = f"ours {number}\n"
            try:
                replace(root, looked_at(root, f"data/new-{number}.txt").seen, new.encode())
            except ToolFailed as error:
                ended[error.code] += 1
            except Unsettled as error:
                ended[error.code] += 1
                perhaps[new] += 1
            else:
                ended["done"] += 1
                expected[new] += 1

    say(f"new files, {race}, {name(racing)}: {dict(ended)}")
    found = contents(tmp_path)
    assert expected - found == Counter(), "this is lost"
    assert found - expected <= perhaps, "this should not be there"
    assert not list((tmp_path / "outside").glob("new-*")), "this was written through a link"
    assert len(ended) > 1, "nobody raced"
