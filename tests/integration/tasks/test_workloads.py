"""What people ask for on an ordinary day is done, most of it without asking them: "everything asks" is no policy."""

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.workloads import WORKLOADS
from tests.workloads.playing import Played, play_all
from tests.workloads.table import PAGE, quiet_share, tables, with_tables
from tests.workloads.workload import Workload

pytestmark = [pytest.mark.soak, pytest.mark.timeout(240)]

LEAST_TASKS = 60
LEAST_QUIET = 0.8
MOST_ALIKE = 0.25
"""The share of tasks that may call the same tools in the same order: it is to be no heap of calculators."""


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Played]:
    return {each.workload.name: each for each in play_all(WORKLOADS, tmp_path_factory.mktemp("workloads"))}


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
def test_it_is_done(workload: Workload, played: dict[str, Played]) -> None:
    done = played[workload.name]

    assert (done.end, done.failed) == ("task.succeeded", ())
    assert workload.says in done.answer
    assert {path: done.left(path) for path in workload.leaves} == workload.leaves


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
def test_what_changes_no_file_asks_nobody_and_leaves_all_as_it_was(
    workload: Workload, played: dict[str, Played]
) -> None:
    done = played[workload.name]

    assert bool(done.prompts) == bool(workload.leaves)
    untouched = {path: text for path, text in workload.files.items() if path not in workload.leaves}
    assert {path: done.left(path) for path in untouched} == untouched


def test_most_tasks_ask_nobody(played: dict[str, Played]) -> None:
    found = list(played.values())

    assert len(found) == len(WORKLOADS) >= LEAST_TASKS, "each has a name of its own"
    assert quiet_share(found) >= LEAST_QUIET, tables(found)


def test_a_yes_for_the_session_spares_the_questions_behind_it(played: dict[str, Played]) -> None:
    renamed = played["rename a function in three files"]

    assert sum(text is not None for text in renamed.workload.leaves.values()) == 3
    assert renamed.prompts == 1


def test_the_mix_is_no_heap_of_the_same() -> None:
    shapes = Counter(tuple(_kind(asks) for asks in workload.rounds) for workload in WORKLOADS)

    assert max(shapes.values()) <= MOST_ALIKE * len(WORKLOADS)
    assert len(Counter(workload.who for workload in WORKLOADS)) == 4


def _kind(asks: object) -> str:
    """What a round calls; of one that is made from what was read, only that it is."""
    if isinstance(asks, tuple):
        return " ".join(_kind(use) for use in asks)
    return getattr(asks, "name", "made")


def test_the_page_is_as_it_came_out(played: dict[str, Played]) -> None:
    page = PAGE.read_text()

    assert page == with_tables(page, list(played.values())), "run: python -m tests.workloads.table"


def test_the_page_says_the_share_in_words_too(played: dict[str, Played]) -> None:
    found = list(played.values())
    quiet, prompts = sum(not each.prompts for each in found), sum(each.prompts for each in found)

    assert re.search(rf"\b{quiet} of {len(found)}\b", PAGE.read_text())
    assert re.search(rf"\b{prompts} prompts\b", PAGE.read_text())
    assert Path(PAGE).parent.joinpath("policy.md").read_text().count("](prompts.md)") == 1
