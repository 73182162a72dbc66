"""Commands on the user's own machine in real turns: somebody is asked each time, by all words, and what was shown is
what runs, or nothing."""

import asyncio
import json
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pytest

from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.approvals import AuthStrength
from ozzie_server_ext.domain.content import Content, Label
from ozzie_server_ext.domain.errors import PolicyError
from ozzie_server_ext.domain.events import (
    ApprovalExpired,
    ApprovalRequested,
    EventBody,
    Origin,
    ToolCallCompleted,
    ToolCallDecided,
    ToolCallFailed,
    ToolCallStarted,
)
from ozzie_server_ext.domain.ids import TaskId, task_stream
from ozzie_server_ext.models.scripted import Say, Use
from ozzie_server_ext.protocol.made_from import VARIABLE, content_in
from ozzie_server_ext.tasks.approvals import Answerer, Approval
from ozzie_server_ext.tasks.service import NewTurn
from tests.scripted_gateway import ScriptedOzzie

WAIT_S = 40
ANA = Answerer(name="Ana", way=AuthStrength.BROWSER)
SH = str(Path(str(shutil.which("sh"))).resolve())
SECRET = "ghp_" + "a1B2" * 9

T = TypeVar("T", bound=EventBody)


class Bench:
    """One home and one project, and a model that calls what it is told to."""

    def __init__(self, folder: Path) -> None:
        self.project = folder / "project"
        (self.project / "sub").mkdir(parents=True)
        self.home = Home(folder / "home")
        self.home.create()
        self.ozzie: ScriptedOzzie

    def rule(self, decision: str, **when: Any) -> None:
        """For the very tool."""
        match = {"tool": "host_command", "args": {"argv": ["env", "push"]}}
        rule = {"id": "r", "decision": decision, "reason": "Said so.", "examples": {"match": [match]}}
        self.home.policy_file.write_text(json.dumps({"rules": [rule | {"when": {"tools": ["host.run"], **when}}]}))

    async def turn(self, *argv: str, attended: bool = True, **args: Any) -> TaskId:
        """A turn that wants to run that, once it rests."""
        return await self.calls(Use("host_command", {"argv": [*argv], **args}), attended=attended)

    async def calls(self, *uses: Use, attended: bool = True) -> TaskId:
        self.ozzie.plays(*uses, [Say("Done.")])
        session = await self.ozzie.sessions.open("n", title="n", channel="notebook")
        origin = Origin(channel="notebook", sender_id="ana")
        sent = await self.ozzie.submit(NewTurn(session.session_id, "Go on.", origin, attended=attended))
        await self.rests(sent.task_id)
        return sent.task_id

    async def rests(self, task_id: TaskId, count: int = 1) -> str:
        """What the task came to rest with, the given time that it did."""
        return await self.ozzie.rests(task_id, count, wait_s=WAIT_S)

    async def pending(self) -> Approval:
        (found,) = await self.ozzie.approvals.list(statuses=["pending"])
        return found

    async def yes(self, task_id: TaskId, count: int = 2) -> str:
        """Say yes to what is asked, and what it comes to rest with."""
        asked = await self.pending()
        await self.ozzie.approvals.approve(asked.approval_id, ANA, binds=asked.asked.binds)
        return await self.rests(task_id, count)

    async def facts(self, task_id: TaskId, kind: type[T]) -> list[T]:
        bodies = [event.body for event in await self.ozzie.log.read_stream(task_stream(task_id))]
        return [body for body in bodies if isinstance(body, kind)]

    async def done(self, task_id: TaskId) -> ToolCallCompleted:
        return (await self.facts(task_id, ToolCallCompleted))[-1]

    def script(self, name: str, text: str) -> Path:
        path = self.project / name
        path.write_text(text)
        path.chmod(0o755)
        return path


@pytest.fixture
async def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "user-config"))
    bench = Bench(tmp_path)
    ozzie = await ScriptedOzzie.start(bench.home, bench.project)
    assert isinstance(ozzie, ScriptedOzzie)
    bench.ozzie = ozzie
    yield bench
    assert (await bench.ozzie.log.verify()).ok
    assert await bench.ozzie.log.dump() == await bench.ozzie.log.rebuild()
    await bench.ozzie.stop()


# --- who is asked -----------------------------------------------------------------------------------------------


