"""Completion and inspection of a real kernel, also while its cell runs, and its history."""

import os
import signal
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ozzie_kernel.history import FILE_NAME
from ozzie_kernel.runner import TYPING_WAIT_S
from tests.fakes.openai_server import FakeOpenAI
from tests.rig import Gateway, Kernel, new_home, start_gateway, start_kernel

pytestmark = pytest.mark.timeout(120)

LINE_MAGICS = [
    f"%{name}"
    for name in [
        "help",
        "session",
        "model",
        "cost",
        "parameter",
        "skills",
        "run",
        "replay",
        "tools",
        "tasks",
        "approvals",
        "config",
        "pin",
    ]
]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    home = new_home(tmp_path_factory.mktemp("typing"))
    (home.project / "data").mkdir()
    (home.project / "data" / "sales.csv").write_text("month,sum\nMay,3\n")
    (home.project / "data" / "größe 😀.txt").write_text("x")
    (home.project / "data" / "b\x1b[31mad.csv").touch()
    with start_gateway(home) as running:
        yield running


@pytest.fixture(scope="module")
def kernel(gateway: Gateway) -> Iterator[Kernel]:
    kernel = start_kernel(gateway.home)
    kernel.run("%session title Plans")
    yield kernel
    kernel.stop()


def reply(kernel: Kernel, request: str) -> dict[str, Any]:
    while True:
        message = kernel.client.get_shell_msg(timeout=20)
        if message["parent_header"]["msg_id"] == request:
            return message["content"]


def complete(kernel: Kernel, text: str, cursor: int | None = None) -> dict[str, Any]:
    return reply(kernel, kernel.client.complete(text, len(text) if cursor is None else cursor))


def inspect(kernel: Kernel, text: str) -> dict[str, Any]:
    return reply(kernel, kernel.client.inspect(text, len(text)))


@pytest.mark.parametrize(
    ("text", "matches", "start"),
    [
        ("%", [*LINE_MAGICS, "%%python"], 0),
        ("%help\n%", LINE_MAGICS, 6),
        ("  %se", ["%session"], 2),
        ("%session re", ["resume"], 9),
        ("%help %se", ["session"], 6),
        ("%model o", ["offline"], 7),
        ("How many rows has @data/sa", ["@data/sales.csv"], 18),
        ("😀 @da", ["@data/"], 2),
        ("@data/gr", ['@"data/größe 😀.txt"'], 0),
        ("@data/b", [], 7),
        ("hello ", [], 6),
        ("", [], 0),
    ],
)
def test_what_is_typed_is_completed(kernel: Kernel, text: str, matches: list[str], start: int) -> None:
    found = complete(kernel, text)

    assert found["matches"] == matches
    assert (found["cursor_start"], found["cursor_end"]) == (start, len(text))
    kinds = found["metadata"]["_jupyter_types_experimental"]
    assert [kind["text"] for kind in kinds] == matches


def test_sessions_are_completed_by_their_titles(kernel: Kernel) -> None:
    kernel.run("%session new")

    found = complete(kernel, "%session resume Pl")

    assert found["matches"] == ["Plans"]
    assert found["metadata"]["_jupyter_types_experimental"][0]["type"] == "session"
    assert kernel.run("%session resume Plans").status == "ok"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("%session", "Begins a new session in this notebook"),
        ("%%python", "as Python"),
        ("%model offline", "offline/script"),
        ("use read_file", "none: it changes nothing"),
        ("sum up @data/sales.csv", "month,sum"),
        ("%session resume Plans", "Messages"),
        ("%session title x", "Gives this session a title"),
    ],
)
def test_what_stands_at_the_cursor_is_told(kernel: Kernel, text: str, said: str) -> None:
    found = inspect(kernel, text)

    assert found["found"]
    assert said in found["data"]["text/plain"]
    assert set(found["data"]) == {"text/plain", "text/markdown"}


def test_plain_words_are_nothing(kernel: Kernel) -> None:
    assert inspect(kernel, "hello there") == {"status": "ok", "found": False, "data": {}, "metadata": {}}


def test_python_is_completed_and_inspected_as_python(kernel: Kernel) -> None:
    kernel.run("%%python\nlonely_name = 1")

    assert complete(kernel, "%%python\nlonely_n")["matches"] == ["lonely_name"]
    assert "int" in inspect(kernel, "%%python\nlonely_name")["data"]["text/plain"]


