"""Changes of files whose process is killed before each of its system calls, and what must be so afterwards.

Run as a program with an empty folder: it forks a child for each call, which kills itself with SIGKILL just before it,
looks at what is left, and goes on from there. It prints how often each kind of change was killed, as JSON.

Python's system calls are made by functions of the modules in SYSTEM, but for a rename through ctypes; it has one of
those right before and after it, so no gap is left.
"""

import json
import os
import shutil
import signal
import stat
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from ozzie_server_ext.tools.changes.replace import clear_leftovers, replace
from ozzie_server_ext.tools.changes.seen import Seen, look
from ozzie_server_ext.tools.changes.several import Step, carry_out, make_missing_folders, was_done, was_replaced
from ozzie_server_ext.tools.changes.trash import all_notes, move_to_trash, restore, was_trashed
from tests.hostile.leftovers import leftovers

OLD, NEW = b"the old content\n" * 4, b"the new one\n" * 3
OLD_HASH, NEW_HASH = sha256(OLD).hexdigest(), sha256(NEW).hexdigest()
MODE = 0o640
SYSTEM = {"posix", "fcntl", "_io"}
MOST_CALLS = 5000
WHEN = datetime(2026, 1, 2, tzinfo=UTC)


class Change(Protocol):
    def prepare(self, root: Path) -> Callable[[], object]:
        """Makes a project in the empty folder `root`; what is to be done to it, and may be killed."""
        ...

    def check(self, root: Path) -> str:
        """Raises AssertionError unless what is left is in order and can be gone on from; what was found."""
        ...


class Replacing:
    path = "notes.txt"

    def prepare(self, root: Path) -> Callable[[], object]:
        (root / self.path).write_bytes(OLD)
        os.chmod(root / self.path, MODE)
        self.seen: Seen = look(root, self.path).seen
        return lambda: replace(root, self.seen, NEW)

    def check(self, root: Path) -> str:
        content = (root / self.path).read_bytes()
        assert content in (OLD, NEW), content
        assert stat.S_IMODE(os.stat(root / self.path).st_mode) == MODE
        beside = _check_beside(root, self.path)
        assert was_replaced(root, self.seen, NEW_HASH) is (content == NEW)
        assert clear_leftovers(root, self.path).kept == ()
        assert os.listdir(root) == [self.path]
        replace(root, look(root, self.path).seen, b"next")
        assert (root / self.path).read_bytes() == b"next"
        return f"{'new' if content == NEW else 'old'}, {beside} beside it"


class Creating:
    path = "a/b/notes.txt"

    def prepare(self, root: Path) -> Callable[[], object]:
        self.seen: Seen = look(root, self.path).seen
        return lambda: replace(root, self.seen, NEW)

    def check(self, root: Path) -> str:
        there = (root / self.path).exists()
        assert not there or (root / self.path).read_bytes() == NEW
        beside = _check_beside(root, self.path)
        assert was_replaced(root, self.seen, NEW_HASH) is there
        if (root / self.path).parent.exists():
            assert clear_leftovers(root, self.path).kept == ()
            assert os.listdir((root / self.path).parent) == ["notes.txt"] * there
        replace(root, look(root, self.path).seen, b"next")
        assert (root / self.path).read_bytes() == b"next"
        return f"{'new' if there else 'none'}, {beside} beside it"


class Trashing:
    path = "a/notes.txt"

    def prepare(self, root: Path) -> Callable[[], object]:
        (root / "a").mkdir()
        (root / self.path).write_bytes(OLD)
        seen = look(root, self.path).seen
        return lambda: move_to_trash(root, seen, "call1", when=WHEN)

    def check(self, root: Path) -> str:
        gone = was_trashed(root, "call1", OLD_HASH)
        assert (root / self.path).exists() is not gone
        if not gone:
            assert (root / self.path).read_bytes() == OLD
            move_to_trash(root, look(root, self.path).seen, "call1", when=WHEN)
        restore(root, "call1")
        assert (root / self.path).read_bytes() == OLD
        assert sorted(os.listdir(root / ".ozzie" / "trash")) == []
        return "in the trash" if gone else "in its place"


