"""A tool that rules deny whatever its arguments need not be offered; one that they deny now and then must be."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ozzie_server_ext.domain.content import Content, Label
from ozzie_server_ext.policy.decision import Action, Caller, Decision, Reading
from ozzie_server_ext.policy.engine import decide, denies_always
from tests.unit.policy.rig import FETCH, JOB, NOTE, READ, SEND, TOOLS, WRITE, action, projects_rule, rule

ANA = Caller(channel="notebook", user="ana", project="/p")


@pytest.mark.parametrize(
    "when",
    [
        {},
        {"tools": [WRITE.tool_id]},
        {"tools": [WRITE.name]},
        {"tools": ["*"]},
        {"side_effects": [WRITE.side_effect]},
        {"risks": [WRITE.risk_level]},
        {"tools": [WRITE.tool_id], "channels": ["notebook"], "users": ["ana"], "projects": ["/p"], "attended": True},
    ],
    ids=str,
)
def test_what_a_rule_says_of_the_tool_or_of_who_asks_holds_for_every_call(when: dict[str, Any]) -> None:
    assert denies_always(WRITE, ANA, (rule("deny", when),))


@pytest.mark.parametrize(
    "when",
    [
        {"tools": [READ.tool_id]},
        {"tools": [WRITE.tool_id], "users": ["ben"]},
        {"tools": [WRITE.tool_id], "attended": False},
        {"tools": [WRITE.tool_id], "paths": ["**"]},
        {"tools": [WRITE.tool_id], "sources": ["web:*"]},
        {"categories": ["delete"]},
    ],
    ids=str,
)
def test_a_rule_that_looks_at_calls_or_means_others_hides_nothing(when: dict[str, Any]) -> None:
    assert not denies_always(WRITE, ANA, (rule("deny", when),))


@pytest.mark.parametrize("decision", ["allow", "check", "ask"])
def test_only_what_denies_hides_a_tool(decision: str) -> None:
    assert not denies_always(WRITE, ANA, (rule(decision, {"tools": [WRITE.tool_id]}),))


def test_an_allow_beside_it_helps_no_more_than_with_a_call() -> None:
    rules = (rule("allow", {"tools": [WRITE.tool_id]}), rule("deny", {"tools": [WRITE.tool_id]}))

    assert denies_always(WRITE, ANA, rules)
    assert decide(action(WRITE), rules).decision is Decision.DENY


def test_a_projects_rule_hides_one_too() -> None:
    assert denies_always(WRITE, ANA, (projects_rule("deny", {"tools": [WRITE.tool_id]}),))


CONDITIONS = st.fixed_dictionaries(
    {},
    optional={
        "tools": st.sampled_from([[READ.tool_id], [WRITE.name], ["*"], ["fs.*"]]),
        "side_effects": st.sampled_from([["none"], ["none", "reversible"], ["irreversible"]]),
        "risks": st.sampled_from([["low"], ["low", "medium", "high"]]),
        "users": st.sampled_from([["ana"], ["*"], ["ben"]]),
        "attended": st.booleans(),
        "paths": st.sampled_from([["**"], ["a/*"]]),
        "hosts": st.sampled_from([["*.org"], ["example.org"]]),
        "commands": st.just([["git", "**"]]),
        "sources": st.just(["web:*"]),
    },
)


@given(
    decisions=st.lists(st.tuples(st.sampled_from(["deny", "deny", "ask"]), CONDITIONS), max_size=4),
    path=st.sampled_from(["a/b", "c", "../x"]),
    url=st.sampled_from(["https://example.org/", "nonsense"]),
    is_outside=st.booleans(),
)
def test_of_a_tool_that_is_hidden_every_call_is_denied(
    decisions: list[tuple[str, dict[str, Any]]], path: str, url: str, is_outside: bool
) -> None:
    rules = tuple(rule(decision, when) for decision, when in decisions)
    reading = Reading(content=Content.of(Label.WEB, ["example.org"]) if is_outside else Content())

    for meta in (READ, WRITE, NOTE, FETCH, SEND, JOB, *TOOLS):
        if denies_always(meta, ANA, rules):
            args = {"path": path, "url": url, "command": ["git", "status"], "argv": ["git"]}
            assert decide(Action.of(meta, args, ANA, reading), rules).decision is Decision.DENY
