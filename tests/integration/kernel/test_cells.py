"""Cells of a real kernel, answered by a real provider's wire format through the real worker."""

import os
import signal
import time

import pytest

from tests.fakes.openai_server import FakeOpenAI
from tests.rig import GatewayHome, Kernel

pytestmark = pytest.mark.timeout(120)


def test_a_cell_streams_from_a_provider_and_shows_its_tool_call(served: Kernel, fake_openai: FakeOpenAI) -> None:
    served.run("%model tools")

    output = served.run("What is 17.5 % of 2,480?")

    assert output.status == "ok"
    assert "| `calculator` |" in output.markdown
    assert "434" in output.markdown
    assert any("calculator" in html and "Working" in html for html in output.live)
    assert fake_openai.requests[-1].body["messages"][-1]["role"] == "tool"


def test_calls_that_are_asked_for_together_are_all_answered(served: Kernel, fake_openai: FakeOpenAI) -> None:
    served.run("%model parallel")

    output = served.run("Do two things at once.")

    assert output.status == "ok"
    rows = [row for part in output.turn["parts"] for row in part.get("rows", [])]
    asked = fake_openai.requests[-1].body["messages"][-3]["tool_calls"]
    answers = fake_openai.requests[-1].body["messages"][-2:]
    assert [row["state"] for row in rows] == ["done", "done"]
    assert [call["id"] for call in asked] == [answer["tool_call_id"] for answer in answers]


def test_the_next_turn_knows_the_one_before(served: Kernel, fake_openai: FakeOpenAI) -> None:
    served.run("%model echo")
    served.run("my name is Ana")

    served.run("what is my name?")

    sent = [message.get("content") for message in fake_openai.requests[-1].body["messages"]]
    assert "my name is Ana" in sent
    assert sent[-1] == "what is my name?"


def test_an_interrupt_stops_the_stream_and_the_next_cell_works(served: Kernel, fake_openai: FakeOpenAI) -> None:
    served.run("%model endless")
    request = served.send("go on for ever")
    served.output(request, until_live="jp-RenderedHTMLCommon")

    began = time.monotonic()
    served.interrupt()
    output = served.output(request)
    took = time.monotonic() - began

    assert (output.status, output.ename) == ("error", "KeyboardInterrupt")
    assert "Stopped here by you." in output.markdown
    assert "error" not in output.messages, "a traceback reached the cell"
    assert took < 5, "the cell waited for something that does not end by itself"
    fake_openai.wait_for(lambda fake: "endless" in fake.disconnects)
    served.run("%model echo")
    assert "still there" in served.run("still there").markdown


def test_an_interrupt_while_the_gateway_is_silent_ends_the_cell_and_later_the_turn(
    served: Kernel, served_home: GatewayHome, fake_openai: FakeOpenAI
) -> None:
    served.run("%model endless")
    gateway = served_home.handshake()
    assert gateway is not None
    request = served.send("go on for ever")
    served.output(request, until_live="jp-RenderedHTMLCommon")

    os.kill(gateway.pid, signal.SIGSTOP)
    try:
        began = time.monotonic()
        served.interrupt()
        output = served.output(request)
        took = time.monotonic() - began
    finally:
        os.kill(gateway.pid, signal.SIGCONT)

    assert output.status == "error"
    assert output.evalue == "The gateway does not answer."
    assert took < 15, "the cell waited as long as for any other request"
    fake_openai.wait_for(lambda fake: "endless" in fake.disconnects)
    served.run("%model echo")
    assert "still there" in served.run("still there").markdown


def test_a_refused_key_is_told_in_words_and_the_next_cell_works(served: Kernel) -> None:
    served.run("%model status-401")

    output = served.run("hello")

    assert output.status == "error"
    assert 'The model provider refused the key for "status-401".' in output.markdown
    assert "Traceback" not in output.markdown
    served.run("%model echo")
    assert served.run("hello again").status == "ok"


@pytest.mark.parametrize(
    ("model", "sentence"),
    [("broken", "stopped in the middle of its answer"), ("status-500", '"status-500"'), ("garbage", '"garbage"')],
)
def test_a_provider_that_fails_is_told_in_words(served: Kernel, model: str, sentence: str) -> None:
    served.run(f"%model {model}")

    output = served.run("tell me a lot")

    assert output.status == "error"
    assert sentence in output.markdown
    assert "Traceback" not in output.markdown


def test_a_stream_that_breaks_keeps_what_came(served: Kernel) -> None:
    served.run("%model broken")

    assert served.run("tell me a lot").turn["parts"][0]["text"]


def test_a_model_can_be_named_by_driver_and_address(served: Kernel, fake_openai: FakeOpenAI) -> None:
    chosen = served.run(f"%model openai/echo {fake_openai.url}/v1")

    output = served.run("say this")

    assert "answers in this session from now on" in chosen.markdown
    assert output.turn["model"]["model"] == "echo"
    assert "**openai/echo** answers in this session." in served.run("%model").markdown
    assert "sk-" not in fake_openai.requests[-1].headers.get("authorization", "")


def test_a_model_that_is_none_is_refused_with_those_that_there_are(served: Kernel) -> None:
    output = served.run("%model nonesuch")

    assert output.status == "error"
    assert 'There is no model "nonesuch".' in output.markdown
    assert "echo" in output.markdown