def test_a_running_cell_holds_up_neither_completion_nor_history(kernel: Kernel, fake_openai: FakeOpenAI) -> None:
    kernel.run(f"%model openai/endless {fake_openai.url}/v1")
    request = kernel.send("go on for ever")
    kernel.output(request, until_live="jp-RenderedHTMLCommon")

    assert complete(kernel, "@data/sa")["matches"] == ["@data/sales.csv"]
    assert inspect(kernel, "read_file")["found"]
    history = reply(kernel, kernel.client.history(hist_access_type="tail", n=1))["history"]
    kernel.interrupt()
    output = kernel.output(request)
    kernel.run("%model offline")

    assert history[0][2] == "go on for ever"
    assert "Stopped here by you." in output.markdown


def test_a_page_that_asks_while_a_cell_runs_is_not_told_that_the_kernel_is_idle(
    kernel: Kernel, fake_openai: FakeOpenAI
) -> None:
    kernel.run(f"%model openai/endless {fake_openai.url}/v1")
    request = kernel.send("go on for ever")
    kernel.output(request, until_live="jp-RenderedHTMLCommon")
    asked = kernel.client.kernel_info()
    reply(kernel, asked)

    said: list[tuple[str, str]] = []
    while not said or said[-1] != ("busy", request):
        message = kernel.client.get_iopub_msg(timeout=20)
        if message["msg_type"] == "status":
            said.append((message["content"]["execution_state"], message["parent_header"]["msg_id"]))
    kernel.interrupt()
    kernel.output(request)
    kernel.run("%model offline")

    assert said == [("busy", asked), ("idle", asked), ("busy", request)]


def test_a_gateway_that_does_not_answer_holds_up_nobody(kernel: Kernel, gateway: Gateway) -> None:
    os.kill(gateway.process.pid, signal.SIGSTOP)
    try:
        began = time.monotonic()
        by_gateway, by_kernel = complete(kernel, "@data/sa"), complete(kernel, "%se")
        took = time.monotonic() - began
    finally:
        os.kill(gateway.process.pid, signal.SIGCONT)

    assert (by_gateway["matches"], by_kernel["matches"]) == ([], ["%session"])
    assert took < TYPING_WAIT_S + 10, "it waited for something that does not end by itself"
    # It may still be at what was asked before; then an answer is empty rather than late.
    end = time.monotonic() + 30
    while not (found := complete(kernel, "@data/sa")["matches"]) and time.monotonic() < end:
        pass
    assert found == ["@data/sales.csv"]


def test_the_history_outlives_the_kernel_and_keeps_no_key(gateway: Gateway) -> None:
    first = start_kernel(gateway.home)
    try:
        first.run("remember this message")
        first.run("%model openai/gpt sk-a-key-in-the-wrong-place")
        first.run("%%python\n6 * 7")
    finally:
        first.stop()
    second = start_kernel(gateway.home)
    try:
        tail = reply(second, second.client.history(hist_access_type="tail", n=3))["history"]
        found = reply(second, second.client.history(hist_access_type="search", pattern="*remember*", n=5))["history"]
        own = reply(second, second.client.history(hist_access_type="range", session=0, start=1))["history"]
    finally:
        second.stop()

    assert [line for _, _, line in tail] == ["remember this message", "%model openai/gpt", "%%python\n6 * 7"]
    assert "remember this message" in [line for _, _, line in found]
    assert own == []
    (file,) = Path(gateway.home.env["IPYTHONDIR"]).rglob(FILE_NAME)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert b"sk-a-key" not in file.read_bytes()


def test_cells_are_counted_whatever_becomes_of_them(kernel: Kernel) -> None:
    def run(code: str, **how: Any) -> int | None:
        # To its idle state and not only its reply: between the two, ipykernel lets go of what comes behind an error.
        return kernel.output(kernel.client.execute(code, allow_stdin=False, **how)).execution_count

    first = run("Say hello.")
    assert first is not None
    assert run("%nope") == first + 1
    assert run("", store_history=True) == first + 1
    assert run("%help", store_history=False) == first + 2
    assert run("Say hello.", silent=True) == first + 1
    assert run("%help", user_expressions={"x": "1"}) == first + 2
