"""Every session that the tests of tasks record is replayed: hundreds, of every kind."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.replaying import REPLAYED

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

ROOT = Path(__file__).parents[3]
LIMIT_S = 3300
LEAST = 740
NOT_AS_RECORDED = {
    "goes on with the tools of another gateway than the one that it began with": (
        "test_a_gateway_that_died_before_it_went_on_is_followed_by_one_that_lets_it",
        "test_a_retry_is_durable",
        "test_a_run_begins_no_step_while_it_is_paused_and_takes_in_what_had_ended",
        "test_a_step_that_ends_while_its_run_is_held_is_shown_done_with_the_time_that_it_took",
        "test_a_wait_outlives_restarts",
        "test_it_is_there_after_a_restart_and_an_answer_without_it_is_none",
        "test_it_reaches_runs_within_runs_once_also_over_a_restart",
        "test_one_that_waits_for_a_place_can_be_stopped_and_goes_on_after_a_restart",
        "test_the_time_of_a_wait_goes_by",
        "test_what_a_gateway_died_over_handing_on_is_said_to_the_steps_before_they_go_on",
        "test_what_a_gateway_was_asked_to_hold_the_next_one_holds",
    ),
    "moves the clock": ("test_the_time_of_its_step_goes_by_while_it_waits",),
    "writes into the log what no gateway records": (
        "test_a_delegated_task_is_offered_exactly_what_its_brief_names",
        "test_a_message_behind_a_stop_is_a_task_of_its_own",
        "test_a_stop_that_was_requested_is_not_denied_after_a_crash",
        "test_a_task_whose_end_was_asked_for_is_told_as_stopping_until_it_has_ended",
        "test_one_whose_brief_names_a_tool_that_is_not_there_fails_before_anybody_is_asked",
    ),
    "can't be told from the record (docs/replay.md)": (
        "test_a_step_that_takes_too_long_is_stopped_and_fails",
        "test_of_two_that_wait_for_the_same_each_hears_one",
        "test_the_log_still_verifies_and_its_tables_are_those_that_it_makes",
    ),
}
"""Tests of which a session may differ, by the reason."""
LEAST_DECIDED = 4500
WITH_OTHER_RULES = ("test_what_is_asked_about_a_file_that_was_made_from_it_bears_the_label",)
"""Tests that change their rules in the middle."""
CUT = "test_every_moment"
"""The modules that go on from copies of logs that were cut, without the contents that they name."""


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, object]]:
    """What came of each session."""
    found = tmp_path_factory.mktemp("replayed") / "lines.jsonl"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.replaying"]
    subprocess.run(
        [*command, "-m", "not soak and not serial", "--numprocesses=2", "tests/integration/tasks"],
        cwd=ROOT,
        env={**os.environ, REPLAYED: str(found)},
        timeout=LIMIT_S,
        capture_output=True,
        check=False,
    )
    return [json.loads(line) for line in found.read_text().splitlines()]


def _is_expected_to_be_same(line: dict[str, object]) -> bool:
    module, _, test = Path(str(line["test"])).name.partition(".py::")
    name = test.partition("[")[0]
    return not module.startswith(CUT) and not any(name in names for names in NOT_AS_RECORDED.values())


def test_they_come_out_as_they_were_recorded(lines: list[dict[str, object]]) -> None:
    replayed = [line for line in lines if "session" in line]
    expected = [line for line in replayed if _is_expected_to_be_same(line) and "missing" not in line]

    differing = [line for line in expected if not line.get("is_same")]

    assert differing == [], json.dumps(differing, indent=1)
    assert len(expected) >= LEAST


def test_the_rules_of_then_decide_as_they_did(lines: list[dict[str, object]]) -> None:
    """Whatever a session did: what a simulation reads of a call is what it was decided by."""
    decided = [line for line in lines if "decided" in line]

    assert [line for line in lines if "undecided" in line] == []
    assert [line for line in decided if line["changes"] and not _has_other_rules(line)] == []
    assert sum(int(str(line["decided"])) for line in decided) >= LEAST_DECIDED


def _has_other_rules(line: dict[str, object]) -> bool:
    return any(name in str(line["test"]) for name in WITH_OTHER_RULES)