async def test_a_yes_runs_what_was_shown_in_its_folder_and_says_what_it_printed(bench: Bench) -> None:
    task_id = await bench.turn("sh", "-c", "pwd; echo hi > made.txt", folder="sub")
    asked = (await bench.pending()).asked
    assert not (bench.project / "sub" / "made.txt").exists()

    assert await bench.yes(task_id) == "task.succeeded"

    found = str(shutil.which("sh"))
    assert asked.sentence == f"Run `{found}` on this machine, in `sub/`?"
    assert asked.proof.splitlines()[:3] == ['"sh"', '"-c"', '"pwd; echo hi > made.txt"']
    assert (asked.rule, asked.needs, asked.cover) == ("floor.host_command", AuthStrength.CLI, None)
    assert (bench.project / "sub" / "made.txt").read_text() == "hi\n"
    outcome = await bench.done(task_id)
    assert (outcome.data, outcome.ok, outcome.summary) == (
        {"exit_code": 0, "output": f"{bench.project}/sub\n"},
        True,
        "1 line",
    )
    (started,) = await bench.facts(task_id, ToolCallStarted)
    assert started.effect is not None
    program = started.effect["program"]
    assert isinstance(program, dict)
    assert isinstance(program["file"], dict)
    assert (program["file"]["path"], len(str(program["file"]["sha256"]))) == (found, 64)


async def test_a_no_runs_nothing(bench: Bench) -> None:
    task_id = await bench.turn("touch", "owned")

    await bench.ozzie.approvals.reject((await bench.pending()).approval_id, ANA)

    assert await bench.rests(task_id, 2) == "task.succeeded"
    assert not (bench.project / "owned").exists()


@pytest.mark.parametrize(
    ("decision", "when"),
    [
        ("allow", {}),
        ("allow", {"commands": [["env", "*"]]}),
        ("allow", {"sources": ["*"]}),
        ("check", {}),
        ("check", {"commands": [["env", "*"]]}),
    ],
)
async def test_no_rule_lets_it_run_unasked_and_no_model_is_asked_in_the_place_of_a_person(
    bench: Bench, decision: str, when: dict[str, Any]
) -> None:
    bench.rule(decision, **when)

    task_id = await bench.turn("env", "--version")

    assert await bench.rests(task_id) == "task.waiting_approval"
    (asked,) = await bench.facts(task_id, ApprovalRequested)
    (decided,) = await bench.facts(task_id, ToolCallDecided)
    assert (asked.rule, decided.decision) == ("floor.host_command", "ASK")


async def test_a_rule_forbids_it_by_its_words(bench: Bench) -> None:
    bench.rule("deny", commands=[["env", "push", "**"]])

    task_id = await bench.turn("env", "push", "--force")

    assert await bench.rests(task_id) == "task.succeeded"
    (failed,) = await bench.facts(task_id, ToolCallFailed)
    assert failed.code == "policy.denied"


async def test_where_nobody_is_there_it_is_not_run(bench: Bench) -> None:
    task_id = await bench.turn("touch", "owned", attended=False)

    (failed,) = await bench.facts(task_id, ToolCallFailed)
    assert (failed.code, (bench.project / "owned").exists()) == ("policy.unattended", False)


async def test_no_yes_for_the_session_is_taken_and_none_of_a_kernel(bench: Bench) -> None:
    task_id = await bench.turn("touch", "owned")
    asked = await bench.pending()
    kernel = Answerer(name="cell", way=AuthStrength.RELAY, session_id=asked.session_id)

    with pytest.raises(PolicyError):
        await bench.ozzie.approvals.approve(asked.approval_id, ANA, extent="session")
    with pytest.raises(PolicyError):
        await bench.ozzie.approvals.approve(asked.approval_id, kernel)

    assert (await bench.pending()).approval_id == asked.approval_id
    assert await bench.rests(task_id) == "task.waiting_approval"
    assert not (bench.project / "owned").exists()


async def test_each_one_is_asked_for_also_the_same_again(bench: Bench) -> None:
    again = Use("host_command", {"argv": ["true"]})
    task_id = await bench.calls(again, again)

    assert await bench.yes(task_id, 2) == "task.waiting_approval"
    assert await bench.yes(task_id, 3) == "task.succeeded"


# --- what is shown ----------------------------------------------------------------------------------------------