class Restoring:
    path = "a/notes.txt"

    def prepare(self, root: Path) -> Callable[[], object]:
        (root / "a").mkdir()
        (root / self.path).write_bytes(OLD)
        move_to_trash(root, look(root, self.path).seen, "call1", when=WHEN)
        (root / "a").rmdir()
        return lambda: restore(root, "call1")

    def check(self, root: Path) -> str:
        back = not was_trashed(root, "call1", OLD_HASH)
        assert (root / self.path).exists() is back
        if not back:
            restore(root, "call1")
        assert (root / self.path).read_bytes() == OLD
        return "in its place" if back else "in the trash"


class Applying:
    """Several files, one of them to the trash: made again for the rest, it comes to its end."""

    old, new, gone = "a/old.txt", "b/new.txt", "a/gone.txt"

    def prepare(self, root: Path) -> Callable[[], object]:
        (root / "a").mkdir()
        for path in (self.old, self.gone):
            (root / path).write_bytes(OLD)
        self.steps = self._steps(root)
        return lambda: self._apply(root, self.steps)

    def check(self, root: Path) -> str:
        there = [
            (root / self.old).read_bytes() == NEW,
            (root / self.new).exists(),
            not (root / self.gone).exists(),
        ]
        assert [was_done(root, step.effect, "key") for step in self.steps] == there
        left = [step for step, is_done in zip(self._steps(root), there, strict=True) if not is_done]
        self._apply(root, left)
        assert [(root / path).read_bytes() for path in (self.old, self.new)] == [NEW, NEW]
        assert not (root / self.gone).exists()
        assert [note.path for note in all_notes(root)] == [self.gone]
        for path in (self.old, self.new):  # of a file that needs no change any more, the next one clears them
            assert clear_leftovers(root, path).kept == ()
        assert [os.listdir(root / folder) for folder in ("a", "b")] == [["old.txt"], ["new.txt"]]
        return f"{sum(there)} of 3"

    def _steps(self, root: Path) -> list[Step]:
        contents = {self.old: NEW, self.new: NEW, self.gone: None}
        return [Step(seen=look(root, path).seen, content=content) for path, content in contents.items()]

    def _apply(self, root: Path, steps: list[Step]) -> None:
        for step in make_missing_folders(root, tuple(steps)).steps:
            carry_out(root, step, "key", WHEN)


def _check_beside(root: Path, path: str) -> str:
    """What lies beside the file is recognised, nobody may read it who may not read the file, and it is none of ours
    that nobody knows."""
    folder = (root / path).parent
    if not folder.exists():
        return "nothing"
    beside = {name for name in os.listdir(folder) if name != (root / path).name}
    assert set(leftovers(root, path)) == beside
    for name in beside:
        content = (folder / name).read_bytes()
        assert NEW.startswith(content) or content == OLD, content
        assert stat.S_IMODE(os.stat(folder / name).st_mode) & ~(MODE if path == Replacing.path else 0o644) == 0
    return " and ".join(sorted(name.rpartition(".")[2][:5] for name in beside)) or "nothing"


def kill_before_each_call(change: Change, root: Path) -> dict[str, int]:
    """How often each state was found."""
    found: dict[str, int] = {}
    for number in range(1, MOST_CALLS):
        shutil.rmtree(root)
        root.mkdir()
        act = change.prepare(root)
        if not _killed(act, number):
            return found
        state = change.check(root)
        found[state] = found.get(state, 0) + 1
    raise AssertionError("the change never came to its end")


def _killed(act: Callable[[], object], number: int) -> bool:
    """Whether `act`, in a child, got as far as its call with that number, and died there."""
    child = os.fork()
    if child == 0:
        count = 0

        def watch(_frame: object, event: str, called: object) -> None:
            nonlocal count
            if event == "c_call" and _module(called) in SYSTEM:
                count += 1
                if count == number:
                    os.kill(os.getpid(), signal.SIGKILL)

        try:
            sys.setprofile(watch)
            act()
            sys.setprofile(None)
        except BaseException:
            os._exit(1)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, -signal.SIGKILL), status
    return status != 0


def _module(called: object) -> str:
    """Of a built-in function, or of what a built-in method belongs to."""
    return getattr(called, "__module__", None) or type(getattr(called, "__self__", None)).__module__


def main() -> None:
    root = Path(sys.argv[1]) / "project"
    root.mkdir()
    changes = (Replacing(), Creating(), Trashing(), Restoring(), Applying())
    json.dump({type(change).__name__: kill_before_each_call(change, root) for change in changes}, sys.stdout)


if __name__ == "__main__":
    main()
