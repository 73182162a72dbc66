"""The skills that come with Ozzie, each run to its end by a script."""

import json
from collections.abc import Sequence

import pytest

from ozzie_server_ext.config.home import shipped
from ozzie_server_ext.domain.events import StepCompleted
from ozzie_server_ext.models.driver import ModelRequest
from ozzie_server_ext.models.offline import LABEL, next_move
from ozzie_server_ext.models.offline_moves import Ask
from ozzie_server_ext.models.scripted import Say, Step, Use
from tests.integration.tasks.runs_rig import Runs, asked

DIGEST_TOOLS = {"current_time", "list_files", "find_files", "search", "read_file", "read_notebook"}
NAMES = sorted(path.stem for path in shipped("skills").glob("*.jsonc"))


def answers(request: ModelRequest) -> Sequence[Step]:
    """Says what it was asked, in short; finds that whatever has to hold does."""
    if asked(request).startswith("The criterion"):
        return [Say('{"holds": true, "why": "It does."}')]
    return [Say(f"<{asked(request).splitlines()[0][:60]}>")]


def system(request: ModelRequest) -> str:
    return request.messages[0].content


async def test_these_are_shipped_and_nothing_is_wrong_with_any(runs: Runs) -> None:
    assert NAMES == [
        "code-review",
        "daily-digest",
        "daily-report",
        "incident-analysis",
        "quick-translate",
        "researcher",
        "three-facts",
    ]
    shelf = await runs.ozzie.projects.own.skills.look()
    assert {found.name: found.problem for found in shelf.found if found.origin == "shipped"} == dict.fromkeys(NAMES, "")
    assert all(file.skill.description for file in shelf.skills)


@pytest.mark.parametrize(
    ("name", "given", "tools", "says"),
    [
        ("researcher", {"question": "Who sells tea?"}, {"web_search", "fetch_url"}, "on the web"),
        ("quick-translate", {"text": "Guten Tag", "to": "French"}, set[str](), "Translate the text into French."),
        ("daily-digest", {"folder": "notes"}, DIGEST_TOOLS, "the folder notes of this project"),
    ],
)
async def test_an_agent_has_its_instruction_and_its_tools_and_no_others(
    runs: Runs, name: str, given: dict[str, str], tools: set[str], says: str
) -> None:
    seen: list[ModelRequest] = []
    runs.answers(lambda request: (seen.append(request), answers(request))[1])
    task_id = await runs.run(name, **given)
    assert str(await runs.result(task_id)).startswith("<")
    assert {tool.name for tool in seen[0].tools} == tools
    assert says in system(seen[0])
    assert all(value in asked(seen[0]) for value in given.values())


async def test_a_review_looks_from_three_sides_and_comes_to_one_verdict(runs: Runs) -> None:
    seen: list[str] = []
    runs.answers(lambda request: (seen.append(asked(request)), answers(request))[1])
    task_id = await runs.run("code-review", target="src", focus="errors")
    steps = await runs.outputs(task_id)
    assert set(steps) == {"gather", "correctness", "security", "clarity", "verdict"}
    assert await runs.result(task_id) == steps["verdict"]
    verdict = next(text for text in seen if text.startswith("Make one review"))
    assert all(f'What the step "{side}" gave:' in verdict for side in ("correctness", "security", "clarity"))
    (judged,) = [fact for fact in await runs.facts(task_id, StepCompleted) if fact.step_id == "verdict"]
    assert judged.accepted == "It does."


async def test_a_report_is_kept_as_a_note_and_is_the_result(runs: Runs) -> None:
    runs.answers(answers)
    task_id = await runs.run("daily-report", table="sales.csv", note="monday")
    report = (await runs.outputs(task_id))["report"]
    assert await runs.result(task_id) == report
    assert report.startswith("<Write a report of the table sales.csv")
    look = Use("read_note", {"name": "monday"})
    runs.answers(lambda request: [look] if len(request.messages) < 3 else [Say(asked(request))])
    runs.workflow({"id": "look", "instruction": "x"})
    assert report in json.dumps(await runs.result(await runs.run()))


def by_rules(request: ModelRequest) -> Sequence[Step]:
    """What the offline script answers."""
    move = next_move(request.messages, {tool.name for tool in request.tools})
    return [Use(move.tool, move.args) if isinstance(move, Ask) else Say(move.text)]


async def test_three_facts_are_looked_for_and_written_to_a_file_once_somebody_says_yes(runs: Runs) -> None:
    runs.answers(by_rules)
    task_id = await runs.begin("three-facts", topic="tea")
    asked_for = await runs.approve()
    assert await runs.rests(task_id) == "task.succeeded"
    assert set(await runs.outputs(task_id)) == {"origin", "making", "use", "note", "keep"}
    assert str(await runs.result(task_id)).endswith("The note stands in `notes/three-facts.md`.")
    written = runs.ozzie.project / "notes" / "three-facts.md"
    assert written.read_text().startswith("# Tea\n\n- All tea comes from the leaves of one plant")
    assert (written.read_text().count("\n- "), LABEL in written.read_text()) == (3, False)
    assert asked_for.asked.name == "write_file"


async def test_a_second_run_reads_the_file_of_the_first_and_asks_again(runs: Runs) -> None:
    runs.answers(by_rules)
    for topic, says in (("tea", "one plant"), ("coffee", "none about `coffee`")):
        task_id = await runs.begin("three-facts", topic=topic)
        await runs.approve()
        assert await runs.rests(task_id) == "task.succeeded"
        assert says in (runs.ozzie.project / "notes" / "three-facts.md").read_text()


async def test_facts_that_are_refused_are_not_written_and_the_run_says_so(runs: Runs) -> None:
    runs.answers(by_rules)
    task_id = await runs.begin("three-facts")
    await runs.reject("Not now.")
    assert await runs.rests(task_id) == "task.succeeded"
    assert "The note is not written. Rejected by" in str(await runs.result(task_id))
    assert not (runs.ozzie.project / "notes").exists()


async def test_an_incident_is_looked_into_until_a_person_says_that_it_is_understood(runs: Runs) -> None:
    runs.answers(answers)
    task_id = await runs.begin("incident-analysis", what="The lamp went out", where="logs")
    await runs.reject("Look at the fuse.")
    asked_again = await runs.step(StepCompleted, lambda fact: fact.step_id == "deeper")
    assert str(asked_again.output).startswith("<Look deeper into this: The lamp went out.")
    await runs.approve()
    assert await runs.rests(task_id) == "task.succeeded"
    assert str(await runs.result(task_id)).startswith("<Write the report of this incident: The lamp went out.")


async def test_an_incident_that_is_never_understood_fails_and_says_so(runs: Runs) -> None:
    runs.answers(answers)
    task_id = await runs.begin("incident-analysis", what="The lamp went out")
    await runs.reject("No.")
    await runs.step(StepCompleted, lambda fact: fact.step_id == "deeper")
    await runs.reject("Still no.")
    assert await runs.rests(task_id) == "task.failed"
    assert "Not understood" in str((await runs.ozzie.tasks.get(task_id))["error_message"])
