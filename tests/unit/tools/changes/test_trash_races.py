"""A file that somebody else changes at the very moment in which it goes to the trash is not lost."""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import pytest

from ozzie_server_ext.tools.base import ToolFailed, Unsettled
from ozzie_server_ext.tools.changes.held import move
from ozzie_server_ext.tools.changes.trash import move_to_trash, was_trashed
from tests.hostile.racing import AT_CWD, FILE, lay_out
from tests.tiers import SOAK
from tests.unit.tools.changes.test_races import (
    MOST_LOOKS,
    MOVING,
    Race,
    attempts,
    contents,
    in_a_process,
    in_a_thread,
    name,
    seen_file,
)

WHEN = datetime(2026, 1, 1, tzinfo=UTC)


def lay_anew(base: Path, root: Path, content: str) -> None:
    """Puts a file in the place of one that went to the trash, in a moment in which the path leads there."""
    (base / "next.txt").write_text(content)
    for _ in range(MOST_LOOKS):
        with suppress(FileExistsError, FileNotFoundError):
            move(AT_CWD, str(base / "next.txt"), AT_CWD, str(root / FILE))
            return
    raise AssertionError("there is never room for the file")


@pytest.mark.sampled
@pytest.mark.timeout(1800 if SOAK else 60)
@pytest.mark.parametrize("racing", [in_a_thread, in_a_process])
@pytest.mark.parametrize("race", MOVING)
def test_what_goes_to_the_trash_is_what_was_seen(
    tmp_path: Path, race: str, racing: Race, say: Callable[[str], None]
) -> None:
    root = lay_out(tmp_path)
    expected = contents(tmp_path)
    ended: Counter[str] = Counter()

    with racing(race, tmp_path):
        for number in attempts(ended):
            looked = seen_file(root)
            try:
                moved = move_to_trash(root, looked.seen, f"call{number}", when=WHEN)
            except (ToolFailed, Unsettled) as error:
                ended[error.code] += 1
                continue
            ended["done"] += 1
            assert (root / moved.place).read_bytes() == looked.content
            assert was_trashed(root, f"call{number}", sha256(looked.content).hexdigest())
            lay_anew(tmp_path, root, f"next {number}\n")
            expected[f"next {number}\n"] += 1

    say(f"trash, {race}, {name(racing)}: {dict(ended)}")
    for note in (root / ".ozzie" / "trash").glob("*.json"):
        note.unlink()
    assert contents(tmp_path) == expected
    assert len(ended) > 1, "nobody raced"
