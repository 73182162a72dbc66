"""`%tools`, `%tasks`, `%approvals`, `%config`: what they show of what the gateway told."""

from typing import Any

import pytest

from ozzie_kernel.list_magics import (
    MOST_MESSAGES,
    approvals_page,
    config_page,
    prompt_page,
    tasks_page,
    tool_page,
    tools_page,
)
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
