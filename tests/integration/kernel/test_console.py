"""`jupyter console` on a terminal: what is typed, completed, stopped and left, as a person sees it."""

import json
import re
import sys
import time
from collections.abc import Iterator

import pexpect
import psutil
import pytest

from tests.fakes.openai_server import FakeOpenAI
from tests.rig import GatewayHome, ozzie, start_gateway

pytestmark = [pytest.mark.timeout(180)]

COLUMNS = 80
_DRAWING = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|[=>])|[^\n]\x08")


class Console:
    """A terminal with Ozzie's console in it."""

    def __init__(self, home: GatewayHome) -> None:
        self._child: pexpect.spawn = pexpect.spawn(
            sys.executable,
            ["-m", "jupyter_console", "--kernel", "ozzie"],
            cwd=str(home.project),
            env={**home.env, "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1"},
            dimensions=(40, COLUMNS),
            encoding="utf-8",
            timeout=60,
        )
        self.wait_for_prompt()
        # The console takes the end of any request of its own for the end of a cell that begins late: it shows nothing
        # of the cell and answers none of its questions. An empty line reads what the kernel has published so far, and
        # after a cell that needs all that the kernel loads, no other begins late.
        self.enter()
        self.enter("%session")

    def wait_for_prompt(self) -> str:
        """What was shown until the console takes the next line."""
        self._child.expect(r"In \[\x1b[^m]*m?(?:\x1b\[[0-9;]*m)*\d+.*?\]: ")
        return _DRAWING.sub("", str(self._child.before)).replace("\r", "")

    def type(self, text: str, until: str = "") -> str:
        """Type without Enter; what was shown until `until`."""
        self._child.send(text)
        return self.see(until) if until else ""

    def see(self, text: str) -> str:
        self._child.expect_exact(text)
        return str(self._child.before)

    def enter(self, text: str = "") -> str:
        """Run a cell to its end; what it showed."""
        self._child.send(f"{text}\r")
        self._child.expect_exact("\x1b[?2004l")  # the line is taken
        return self.wait_for_prompt()

    def begin(self, text: str, until: str) -> None:
        """Run a cell that asks, up to its question.

        The console asks the kernel whether the line is complete. Where the end of that comes after the cell has begun,
        as on a busy machine, the console takes it for the cell's: it shows nothing of the cell until it is stopped.
        """
        for _ in range(6):
            self._child.send(f"{text}\r")
            self._child.expect_exact("\x1b[?2004l")
            if self._child.expect_exact([until, pexpect.TIMEOUT], timeout=10) == 0:
                return
            self.stop_cell()
        pytest.fail(f"{text!r} shows {self._child.before!r}")

    def answer(self, text: str) -> None:
        """Type an answer to a question of the cell that runs."""
        self._child.send(f"{text}\r")

    def press_ctrl_d(self) -> None:
        """At an empty line of a question: the end of what is typed."""
        self._child.sendeof()

    def stop_cell(self) -> str:
        """Press Ctrl-C while the console waits.

        Python's readline shows a question before it waits for the answer. An interrupt between the two is only
        acted on at the next key, and this test is faster than a person.
        """
        waiting = psutil.Process(self._child.pid)
        for _ in range(600):
            if waiting.status() == psutil.STATUS_SLEEPING:
                break
            time.sleep(0.05)
        self._child.sendintr()
        return self.wait_for_prompt()

    def leave(self, text: str) -> int:
        self._child.send(text)
        self._child.expect(pexpect.EOF)
        self._child.close()
        return int(self._child.exitstatus or 0)

    def close(self) -> None:
        self._child.close(force=True)


@pytest.fixture
def console(home: GatewayHome) -> Iterator[Console]:
    (home.project / "data").mkdir()
    (home.project / "data" / "sales.csv").write_text("a,b\n1,2\n")
    with start_gateway(home):
        console = Console(home)
        yield console
        console.close()


@pytest.mark.soak
def test_a_person_talks_to_ozzie_on_a_terminal(console: Console, fake_openai: FakeOpenAI) -> None:
    answer = console.enter("What is 2+2? Use the calculator.")
    assert answer.startswith("[working] offline\n  calculator    2+2")
    assert "`2+2` = **4**\n[done] " in answer
    assert answer.count("Offline script") == 1
    assert all(len(line) <= COLUMNS for line in answer.splitlines())

    told = console.enter("%session")
    assert "This is the session What is 2+2? Use the calculator.." in told
    assert "|" not in told, "Markdown's source reached the terminal"

    console.type("%mod\t", until="el")
    assert "offline answers in this session." in console.enter()
    console.type("read @data/s\t", until=".csv")
    assert "`data/sales.csv` has 2 lines." in console.enter()

    console.enter(f"%model openai/endless {fake_openai.url}/v1")
    console.begin("go on for ever", until="[working] openai/endless")
    fake_openai.wait_for(lambda fake: bool(fake.requests), seconds=60)  # the worker starts for it
    stopped = console.stop_cell()
    assert "Stopped here by you." in stopped
    assert "[stopped] " in stopped
    assert "Traceback" not in stopped
    assert "offline script answers" in console.enter("%model offline")

    refused = console.enter("%sesion")
    assert "Did you mean `%session`?" in refused
    console.type("\x1b[A", until="%sesion")
    console.enter()
    assert console.leave("exit\r") == 0


