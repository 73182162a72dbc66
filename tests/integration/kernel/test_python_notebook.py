"""`%load_ext ozzie_kernel` in a real Python kernel: what is shown, what Python gets, how a turn is stopped."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from nbclient.client import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat.v4 import new_code_cell, new_notebook

from ozzie_kernel.ipython import Loop
from tests.fakes.openai_server import FakeOpenAI
from tests.rig import CELL_S, GatewayHome, Kernel, Output, new_home, start_kernel

pytestmark = pytest.mark.timeout(180)

SETUP = """
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from pydantic import BaseModel

class City(BaseModel):
    city: str
    people: int

CITY = City.model_json_schema()
prices = pd.DataFrame({"tea": ["Green", "Black"], "price": [3.85, 4.35]})
plot = Figure()
plot.subplots().plot([1, 2]);
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, fake_openai_server: FakeOpenAI) -> Iterator[GatewayHome]:
    home = new_home(tmp_path_factory.mktemp("python"))
    (home.project / "notes").mkdir()
    plain = {"driver": "openai", "base_url": f"{fake_openai_server.url}/v1", "auth": {"type": "none"}}
    providers = {name: {**plain, "model": name} for name in ("echo", "endless", "status-401")}
    providers["shape"] = {**plain, "model": "shape", "capabilities": {"structured": True}}
    home.configure({"models": {"default": "offline", "providers": providers}})
    yield home
    home.stop_gateways()


@pytest.fixture(scope="module")
def loaded(home: GatewayHome) -> Iterator[Kernel]:
    kernel = start_kernel(home, "python3")
    assert kernel.run("%load_ext ozzie_kernel").messages == ["status", "execute_input", "status"], "it says nothing"
    assert kernel.run(SETUP).status == "ok"
    yield kernel
    kernel.stop()


@pytest.fixture
def kernel(loaded: Kernel) -> Kernel:
    """The kernel of this file, answered by the offline script in a new session."""
    loaded.run("%ozzie %session new")
    return loaded


def printed(kernel: Kernel, expression: str) -> str:
    """What Python prints of it."""
    output = kernel.run(f"print({expression})")
    assert output.status == "ok", output
    return output.streamed.removesuffix("\n")


def test_a_message_is_shown_from_its_beginning_and_its_answer_is_an_object(kernel: Kernel) -> None:
    output = kernel.run("answer = %ozzie What is 2+2? Use the calculator.")

    assert output.status == "ok"
    assert output.live, "nothing was shown before the end"
    assert "| `calculator` |" in output.markdown
    assert "`2+2` = **4**" in output.markdown
    assert printed(kernel, "answer.text").endswith("`2+2` = **4**")
    assert printed(kernel, "answer.data, answer.cost, len(answer.task)") == "None 0 26"
    assert kernel.run("answer").markdown == output.markdown, "shown again where it is the value of a cell"


def test_a_cell_is_a_message_of_several_lines_and_its_value(kernel: Kernel) -> None:
    output = kernel.run("%%ozzie --out kept\nWhat is 2+2?\nUse the calculator.")

    assert output.markdown.count("**4**") == 1, "its value is not shown once more"
    assert printed(kernel, "_ is kept, kept.text[-5:]") == "True **4**"


def test_a_function_hands_over_its_own_variables_and_a_loop_goes_on(kernel: Kernel) -> None:
    asks = "found = %ozzie What is {a}+{n}? Use the calculator."
    output = kernel.run(
        f"def sum_of(n):\n    a = n * 10\n    {asks}\n    return found.text\nsums = [sum_of(n) for n in (1, 2)]"
    )

    assert output.status == "ok", output
    assert ("`10+1` = **11**" in output.markdown, "`20+2` = **22**" in output.markdown) == (True, True)
    assert printed(kernel, "[text[-6:] for text in sums]") == "['**11**', '**22**']"


def test_a_frame_reaches_the_model_as_a_description_and_a_figure_as_a_picture(
    kernel: Kernel, fake_openai: FakeOpenAI
) -> None:
    kernel.run("%ozzie %model echo")

    output = kernel.run("%ozzie What stands out in {prices}, and what in {plot}?")

    assert output.status == "ok", output
    sent = fake_openai.requests[-1].body["messages"][-1]["content"]
    text = "".join(part.get("text", "") for part in sent)
    assert "What stands out in `prices`, and what in `plot`?" in text
    assert "| price | float64 | 0 | min 3.85, mean 4.1, max 4.35 |" in text
    assert [part["image_url"]["url"][:22] for part in sent if "image_url" in part] == ["data:image/png;base64,"]
    assert "With picture-1.png." in output.markdown


