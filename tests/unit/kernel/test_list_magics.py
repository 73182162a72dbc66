"""`%tools`, `%tasks`, `%approvals`, `%config`: what they show of what the gateway told."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import pytest

from ozzie_kernel.client import REQUEST_TIMEOUT_S
from ozzie_kernel.connect import Link, SessionChoice
from ozzie_kernel.list_magics import (
    MOST_CHARS,
    MOST_MESSAGES,
    MOST_SYSTEM_CHARS,
    PIN,
    approvals_page,
    config_page,
    prompt_page,
    tasks_page,
    tool_page,
    tools_page,
)
from ozzie_kernel.parameters import Parameters
from ozzie_kernel.session_magic import moment
from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.render.page import page_bundle, page_text
from tests.hostile.samples import NAMES, render_sample
from tests.unit.render.test_hostile import assert_inert_source
from tests.unit.render.test_page import UNSAFE

AT = "2026-11-03T14:00:00.000000Z"


def a_tool(
    name: str = "write_file", about: str = "Write a text file. It asks first.", decision: str = "ASK"
) -> JsonObject:
    ruling: JsonObject = {"decision": decision, "rule": "r", "reason": "It changes something of yours.", "place": ""}
    return {"name": name, "about": about, "tool_id": "files.write", "ruling": ruling}


def a_task(title: str = "Plot it", status: str = "RUNNING", **other: Any) -> JsonObject:
    return {
        "task_id": "01M800000000000000000000AA",
        "title": title,
        "status": status,
        "created_at": AT,
        "waiting": [],
        "stopping": False,
        "pausing": False,
        **other,
    }


def test_tools_are_listed_with_what_the_rules_say() -> None:
    shown = page_text(
        tools_page({"items": [a_tool(), a_tool("calculator", "Calculate.", "ALLOW")], "policy_error": ""})
    )

    assert [line.split() for line in shown.splitlines() if "asks first" in line] == [
        ["write_file", "Write", "a", "text", "file", "asks", "first"]
    ]
    assert "calculator" in shown
    assert "Calculate" in shown


def test_that_the_rules_were_rejected_is_said() -> None:
    shown = page_text(tools_page({"items": [a_tool()], "policy_error": "policy.jsonc: line 3"}))

    assert "The rules were rejected, so nothing runs: policy.jsonc: line 3" in " ".join(shown.split())


def test_one_tool_is_shown_with_its_arguments() -> None:
    contract: JsonObject = {
        **a_tool(),
        "side_effect": "reversible",
        "risk_level": "medium",
        "idempotency": "not_supported",
        "timeout_s": 30.0,
        "parameters": {"properties": {"path": {"description": "Where."}, "text": {}}, "required": ["path"]},
    }
    shown = page_text(tool_page(contract))

    assert "asks first. It changes something of yours." in shown
    assert [line.split() for line in shown.splitlines() if line.startswith("path")] == [["path", "Where.", "needed"]]


@pytest.mark.parametrize(
    ("task", "state"),
    [
        (a_task(), "working"),
        (a_task(waiting=[{"task_id": "t"}]), "a step waits for you"),
        (a_task(stopping=True), "stopping"),
        (a_task(pausing=True), "about to pause"),
        (a_task(status="WAITING_APPROVAL"), "waits for your yes"),
        (a_task(status="SUCCEEDED"), "done"),
    ],
)
def test_a_task_is_listed_with_its_state(task: JsonObject, state: str) -> None:
    assert state in page_text(tasks_page({"items": [task], "next": None}, everywhere=False))


def test_where_there_is_nothing_that_is_said() -> None:
    assert (
        page_text(tasks_page({"items": [], "next": None}, everywhere=False)) == "There is no task in this session yet."
    )
    assert page_text(approvals_page({"items": []})) == "Nothing waits for your yes in this session."
    assert page_text(prompt_page({})) == "Nothing was sent to a model in this session yet."


def test_approvals_are_listed_oldest_first_with_where_to_answer() -> None:
    def one(end: str) -> JsonObject:
        return {"approval_id": f"01M8000000000000000000000{end}", "sentence": f"Run {end}?", "requested_at": AT}

    shown = page_text(approvals_page({"items": [one("B"), one("A")]}))

    assert shown.index("Run A?") < shown.index("Run B?")
    assert "ozzie approvals approve ID" in " ".join(shown.split())


def test_the_configuration_is_shown_with_its_files() -> None:
    found: JsonObject = {
        "files": ["/home/ana/.ozzie/config.jsonc"],
        "set": {"agent": {"max_rounds": 5}},
        "ignored": ["/home/ana/p/.ozzie/config.jsonc"],
        "error": "line 3",
        "config_file": "/home/ana/.ozzie/config.jsonc",
    }
    shown = page_text(config_page(found))

    assert '"max_rounds": 5' in shown
    assert "ozzie config trust" in " ".join(shown.split())
    assert "The configuration was rejected: line 3" in " ".join(shown.split())
    assert "Nothing is set" in page_text(config_page({**found, "files": []}))


def a_prompt(*contents: str) -> JsonObject:
    messages: list[Any] = [{"role": "system", "content": "You are Ozzie."}]
    messages += [{"role": "user", "content": content} for content in contents]
    request = {"alias": "main", "model": "m-1", "messages": messages, "tools": [{"name": "calculator"}]}
    return {"request": request, "ts": AT}


def test_the_prompt_is_shown_as_it_was_sent() -> None:
    shown = page_text(prompt_page(a_prompt("What is <b>6 * 7</b>?")))

    assert "You are Ozzie." in shown
    assert "What is <b>6 * 7</b>?" in shown
    assert "Its tools: calculator." in " ".join(shown.split())


def test_of_a_long_prompt_the_latest_messages_are_shown() -> None:
    shown = page_text(prompt_page(a_prompt(*(f"message {number}." for number in range(MOST_MESSAGES + 5)))))

    assert "5 earlier messages are left out here." in shown
    assert "message 4." not in shown
    assert "message 5." in shown
    assert "You are Ozzie." in shown


def test_a_long_message_is_cut_and_that_is_said() -> None:
    """Outputs are saved in the notebook, and a message may have half a million characters."""
    found = a_prompt(*("begin " + "x" * 500_000 + " end" for _ in range(MOST_MESSAGES)))
    request: Any = found["request"]
    request["messages"][0]["content"] = "You are Ozzie. " + "y" * 500_000 + " Be brief."
    request["messages"][1]["tool_uses"] = [{"name": "write_file", "arguments": "z" * 500_000}]
    page = prompt_page(found)
    shown = " ".join(page_text(page).split())
    saved = page_bundle(page)["text/markdown"]

    assert f"user: 500,010 characters, cut to {MOST_CHARS:,}" in shown
    assert f"system: 500,025 characters, cut to {MOST_SYSTEM_CHARS:,}" in shown
    assert len(saved) < 2 * (MOST_MESSAGES * MOST_CHARS + MOST_SYSTEM_CHARS)
    assert all(part in saved for part in ("You are Ozzie.", "Be brief.", "begin x", "x end"))


def test_a_time_comes_with_its_day() -> None:
    at = f"{datetime.fromisoformat(AT).astimezone():%Y-%m-%d %H:%M}"
    tasks = page_text(tasks_page({"items": [a_task()], "next": None}, everywhere=False))
    approvals = page_text(
        approvals_page({"items": [{"approval_id": "01M8", "sentence": "Run it?", "requested_at": AT}]})
    )

    assert moment(AT) == at
    assert at in tasks
    assert at in approvals
    assert at in " ".join(page_text(prompt_page(a_prompt("Hello."))).split())


def test_words_of_a_newer_gateway_are_shown_as_they_are() -> None:
    newer = a_task(status="ON_HOLD")
    waits = a_task(status="WAITING_INPUT")

    assert "on hold" in page_text(tasks_page({"items": [newer], "next": None}, everywhere=False))
    assert "waits for your answer" in page_text(tasks_page({"items": [waits], "next": None}, everywhere=False))
    assert "ask twice" in page_text(tools_page({"items": [a_tool(decision="ASK_TWICE")], "policy_error": ""}))


@pytest.mark.parametrize(
    ("about", "first"),
    [
        ("Show a value, e.g. a table. It asks first.", "Show a value, e.g. a table"),
        ("Show one of them, i.e. a row. More.", "Show one of them, i.e. a row"),
        ("Show it.", "Show it"),
    ],
)
def test_a_tool_is_listed_with_its_whole_first_sentence(about: str, first: str) -> None:
    shown = page_text(tools_page({"items": [a_tool(about=about)], "policy_error": ""}))

    assert first in " ".join(shown.split())
    assert "It asks" not in shown
    assert "More" not in shown


class Pinned:
    """A `Host` at a session with these pinned facts."""

    parameters = Parameters({})

    def __init__(self, *texts: str) -> None:
        self.texts = list(texts)

    async def ask(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        as_user: bool = False,
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> JsonObject:
        text = " ".join(str((params or {}).get("text", "")).split())
        if method == "session.pin" and text not in self.texts:
            self.texts.append(text)
        return {"items": [{"pin_id": text, "text": text} for text in self.texts]}

    async def link(self) -> Link:
        raise NotImplementedError

    async def switch(self, choice: SessionChoice) -> Link:
        raise NotImplementedError


async def test_that_a_fact_is_pinned_already_is_said() -> None:
    host = Pinned("Prices are in euros.")

    assert "pinned already" in page_text(await PIN.run("Prices  are in euros.", host))
    assert "pinned already" not in page_text(await PIN.run("Ask Ana.", host))
    assert host.texts == ["Prices are in euros.", "Ask Ana."]


@pytest.mark.parametrize("number", ["9" * 5000, "0", "2", "x", ""])
async def test_a_number_that_is_none_of_a_fact_is_refused(number: str) -> None:
    with pytest.raises(InputError, match="Which one"):
        await PIN.run(f"remove {number}", Pinned("Prices are in euros."))


@pytest.mark.parametrize("name", NAMES)
def test_nothing_that_they_show_becomes_html(name: str) -> None:
    text = render_sample(name, "http://127.0.0.1:9")
    pages = [
        tools_page({"items": [a_tool(about=text)], "policy_error": text}),
        tasks_page({"items": [a_task(title=text)], "next": None}, everywhere=True),
        approvals_page({"items": [{"approval_id": "01M8", "sentence": text, "requested_at": AT}]}),
        prompt_page(a_prompt(text)),
    ]
    for page in pages:
        bundle = page_bundle(page)
        assert_inert_source(bundle["text/markdown"])
        assert not UNSAFE.search(bundle["text/plain"])