async def test_nothing_in_a_word_is_hidden_or_looks_like_a_line_of_ozzies(bench: Bench) -> None:
    hidden = 'a\u202eb\u200bc\u00a0d\u3164e\x1b[2Kf\u0336\n\nProgram: "/usr/bin/true"'

    await bench.turn("echo", hidden, "", 'say "hi" \\u202e', "раth")

    asked = (await bench.pending()).asked
    assert asked.proof.splitlines()[:6] == [
        '"echo"',
        '"a\\u202eb\\u200bc\\u00a0d\\u3164e\\u001b[2Kf\\u0336\\n\\nProgram: \\"/usr/bin/true\\""',
        '""',
        '"say \\"hi\\" \\\\u202e"',
        '"раth"',
        "",
    ]
    assert asked.proof.splitlines()[-1].startswith("Some letters are from other alphabets")
    assert asked.undo == "Ozzie can't take back what it does."


async def test_a_long_line_is_there_as_a_whole(bench: Bench) -> None:
    await bench.turn("sh", "-c", *(f"true {index} {'x' * 7000}" for index in range(6)), "rm -rf important")

    asked = (await bench.pending()).asked
    assert asked.whole is not None
    _, content = await bench.ozzie.artifacts.of((await bench.pending()).session_id).open(asked.whole)
    assert '"rm -rf important"' in content.decode().splitlines()


# --- what was looked at -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("changed", ["program", "its content", "a script that is named", "folder"])
async def test_what_becomes_another_one_meanwhile_is_asked_for_anew(bench: Bench, changed: str) -> None:
    program = bench.script("sub/do", "#!/bin/sh\necho ours\n")
    named = bench.script("sub/clean.py", "1\n")
    other = bench.script("other", "#!/bin/sh\necho theirs\n")
    task_id = await bench.turn("./do", "clean.py", folder="sub")
    first = await bench.pending()

    match changed:
        case "program":
            other.rename(program)
        case "its content":
            program.write_text("#!/bin/sh\necho evil\n")
        case "a script that is named":
            named.write_text("2\n")
        case _:
            (bench.project / "sub").rename(bench.project / "old")
            shutil.copytree(bench.project / "old", bench.project / "sub")

    assert await bench.yes(task_id) == "task.waiting_approval"
    assert (await bench.pending()).asked.binds != first.asked.binds
    (void,) = await bench.facts(task_id, ApprovalExpired)
    assert (void.approval_id, void.why) == (first.approval_id, "changed")
    assert await bench.facts(task_id, ToolCallStarted) == []


async def test_a_program_that_is_gone_is_told_in_words(bench: Bench) -> None:
    task_id = await bench.turn("nonesuch", "x")

    assert await bench.rests(task_id) == "task.succeeded"
    (failed,) = await bench.facts(task_id, ToolCallFailed)
    assert (failed.code, failed.message) == (
        "host.no_program",
        'There is no program "nonesuch" in the folders of PATH on this machine.',
    )


@pytest.mark.parametrize("folder", ["..", "/etc", "link", "nonesuch", ".hidden"])
async def test_it_starts_below_the_project_only(bench: Bench, folder: str) -> None:
    (bench.project / "link").symlink_to("/etc")
    (bench.project / ".hidden").mkdir()

    task_id = await bench.turn("true", folder=folder)

    assert await bench.rests(task_id) == "task.succeeded"
    assert len(await bench.facts(task_id, ToolCallFailed)) == 1


# --- what comes of it -------------------------------------------------------------------------------------------