@pytest.mark.parametrize(("schema", "data"), [("City", "City(city='Rome', people=7)"), ("CITY", "{'city': 'Rome'")])
def test_with_a_schema_the_answer_is_a_value(kernel: Kernel, schema: str, data: str) -> None:
    kernel.run("%ozzie %model shape")

    output = kernel.run(f"found = %ozzie --schema {schema} Which city?")

    assert output.status == "ok", output
    assert printed(kernel, "repr(found.data)").startswith(data)


@pytest.mark.parametrize(
    ("line", "asked"),  # the second has what IPython takes for an assignment from a magic
    [
        ("%ozzie What's in the tea?", "What's in the tea?"),
        ("%ozzie Is x = %d the form?", "Is x = %d the form?"),
        ("%ozzie -- --new or --old?", "--new or --old?"),
        ("x = %ozzie  Is {{it}} a = %b , tea??", "Is {it} a = %b , tea??"),
    ],
)
def test_a_question_is_a_question_and_no_call_for_help(
    kernel: Kernel, fake_openai: FakeOpenAI, line: str, asked: str
) -> None:
    kernel.run("%ozzie %model echo")
    quoted = 'text = """\n%ozzie Not this?\n"""\n'
    for code in (line, f"if True:\n    {line}\n", quoted + line):
        output = kernel.run(code)
        assert (output.status, output.markdown.count("Ozzie: Done")) == ("ok", 1), output
        assert fake_openai.requests[-1].body["messages"][-1]["content"] == asked
    assert printed(kernel, "text") == "\n%ozzie Not this?\n"


def test_a_turn_that_fails_raises_and_ends_the_loop_unless_it_is_caught(kernel: Kernel) -> None:
    kernel.run("%ozzie %model status-401")

    output = kernel.run("for n in range(3):\n    %ozzie Say {n}.")

    assert (output.status, output.ename, output.markdown.count("**Failed.**")) == ("error", "TurnFailed", 1)
    assert output.evalue in output.markdown
    kernel.run("from ozzie_kernel.answer import TurnFailed")
    caught = "try:\n    %ozzie Say it.\nexcept TurnFailed as error:\n    print(error.kind, error.answer.task != '')"
    assert kernel.run(caught).streamed == "provider.auth True\n"


def test_an_interrupt_stops_the_turn_and_the_loop_and_the_next_cell_works(kernel: Kernel) -> None:
    kernel.run("%ozzie %model endless")
    request = kernel.send("for n in range(3):\n    %ozzie go on for ever")
    streaming = kernel.output(request, until_live="jp-RenderedHTMLCommon")
    assert "Working" in streaming.live[-1]

    kernel.interrupt()
    output = kernel.output(request)

    assert (output.status, output.ename, output.evalue) == ("error", "TurnStopped", "Stopped by you.")
    assert output.markdown.count("**Stopped.**") == 1
    kernel.run("%ozzie %model offline")
    assert "**4**" in kernel.run("%ozzie What is 2+2? Use the calculator.").markdown


def test_an_interrupt_ends_the_loop_even_if_its_turn_has_ended_by_itself() -> None:
    async def stubborn() -> str:
        begun.set()
        try:
            await asyncio.sleep(9)
        except asyncio.CancelledError:
            return "done all the same"
        return "never stopped"

    begun = threading.Event()
    threading.Thread(target=lambda: begun.wait() and os.kill(os.getpid(), signal.SIGINT)).start()

    assert Loop().run(stubborn()) == ("done all the same", True)


def test_an_interrupt_before_it_has_begun_does_not_hang() -> None:
    loop = Loop()
    held = threading.Event()

    loop._loop.call_soon_threadsafe(held.wait)
    threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    threading.Timer(0.6, held.set).start()
    with pytest.raises(asyncio.CancelledError):
        loop.run(asyncio.sleep(9))


def answered(kernel: Kernel, code: str, *lines: str) -> Output:
    """A cell of a console whose questions a person answers with these lines."""
    request = kernel.send(code, cell_id="", allow_stdin=True)
    for line in lines:
        asked = kernel.client.get_stdin_msg(timeout=CELL_S)
        assert asked["header"]["msg_type"] == "input_request"
        kernel.client.input(line)
    return kernel.output(request)


def test_in_a_console_questions_are_answered_by_the_keyboard(kernel: Kernel, home: GatewayHome) -> None:
    output = answered(kernel, "%ozzie Write a 2-line note to notes/yes.md", "y")
    assert "[done] " in output.streamed
    assert (home.project / "notes/yes.md").exists()

    answered(kernel, "%ozzie Write a 2-line note to notes/no.md", "n not that one")
    assert not (home.project / "notes/no.md").exists()


