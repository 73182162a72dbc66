"""What people ask for that needs the web is done, and few of them are asked for it."""

import re

import pytest

from tests.workloads.outside import OUTSIDE
from tests.workloads.outside_playing import play_outside
from tests.workloads.playing import Played
from tests.workloads.table import PAGE, quiet_share, tables, with_tables
from tests.workloads.workload import Workload

pytestmark = [pytest.mark.soak, pytest.mark.timeout(300)]

LEAST_TASKS = 60
LEAST_QUIET = 0.6
MOST_PROMPTS = 2


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Played]:
    return {each.workload.name: each for each in play_outside(OUTSIDE, tmp_path_factory.mktemp("outside"))}


@pytest.mark.parametrize("workload", OUTSIDE, ids=lambda workload: workload.name)
def test_it_is_done(workload: Workload, played: dict[str, Played]) -> None:
    done = played[workload.name]

    assert (done.end, len(done.failed)) == ("task.succeeded", workload.fails), done.failed
    assert workload.says in done.answer
    assert {path: done.left(path) for path in workload.leaves} == workload.leaves
    untouched = {path: text for path, text in workload.files.items() if path not in workload.leaves}
    assert {path: done.left(path) for path in untouched} == untouched


@pytest.mark.parametrize("workload", OUTSIDE, ids=lambda workload: workload.name)
def test_what_changes_a_file_asks_and_nothing_asks_often(workload: Workload, played: dict[str, Played]) -> None:
    prompts = played[workload.name].prompts

    assert bool(workload.leaves) <= prompts <= MOST_PROMPTS


def test_most_tasks_ask_nobody(played: dict[str, Played]) -> None:
    found = list(played.values())

    assert len(found) == len(OUTSIDE) >= LEAST_TASKS, "each has a name of its own"
    assert quiet_share(found) >= LEAST_QUIET, tables(found)


def test_the_page_is_as_it_came_out(played: dict[str, Played]) -> None:
    page, found = PAGE.read_text(), list(played.values())

    assert page == with_tables(page, found, "outside"), "run: python -m tests.workloads.table"
    quiet, prompts = sum(not each.prompts for each in found), sum(each.prompts for each in found)
    assert re.search(
        rf"\b{quiet} of {len(found)} ran without a prompt, and all together took {prompts} prompts\b", page
    )