async def test_what_it_prints_comes_without_secrets_and_counts_as_from_outside(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-" + "b7C9" * 10)
    task_id = await bench.calls(
        Use("host_command", {"argv": ["sh", "-c", f"env; echo token={SECRET}"]}),
        Use("write_file", {"path": "a.md", "text": "x\n"}),
    )

    assert await bench.yes(task_id) == "task.waiting_approval"

    outcome = await bench.done(task_id)
    assert isinstance(outcome.data, dict)
    said = str(outcome.data["output"])
    assert "[redacted" in said
    assert SECRET not in said
    assert "OPENAI_API_KEY" not in said
    assert outcome.brought == (f"output:{SH}",)
    assert (await bench.pending()).asked.made_from == f"what a program printed ({SH})"


async def test_of_much_the_model_reads_the_beginning_and_the_end_and_the_whole_is_kept(bench: Bench) -> None:
    task_id = await bench.turn("seq", "100000")

    assert await bench.yes(task_id) == "task.succeeded"

    outcome = await bench.done(task_id)
    assert isinstance(outcome.data, dict)
    assert outcome.summary == "100,000 lines"
    kept: Any = outcome.data["kept"]
    assert kept[0]["head"].startswith("1\n2\n")
    assert kept[0]["tail"].endswith("\n100000\n")
    session = (await bench.ozzie.sessions.open("n", title="n", channel="notebook")).session_id
    _, content = await bench.ozzie.artifacts.of(session).open(kept[0]["artifact_id"])
    assert content.count(b"\n") == 100_000


async def test_one_that_takes_too_long_or_fails_says_so(bench: Bench) -> None:
    task_id = await bench.turn("sleep", "600", timeout_s=1)
    assert await bench.yes(task_id) == "task.succeeded"
    late = await bench.done(task_id)
    failing = await bench.turn("sh", "-c", "echo no >&2; exit 3")
    assert await bench.yes(failing) == "task.succeeded"
    failed = await bench.done(failing)

    assert (late.ok, late.summary) == (False, "took too long")
    assert late.data == {"exit_code": None, "output": "", "ended": "It was ended after 1 s."}
    assert (failed.ok, failed.summary, failed.data) == (False, "exit 3 · 1 line", {"exit_code": 3, "output": "no\n"})


async def test_a_stop_of_the_turn_ends_it_with_all_that_it_started_and_says_so(bench: Bench) -> None:
    source = "import os, signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nos.fork()\n"
    source += "os.write(1, b'%d\\n' % os.getpid())\ntime.sleep(600)"
    task_id = await bench.turn(sys.executable, "-c", source)
    shown = frozenset({"tool.output"})
    async with asyncio.timeout(WAIT_S), bench.ozzie.feed.subscribe(0, types=shown, task_id=task_id) as printing:
        asked = await bench.pending()
        await bench.ozzie.approvals.approve(asked.approval_id, ANA)
        lines: Any = ()
        while len(lines) < 2:
            printed: Any = await anext(printing)
            lines = printed.payload["lines"]
    await bench.ozzie.tasks.cancel(task_id, by="ana")

    assert await bench.rests(task_id, 2) == "task.cancelled"

    outcome = await bench.done(task_id)
    assert isinstance(outcome.data, dict)
    assert outcome.data["ended"] == "It was ended because the turn was stopped."
    assert str(outcome.data["output"]).split() == lines
    alive = [int(pid) for pid in lines if psutil.pid_exists(int(pid))]
    assert all(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE for pid in alive)


async def test_the_end_of_the_gateway_ends_it_and_the_turn_goes_on_with_that(bench: Bench) -> None:
    task_id = await bench.turn("sh", "-c", "echo $$; sleep 600")
    shown = frozenset({"tool.output"})
    async with asyncio.timeout(WAIT_S), bench.ozzie.feed.subscribe(0, types=shown, task_id=task_id) as printing:
        await bench.ozzie.approvals.approve((await bench.pending()).approval_id, ANA)
        printed: Any = await anext(printing)
        (pid,) = printed.payload["lines"]
    await bench.ozzie.stop()
    assert not psutil.pid_exists(int(str(pid))) or psutil.Process(int(str(pid))).status() == psutil.STATUS_ZOMBIE

    again = await ScriptedOzzie.start(bench.home, bench.project)
    assert isinstance(again, ScriptedOzzie)
    bench.ozzie = again
    assert await bench.rests(task_id, 2) == "task.succeeded"

    assert (await bench.done(task_id)).summary == "cancelled"


async def test_it_knows_what_its_own_messages_are_made_from(bench: Bench) -> None:
    bench.ozzie.plays(Use("host_command", {"argv": ["sh", "-c", 'printf %s "$OZZIE_MADE_FROM"']}), [Say("Done.")])
    session = await bench.ozzie.sessions.open("read", title="read", channel="notebook")
    origin = Origin(channel="notebook", sender_id="ana")
    read = Content.of(Label.WEB, ["site.example"])
    sent = await bench.ozzie.submit(NewTurn(session.session_id, "Go on.", origin, content=read))
    await bench.rests(sent.task_id)

    await bench.yes(sent.task_id)

    done = await bench.done(sent.task_id)
    assert isinstance(done.data, dict)
    assert content_in({VARIABLE: str(done.data["output"])}) == read | Content.of(Label.OUTPUT, [SH])