def test_commands_and_skills_are_run_as_in_a_notebook_of_ozzie(kernel: Kernel) -> None:
    topic = kernel.run("topic = 'tea'\n%ozzie %run three-facts topic={topic}", cell_id="")
    assert "[done] three-facts  5 of 5" in "".join(bundle.get("text/plain", "") for bundle in topic.bundles)
    assert "Same for all " in kernel.run("%ozzie %replay --check").markdown
    assert "This session" in kernel.run("%ozzie %cost").markdown
    assert kernel.run("%ozzie %parameter month = 7").status == "ok"
    assert printed(kernel, "month + 1") == "8"


@pytest.mark.parametrize(
    ("code", "name", "words"),
    [
        ("%ozzie", "UsageError", "What is the message?"),
        ("%%ozzie --out class\nWhich city?", "UsageError", "class is no name for a variable."),
        ("%%ozzie --out get_ipython\nWhich city?", "UsageError", "get_ipython is no name for a variable."),
        ("%%ozzie --shema City\nWhich city?", "UsageError", "--schema NAME, --out NAME"),
        ("%%ozzie --schema\nWhich city?", "UsageError", "--schema NAME, --out NAME"),
        ("%ozzie --schema Nothing Which city?", "TurnFailed", "There is no variable Nothing. Define the schema first."),
        ("%ozzie --schema prices Which city?", "TurnFailed", "A DataFrame is no schema."),
        ("%ozzie What is in {nothing}?", "TurnFailed", "There is no variable nothing. Write {{nothing}}"),
        ("%ozzie What is in {prices.tea}?", "TurnFailed", "{prices.tea} is no name of a variable."),
        ("%ozzie %run three-facts topic={plot}", "TurnFailed", "A skill takes no picture."),
        ("%ozzie --schema City %run three-facts", "TurnFailed", "A skill takes no schema."),
        ("%%ozzie\n%%python\n1 + 1", "TurnFailed", "This is a Python notebook"),
    ],
)
def test_what_can_not_be_sent_is_said_and_nothing_is_sent(kernel: Kernel, code: str, name: str, words: str) -> None:
    output = kernel.run(code)

    assert (output.status, output.ename) == ("error", name)
    assert words in output.evalue
    assert "Traceback" not in output.streamed + output.evalue
    assert "no turn yet" in kernel.run("%ozzie %replay").evalue


def test_help_is_there(kernel: Kernel) -> None:
    asked = kernel.client.inspect("%ozzie", 6)
    while (reply := kernel.client.get_shell_msg(timeout=CELL_S))["parent_header"]["msg_id"] != asked:
        pass
    assert "--schema NAME" in reply["content"]["data"]["text/plain"]
    assert kernel.run("%ozzie?").status == "ok"
    assert "no turn yet" in kernel.run("%ozzie %replay").evalue


@pytest.fixture
def in_home(home: GatewayHome, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """A Python notebook without a reader."""
    for name, value in home.env.items():
        monkeypatch.setenv(name, value)

    def make(*cells: str) -> Any:
        kernelspec = {"name": "python3", "display_name": "Python 3"}
        return new_notebook(cells=[new_code_cell(cell) for cell in cells], metadata={"kernelspec": kernelspec})

    return make


def test_where_nobody_is_there_nothing_waits_and_a_failed_turn_fails_the_notebook(in_home: Callable[..., Any]) -> None:
    found = in_home("%load_ext ozzie_kernel", "%ozzie Write a 2-line note to notes/unattended.md", "%ozzie %model none")

    with pytest.raises(CellExecutionError, match="There is no model"):
        NotebookClient(found, timeout=60).execute()

    (output,) = found["cells"][1]["outputs"]
    assert "Not done: nobody was there to ask" in output["data"]["text/markdown"]


def test_where_it_can_not_work_it_says_why(home: GatewayHome) -> None:
    ozzie = start_kernel(home)
    try:
        output = ozzie.run("%%python\n%load_ext ozzie_kernel")
    finally:
        ozzie.stop()
    assert "This notebook runs Ozzie already" in output.streamed
    terminal = subprocess.run(
        [sys.executable, "-m", "IPython", "--no-banner", "-c", "%load_ext ozzie_kernel"],
        env={**home.env, "IPYTHONDIR": str(home.home / "ipython")},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "use `ozzie ask`" in terminal.stdout + terminal.stderr
    assert "Traceback" not in terminal.stdout + terminal.stderr
