"""`ozzie sessions fork`: go on from an earlier turn, and see the tree."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rig import Gateway, new_home, ozzie, start_gateway


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with start_gateway(new_home(tmp_path_factory.mktemp("forks"))) as running:
        for text in ("Say hello.", "What is 2 + 3? Use the calculator.", "Say goodbye."):
            ozzie(running.home, "ask", text, "--session", "sums")
        yield running


def test_it_goes_on_from_a_turn_in_a_session_and_a_notebook_of_its_own(gateway: Gateway, tmp_path: Path) -> None:
    path = tmp_path / "again.ipynb"

    done = ozzie(gateway.home, "sessions", "fork", "sums", "--from", "2", "--to", str(path))
    head, then = done.stdout.splitlines()

    made = head.rpartition(" ")[2].rstrip(".")
    assert (done.returncode, head) == (0, f'"sums (from turn 2)" begins after turn 2. Its id is {made}.')
    assert then == f"Its notebook, with the cells up to there: {path}"
    notebook = json.loads(path.read_text())
    assert notebook["metadata"]["ozzie"] == {"session": made}
    first, hello, sum_, empty = notebook["cells"]
    assert "Forked after turn 2 of another session." in first["source"]
    assert (hello["source"], sum_["source"], empty["source"]) == (
        "Say hello.",
        "What is 2 + 3? Use the calculator.",
        "",
    )
    ozzie(gateway.home, "sessions", "resume", made, "Say it again.")
    shown = ozzie(gateway.home, "sessions", "show", made).stdout
    assert [line.split(",")[0] for line in shown.splitlines() if line.startswith("Turn ")] == [
        "Turn 1",
        "Turn 2",
        "Turn 3",
    ]
    assert "> Say it again." in shown
    assert "> Say goodbye." not in shown


def test_without_a_notebook_a_terminal_goes_on_in_it(gateway: Gateway) -> None:
    done = ozzie(gateway.home, "sessions", "fork", "sums", "--from", "1", "--title", "Another way")

    *_, then = done.stdout.splitlines()
    assert done.stdout.startswith('"Another way" begins after turn 1.')
    assert then.startswith("Go on in it: ozzie sessions resume ")
    ozzie(gateway.home, "sessions", "fork", "Another way")
    tree = ozzie(gateway.home, "sessions", "show", "Another way", "--limit", "1").stdout.partition("Forks:\n")[2]
    lines = tree.split("\n\n")[0].splitlines()
    own = next(line for line in lines if line.endswith("(this one)"))
    below = lines[lines.index(own) + 1]
    assert own.startswith("    ")
    assert "Another way" in own
    assert below.startswith("      ")
    assert below.endswith("Another way (from turn 1)")


@pytest.mark.parametrize(
    ("options", "says", "hint"),
    [
        (
            ["--from", "9"],
            "There is no turn 9: the session has 3 turns.",
            "%session turns lists them, and ozzie sessions show.",
        ),
        (["--from", "0"], "turn must be a number from 1 to 1000000.", ""),
        (
            ["--from", "1", "--event", "3"],
            "A fork is from a turn or from an event, not both.",
            "Leave one of them out.",
        ),
        (["--event", "1000000"], "The session has no event 1000000.", ""),
        (["--to", "nowhere/x.ipynb"], "is no folder to write in.", "Make it first, or name another one."),
        (["--to", "x" * 300 + ".ipynb"], "No file can be called", "Give another name."),
        (["--to", "x.md"], "A fork's notebook is an .ipynb file, not x.md.", "Leave --to out for none."),
    ],
)
def test_what_can_not_be_forked_is_refused_in_words(gateway: Gateway, options: list[str], says: str, hint: str) -> None:
    count = len(json.loads(ozzie(gateway.home, "sessions", "list", "--json").stdout))

    done = ozzie(gateway.home, "sessions", "fork", "sums", *options)

    assert done.returncode != 0
    assert says in done.stderr
    assert hint in done.stderr
    assert len(json.loads(ozzie(gateway.home, "sessions", "list", "--json").stdout)) == count


def test_a_file_that_is_there_is_kept(gateway: Gateway, tmp_path: Path) -> None:
    path = tmp_path / "mine.ipynb"
    path.write_text("mine")

    done = ozzie(gateway.home, "sessions", "fork", "sums", "--to", str(path))

    assert done.returncode != 0
    assert f"{path} exists already." in done.stderr
    assert path.read_text() == "mine"
