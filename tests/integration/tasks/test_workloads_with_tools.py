"""Everyday tasks with tools of others: most run without a question (docs/prompts.md)."""

import pytest

from tests.mcp_rig import expect_sandbox
from tests.tiers import SOAK
from tests.workloads.playing import Played
from tests.workloads.table import PAGE, quiet_share, with_tables
from tests.workloads.with_tools import WITH_TOOLS
from tests.workloads.with_tools_playing import play_with_tools

pytestmark = pytest.mark.timeout(300)

GOAL = 0.8
SAMPLE = ("the warmer town", "a file for the next commit")
PLAYED = [each for each in WITH_TOOLS if SOAK or each.name in SAMPLE]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Played]:
    expect_sandbox()
    return {each.workload.name: each for each in play_with_tools(PLAYED, tmp_path_factory.mktemp("tools"))}


@pytest.mark.parametrize("name", [each.name for each in PLAYED])
def test_each_comes_to_its_end(played: dict[str, Played], name: str) -> None:
    found = played[name]

    assert (found.end, found.failed) == ("task.succeeded", ())
    assert found.workload.says in found.answer


@pytest.mark.soak
def test_four_of_five_run_without_a_question_and_the_page_says_so(played: dict[str, Played]) -> None:
    found = list(played.values())

    assert quiet_share(found) >= GOAL
    page = PAGE.read_text()
    assert page == with_tables(page, found, "with-tools"), "run: python -m tests.workloads.table"
