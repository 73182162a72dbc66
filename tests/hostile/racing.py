"""Programs that change a file, or the folders above it, as fast as they can while Ozzie changes it.

None of them ever removes or writes over anything: they swap, move and append. So whatever content is missing in the end
was lost by somebody else. Run as a program with a race's name and its folder: it goes on until its input ends.
"""

import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ozzie_server_ext.tools.changes.held import move, swap

FILE = "data/notes.txt"
NEW_FILE = "data/new.txt"
AT_CWD = -100
MOST_ROUNDS = 50_000_000


def lay_out(base: Path) -> Path:
    """The project's root below `base`, which has beside it what the races put in the place of things."""
    for folder in ("project/data", "other", "outside"):
        (base / folder).mkdir(parents=True)
    for file in (f"project/{FILE}", "spare.txt", "victim.txt", "other/notes.txt", "outside/notes.txt"):
        (base / file).write_text(f"first of {file}\n")
    (base / "file-link").symlink_to(base / "victim.txt")
    (base / "folder-link").symlink_to(base / "outside")
    return base / "project"


def swapped_with(place: str, other: str) -> Callable[[Path, int], None]:
    def swap_once(base: Path, _number: int) -> None:
        with suppress(FileNotFoundError):
            swap(AT_CWD, str(base / place), str(base / other))

    return swap_once


def moved_away_and_back(base: Path, _number: int) -> None:
    with suppress(FileNotFoundError, FileExistsError):
        move(AT_CWD, str(base / "project" / FILE), AT_CWD, str(base / "away.txt"))
    with suppress(FileNotFoundError, FileExistsError):
        move(AT_CWD, str(base / "away.txt"), AT_CWD, str(base / "project" / FILE))


def appended_to(base: Path, number: int) -> None:
    """Through its path; `sent.txt` has what was written. A swap leaves no moment without a file."""
    with open(base / "project" / FILE, "ab", buffering=0) as file:
        file.write(f"<{number}>".encode())
    with open(base / "sent.txt", "ab", buffering=0) as sent:
        sent.write(f"<{number}>".encode())
    for _ in range(number % 200):
        os.stat(base / "sent.txt")  # some time in which nobody has the file open


def made_and_taken(base: Path, number: int) -> None:
    """A new file appears, and whatever lies there is taken elsewhere; `sent.txt` has what was made."""
    made, place = base / f"made-{number}.txt", base / "project" / NEW_FILE
    made.write_text(f"made {number}\n")
    with open(base / "sent.txt", "ab", buffering=0) as sent:
        sent.write(f"made {number}\n".encode())
    with suppress(FileExistsError):
        move(AT_CWD, str(made), AT_CWD, str(place))
    with suppress(FileNotFoundError):
        move(AT_CWD, str(place), AT_CWD, str(base / f"taken-{number}.txt"))


RACES: dict[str, Callable[[Path, int], None]] = {
    "the file swapped for another": swapped_with(f"project/{FILE}", "spare.txt"),
    "the file swapped for a link": swapped_with(f"project/{FILE}", "file-link"),
    "the file moved away and back": moved_away_and_back,
    "the file appended to": appended_to,
    "a file made and taken": made_and_taken,
    "the folder swapped for another": swapped_with("project/data", "other"),
    "the folder swapped for a link": swapped_with("project/data", "folder-link"),
}


ROUNDS_A_BREATH, BREATH_S = 21, 0.002  # an odd number: two breaths find things in either of two places


def run(race: Callable[[Path, int], None], base: Path, stop: threading.Event) -> None:
    for number in range(MOST_ROUNDS):
        if stop.is_set():
            return
        race(base, number)
        if number % ROUNDS_A_BREATH == 0:  # else nobody but the racer gets anything done where it has a core of its own
            stop.wait(BREATH_S)


def main() -> None:
    stop = threading.Event()
    race = threading.Thread(target=run, args=(RACES[sys.argv[1]], Path(sys.argv[2]), stop))
    race.start()
    sys.stdout.write("racing\n")
    sys.stdout.flush()
    sys.stdin.read()
    stop.set()
    race.join()


if __name__ == "__main__":
    main()