ASKS = "[d] details  >"


def test_what_needs_a_yes_is_asked_for_and_answered_by_the_keyboard(console: Console, home: GatewayHome) -> None:
    (home.project / "notes").mkdir()
    console.begin("Write a 2-line note to notes/a.md", until="Approval needed (expires in 60 min)")
    shown = console.see(ASKS)
    assert "Write a new file, notes/a.md, of 2 lines?" in shown
    assert "Ozzie asks because it changes something of yours." in shown
    assert "+Line 1 of 2" in shown
    for no_yes in ("", "Y", "yes"):
        console.answer(no_yes)
        console.see(ASKS)
    console.answer("d")
    assert "default.changes" in console.see(ASKS)
    assert not (home.project / "notes" / "a.md").exists()

    console.answer("y")
    done = console.wait_for_prompt()
    assert "write_file    notes/a.md" in done
    assert "[done] " in done
    assert (home.project / "notes" / "a.md").read_text().startswith("Line 1 of 2")

    console.begin("Write a 2-line note to notes/b.md", until="Approval needed")
    console.see(ASKS)
    console.answer("n not that file")
    assert "Rejected by" in console.wait_for_prompt()
    assert not (home.project / "notes" / "b.md").exists()

    console.begin("Write a 2-line note to notes/b.md", until="Approval needed")
    console.see(ASKS)
    stopped = console.stop_cell()
    assert "[stopped] " in stopped
    assert "asked any more" not in stopped, "who stops a turn knows"
    assert not (home.project / "notes" / "b.md").exists()

    console.begin("Write a 2-line note to notes/b.md", until="Approval needed")
    console.see(ASKS)
    console.answer("s")
    console.wait_for_prompt()
    assert "[done] " in console.enter("Write a 2-line note to notes/c.md")
    assert (home.project / "notes" / "c.md").exists()


def test_what_the_model_asks_is_answered_at_the_prompt(console: Console) -> None:
    console.begin("Ask me whether I want tea or coffee.", until="[waiting] Tea or coffee?")
    console.see("[1] Tea  [2] Coffee  [-] Skip  or your own words  >")
    console.answer("7")
    console.see("or your own words  >")
    console.press_ctrl_d()
    console.see("or your own words  >")
    console.answer("a glass of water")

    done = console.wait_for_prompt()
    assert "Your answer is `a glass of water`." in done
    assert "[done] " in done


def test_who_answers_too_late_is_told_so(console: Console, home: GatewayHome) -> None:
    console.begin("Write a 2-line note to notes/a.md", until="Approval needed")
    console.see(ASKS)
    (approval,) = json.loads(ozzie(home, "approvals", "list", "--json").stdout)
    assert ozzie(home, "approvals", "approve", approval["approval_id"]).returncode == 0
    console.answer("n not this one")

    told = console.wait_for_prompt()
    assert re.search(r"Already answered: \S+ approved it at \d\d:\d\d\.", told)
    assert "[done] " in told
    assert (home.project / "notes" / "a.md").exists()


def test_who_answers_what_was_answered_or_stopped_elsewhere_is_told_so(console: Console, home: GatewayHome) -> None:
    for command, told in (
        (("answer", "1"), r"Already answered: \S+ at \d\d:\d\d\."),
        (("cancel",), r"(This is no longer asked|It waits for no answer)\."),
    ):
        console.begin("Ask me whether I want tea or coffee.", until="[waiting] Tea or coffee?")
        console.see("or your own words  >")
        task_id = json.loads(ozzie(home, "tasks", "list", "--json").stdout)[0]["task_id"]
        verb, *option = command
        assert ozzie(home, "tasks", verb, task_id, *option).returncode == 0
        console.answer("2")

        assert re.search(told, console.wait_for_prompt())


def test_a_session_is_stepped_through_at_the_prompt(console: Console, home: GatewayHome) -> None:
    console.enter("What is 2+2? Use the calculator.")
    console.enter("Say a word of welcome.")
    tasks = ozzie(home, "tasks", "list", "--json").stdout

    def step(line: str) -> str:
        console.answer(line)
        return console.see("replay> ")

    console.begin("%replay", until="Turn 1 of 2, 15 events")
    begin = console.see("replay> ")
    assert "  | What is 2+2? Use the calculator." in begin
    assert "user.message" in begin
    assert "    2  " in step("")
    assert "task.queued" in step("")
    assert "task.created" in step("b")
    assert "calculator    2+2" in (played := step("p 1000"))
    assert "`2+2` = **4**" in played
    assert "[done] " in played
    assert "Turn 2 of 2, 9 events" in step("")
    assert "Enter  the next event" in step("x")
    assert "Turn 1 of 2" in step("1")
    assert "Say a word of welcome." in step("n")
    assert "This is the end of the session." in step("n")
    assert "model.call.started" in step("b") + step("2") + step("p 1000")
    console.answer("")
    console.wait_for_prompt()

    console.begin("%replay --turn 2", until="replay> ")
    console.answer("a")
    assert "[done] " in console.wait_for_prompt()
    assert "Same for all 25 events." in console.enter("%replay --check")
    assert "Its turns have the numbers 1 to 2." in console.enter("%replay --turn 7")
    assert "`%session list` shows them." in console.enter("%replay Nothing like it")
    assert ozzie(home, "tasks", "list", "--json").stdout == tasks, "a replay ran something"
