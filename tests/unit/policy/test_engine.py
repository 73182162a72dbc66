"""The decision: defaults, a floor, the strictest rule, and conditions that miss nothing."""

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ozzie_server_ext.domain.approvals import AuthStrength
from ozzie_server_ext.domain.toolmeta import Category, ToolMeta
from ozzie_server_ext.policy.decision import Action, Caller, Decision
from ozzie_server_ext.policy.engine import decide, effect_floor, explain
from ozzie_server_ext.policy.rules import Rule
from tests.unit.policy.rig import (
    COMMAND,
    ERASE,
    FETCH,
    JOB,
    KERNEL,
    NOTE,
    READ,
    SEND,
    TOOLS,
    WRITE,
    action,
    projects_rule,
    rule,
)

ALLOW, CHECK, ASK, DENY = Decision.ALLOW, Decision.CHECK, Decision.ASK, Decision.DENY


# --- where no rule applies ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "decision", "by"),
    [
        (READ, ALLOW, "default.read_only"),
        (NOTE, ALLOW, "default.reversible"),
        (WRITE, ASK, "default.changes"),
        (ERASE, ASK, "floor.irreversible"),
        (SEND, ASK, "floor.external_send"),
        (COMMAND, ASK, "floor.host_command"),
        (KERNEL, ASK, "floor.live_kernel"),
    ],
    ids=lambda value: getattr(value, "tool_id", str(value)),
)
def test_without_rules_the_contract_decides(tool: ToolMeta, decision: Decision, by: str) -> None:
    verdict = decide(action(tool), ())

    assert (verdict.decision, verdict.rule, verdict.place) == (decision, by, "")
    assert verdict.reason.endswith(".")


# --- the floor -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tool", [ERASE, SEND], ids=lambda tool: tool.tool_id)
def test_a_pattern_does_not_lower_the_floor_and_the_tools_name_does(tool: ToolMeta) -> None:
    wide = rule("allow", {"tools": ["*"]})
    named = rule("allow", {"tools": [tool.name]}, "named")

    kept = explain(action(tool), (wide,))
    assert kept.verdict.decision is ASK
    assert kept.verdict.rule.startswith("floor.")
    assert kept.overruled is not None
    assert kept.overruled.rule == "r", "who asks for the reason hears that a rule had allowed it"
    assert decide(action(tool), (wide, named)).decision is ALLOW


def test_a_category_is_not_lowered_by_naming_the_category() -> None:
    by_category = rule("allow", {"categories": ["external_send"]})

    assert decide(action(SEND), (by_category,)).decision is ASK


@pytest.mark.parametrize("tool", [COMMAND, KERNEL], ids=lambda tool: tool.tool_id)
def test_commands_on_the_host_and_code_in_a_live_kernel_always_ask(tool: ToolMeta) -> None:
    named = rule("allow", {"tools": [tool.tool_id]})

    assert decide(action(tool, argv=["git", "status"]), (named,)).decision is ASK


def test_an_allow_for_some_of_a_tools_categories_is_none_for_all_of_them() -> None:
    both = dataclasses.replace(SEND, categories=frozenset({Category.EXTERNAL_SEND, Category.PAYMENT}))
    one = rule("allow", {"tools": ["mail.send"], "categories": ["external_send"]})
    deny = rule("deny", {"categories": ["payment"]})

    assert decide(action(both), (one,)).decision is ASK
    assert decide(action(both), (deny,)).decision is DENY


# --- a second model first --------------------------------------------------------------------------------------


def test_a_check_stands_between_what_runs_and_what_asks() -> None:
    assert [decision.rank for decision in (ALLOW, CHECK, ASK, DENY)] == [0, 1, 2, 3]
    check = rule("check", {"tools": ["fs.*"]}, "check")

    assert decide(action(WRITE, path="a"), (check,)).decision is CHECK, "the default asks"
    assert decide(action(READ, path="a"), (check,)).decision is CHECK, "the default allows"
    for decision, wins in (("allow", "check"), ("ask", "other"), ("deny", "other")):
        other = rule(decision, {"tools": ["fs.*"]}, "other")
        assert decide(action(WRITE, path="a"), (other, check)).rule == wins


@pytest.mark.parametrize("tool", [ERASE, SEND], ids=lambda tool: tool.tool_id)
def test_a_check_lowers_the_floor_only_where_it_names_the_tool(tool: ToolMeta) -> None:
    wide = rule("check", {"tools": ["*"]})
    named = rule("check", {"tools": [tool.tool_id]}, "named")
    by_category = rule("check", {"categories": ["external_send", "delete"]})

    for rules in ((wide,), (by_category,), (wide, by_category)):
        found = explain(action(tool), rules)
        assert (found.verdict.decision, found.verdict.rule[:5]) == (ASK, "floor")
    assert decide(action(tool), (wide, named)).decision is CHECK
    allow = rule("allow", {"tools": [tool.tool_id]})
    assert decide(action(tool), (wide, allow)).decision is CHECK, "the strictest of those that apply"


@pytest.mark.parametrize("tool", [COMMAND, KERNEL], ids=lambda tool: tool.tool_id)
def test_commands_on_the_host_and_code_in_a_live_kernel_are_never_for_a_model(tool: ToolMeta) -> None:
    named = rule("check", {"tools": [tool.tool_id]})

    found = explain(action(tool, argv=["git", "status"]), (named,))

    assert found.verdict.decision is ASK
    assert found.overruled is not None
    assert found.overruled.decision is CHECK


@pytest.mark.parametrize(
    ("path", "decision"),
    [("notes/a.md", CHECK), ("notes/../src/a.py", ASK), ("/etc/passwd", ASK), ("NOTES/a.md", ASK), ("src/a.py", ASK)],
)
def test_a_check_that_is_not_sure_of_a_call_that_asks_leaves_it_to_a_person(path: str, decision: Decision) -> None:
    check = rule("check", {"tools": ["fs.write"], "paths": ["notes/**"]})

    assert decide(action(WRITE, path=path), (check,)).decision is decision


@pytest.mark.parametrize(
    ("path", "decision"),
    [("raw/a.csv", CHECK), ("raw/../raw/a.csv", ASK), ("RAW/a.csv", ASK), ("/etc/passwd", ASK), ("src/a.py", ALLOW)],
)
def test_a_check_misses_nothing_of_what_would_run(path: str, decision: Decision) -> None:
    check = rule("check", {"paths": ["raw/**"]})

    assert decide(action(READ, path=path), (check,)).decision is decision


def test_a_check_of_a_project_lowers_nothing() -> None:
    check = projects_rule("check", {"tools": ["fs.write", "fs.read", "mail.send"]})
    allow = rule("allow", {"tools": ["*"]}, "allow")

    assert decide(action(READ, path="a"), (check,)).decision is CHECK
    assert decide(action(WRITE, path="a"), (check,)).rule == "default.changes", "which asks"
    assert decide(action(WRITE, path="a"), (allow, check)).decision is CHECK
    assert decide(action(SEND), (check,)).decision is ASK
    assert decide(action(SEND), (allow, check)).rule == "floor.external_send"


# --- the strictest wins --------------------------------------------------------------------------------------


def test_of_several_rules_the_strictest_counts_and_of_equals_the_first() -> None:
    allow = rule("allow", {"tools": ["fs.*"]}, "allow")
    ask = rule("ask", {"tools": ["fs.*"]}, "ask")
    deny = rule("deny", {"tools": ["fs.*"]}, "deny")
    again = rule("deny", {"tools": ["*"]}, "again")

    assert decide(action(READ, path="a"), (allow, ask)).rule == "ask"
    assert decide(action(READ, path="a"), (allow, ask, deny)).rule == "deny"
    assert decide(action(READ, path="a"), (again, deny)).rule == "again"


RULES = st.builds(
    lambda decision, when: rule(decision, when),
    st.sampled_from(["allow", "check", "ask", "deny"]),
    st.sampled_from(
        [
            {"tools": ["*"]},
            {"tools": ["fs.*"]},
            {"tools": ["fs.write", "mail.send", "host.run"]},
            {"side_effects": ["reversible", "irreversible"]},
            {"risks": ["high"]},
            {"paths": ["notes/**"]},
            {"hosts": ["*.example.org"]},
            {"channels": ["notebook"]},
            {"attended": False},
        ]
    ),
)
PROJECTS = RULES.filter(lambda each: each.verdict.decision is not ALLOW).map(
    lambda each: replace(each, only_tightens=True)
)
CALLS = st.sampled_from(TOOLS).flatmap(
    lambda tool: st.builds(
        lambda path, attended: action(tool, Caller(channel="notebook", attended=attended), path=path),
        st.sampled_from(["notes/a.md", "src/a.py", "../x"]),
        st.booleans(),
    )
)


def test_of_rules_that_ask_the_one_that_wants_the_stronger_way_counts() -> None:
    ask = rule("ask", {"tools": ["fs.*"]}, "ask")
    in_page = rule("ask", {"paths": ["notes/**"]}, "in-page", needs="browser")
    here = rule("ask", {"paths": ["notes/**"]}, "here", needs="cli")
    deny = rule("deny", {"tools": ["fs.*"]}, "deny")
    notes = action(WRITE, path="notes/a.md")

    for rules in ((ask, here, in_page), (in_page, here, ask)):
        assert (decide(notes, rules).rule, decide(notes, rules).needs) == ("in-page", AuthStrength.BROWSER)
    assert decide(notes, (ask, here)).needs is AuthStrength.CLI
    assert decide(action(WRITE, path="a.md"), (ask, here, in_page)).needs is AuthStrength.MODEL, (
        "nothing but the contract's"
    )
    assert decide(notes, (in_page, deny)).rule == "deny"


def test_a_project_may_want_a_stronger_way_and_never_a_weaker_one() -> None:
    own = rule("ask", {"tools": ["fs.write"]}, "own", needs="browser")
    theirs = rule("ask", {"tools": ["fs.write"]}, "theirs", needs="cli", of_project=True)
    write = action(WRITE, path="a")

    assert decide(write, (own, theirs)).needs is AuthStrength.BROWSER
    assert decide(write, (theirs,)).needs is AuthStrength.CLI, "though the default asks as well"


@given(CALLS, st.lists(RULES, max_size=5), st.sampled_from(["cli", "browser"]))
def test_a_rule_that_asks_for_a_way_is_never_answered_by_a_weaker_one(
    call: Action, rules: list[Rule], needs: str
) -> None:
    found = decide(call, (*rules, rule("ask", {"tools": ["*"]}, needs=needs)))

    assert found.decision is DENY or found.needs.strength >= AuthStrength(needs).strength


@given(CALLS, st.lists(RULES, max_size=5))
def test_adding_a_rule_that_does_not_allow_never_makes_a_call_easier(call: Action, rules: list[Rule]) -> None:
    for extra in (rule("ask", {"tools": ["*"]}), rule("deny", {"paths": ["notes/**"]})):
        before = decide(call, tuple(rules)).decision
        after = decide(call, (*rules, extra)).decision
        # A first rule takes the place of the default, which may have asked; an ASK is never easier than that.
        assert after.rank >= before.rank


@given(CALLS, st.lists(RULES, max_size=5), st.lists(PROJECTS, max_size=3))
def test_the_rules_of_a_project_never_make_a_call_easier(call: Action, own: list[Rule], projects: list[Rule]) -> None:
    before = decide(call, tuple(own)).decision
    after = decide(call, (*own, *projects)).decision

    assert after.rank >= before.rank


@given(CALLS, st.lists(RULES, max_size=5), RULES)
def test_adding_any_rule_lowers_neither_what_a_rule_said_nor_the_floor_unless_it_names_the_tool(
    call: Action, rules: list[Rule], extra: Rule
) -> None:
    before = explain(call, tuple(rules))
    after = decide(call, (*rules, extra))

    only_the_default_held = effect_floor(call.meta) is None and all(why for _, why in before.considered)
    if not only_the_default_held and not extra.names(call.meta):
        assert after.decision.rank >= before.verdict.decision.rank


@given(CALLS, st.lists(RULES, max_size=5), st.randoms())
def test_the_order_of_rules_does_not_matter_for_the_decision(call: Action, rules: list[Rule], random: Any) -> None:
    shuffled = list(rules)
    random.shuffle(shuffled)

    assert decide(call, tuple(rules)).decision is decide(call, tuple(shuffled)).decision


@given(CALLS, st.lists(RULES, max_size=5))
def test_what_an_explanation_says_is_what_was_decided(call: Action, rules: list[Rule]) -> None:
    found = explain(call, tuple(rules))

    assert found.verdict == decide(call, tuple(rules))
    applying = [each.says(call).decision.rank for each, why in found.considered if not why]
    if applying and found.overruled is None:
        assert found.verdict.decision.rank == max(applying)


# --- what a call names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "allowed", "denied"),
    [
        ("notes/a.md", True, True),
        ("notes/deep/a.md", True, True),
        ("./notes//a.md", True, True),
        ("notes/../src/a.py", False, True),
        ("../notes/a.md", False, True),
        ("/etc/passwd", False, True),
        ("~/notes/a.md", False, True),
        ("notes\0/a.md", False, True),
        ("Notes/a.md", False, True),
        ("NOTES/A.MD", False, True),
        ("notes2/a.md", False, False),
        ("src/notes/a.md", False, False),
    ],
)
def test_an_allow_is_sure_of_a_path_and_a_deny_misses_none(path: str, allowed: bool, denied: bool) -> None:
    """A known attack: `fnmatch` takes ../../etc/passwd for a path below."""
    allow = rule("allow", {"tools": ["fs.write"], "paths": ["notes/**"]})
    deny = rule("deny", {"paths": ["notes/**"]})

    assert (decide(action(WRITE, path=path), (allow,)).decision is ALLOW) is allowed
    assert (decide(action(READ, path=path), (deny,)).decision is DENY) is denied


def test_a_path_that_is_deeper_than_any_folder_is_not_read_and_so_denied() -> None:
    deny, allow = rule("deny", {"paths": ["secret/**"]}), rule("allow", {"tools": ["fs.write"], "paths": ["**"]})
    deep, too_deep = "a/" * 256, "a/" * 257

    assert decide(action(READ, path=deep), (deny,)).decision is ALLOW
    assert decide(action(READ, path=too_deep), (deny,)).decision is DENY
    assert decide(action(WRITE, path=deep), (allow,)).decision is ALLOW
    assert decide(action(WRITE, path=too_deep), (allow,)).decision is ASK


def test_letters_that_look_the_same_are_the_same_to_who_denies() -> None:
    deny = rule("deny", {"paths": ["caf\u00e9/**"]})

    assert decide(action(READ, path="cafe\u0301/list"), (deny,)).decision is DENY


@pytest.mark.parametrize(
    ("url", "allowed", "denied"),
    [
        ("https://www.example.org/a", True, True),
        ("https://evil.com#.example.org", False, False),
        ("https://evil.com\\@www.example.org/", False, True),
        ("http://2130706433/", False, True),
        ("https://example.org/", False, False),
    ],
)
def test_an_allow_is_sure_of_a_host_and_a_deny_misses_none(url: str, allowed: bool, denied: bool) -> None:
    ask = rule("ask", {"tools": ["web.fetch"]})
    allow = rule("allow", {"hosts": ["*.example.org"]})
    deny = rule("deny", {"hosts": ["*.example.org"]})

    assert (explain(action(FETCH, url=url), (allow, ask)).considered[0][1] == "") is allowed
    assert (decide(action(FETCH, url=url), (deny,)).decision is DENY) is denied


@pytest.mark.parametrize(
    ("argv", "allowed", "denied"),
    [
        (["git", "status"], True, True),
        (["git", "status", "--short"], True, True),
        (["/tmp/git", "status"], False, True),
        (["GIT", "status"], False, True),
        (["git"], False, False),
        (["git", "push"], False, False),
        ("git status; rm -rf x", False, True),
        (["git", 1], False, True),
        ([], False, True),
    ],
)
def test_an_allow_is_sure_of_a_command_and_a_deny_misses_none(argv: Any, allowed: bool, denied: bool) -> None:
    allow = rule("allow", {"commands": [["git", "status", "**"]]})
    deny = rule("deny", {"commands": [["git", "status", "**"]]})

    assert (explain(action(JOB, argv=argv), (allow,)).considered[0][1] == "") is allowed
    assert (decide(action(JOB, argv=argv), (deny,)).decision is DENY) is denied


def test_all_that_a_call_names_has_to_be_allowed_and_one_of_them_is_enough_to_deny() -> None:
    both = ["https://a.example.org", "https://evil.com"]
    allow = rule("allow", {"tools": ["mail.send"], "hosts": ["*.example.org"]})
    deny = rule("deny", {"hosts": ["evil.com"]})

    assert decide(action(SEND, hosts=both[:1]), (allow,)).decision is ALLOW
    assert decide(action(SEND, hosts=both), (allow,)).decision is ASK
    assert decide(action(SEND, hosts=both), (deny,)).decision is DENY


def test_a_condition_on_what_a_call_does_not_name_does_not_hold() -> None:
    deny = rule("deny", {"paths": ["**"]})

    assert decide(action(NOTE), (deny,)).decision is ALLOW
    assert decide(action(FETCH), (rule("deny", {"hosts": ["example.org"]}),)).decision is ALLOW


# --- who, and where ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("when", "caller", "applies"),
    [
        ({"users": ["ana"]}, Caller(user="ana"), True),
        ({"users": ["ana"]}, Caller(user="Ana"), False),
        ({"channels": ["cli", "notebook"]}, Caller(channel="cli"), True),
        ({"channels": ["cli"]}, Caller(channel="telegram"), False),
        ({"attended": False}, Caller(attended=False), True),
        ({"attended": False}, Caller(attended=True), False),
        ({"attended": True}, Caller(attended=True), True),
        ({"projects": ["/srv/data"]}, Caller(project="/srv/data"), True),
        ({"projects": ["/srv/data"]}, Caller(project="/srv/data/sub"), True),
        ({"projects": ["/srv/data"]}, Caller(project="/srv/database"), False),
    ],
)
def test_a_rule_can_be_for_a_user_a_channel_a_project_or_nobody_there(
    when: dict[str, Any], caller: Caller, applies: bool
) -> None:
    deny = rule("deny", when)

    assert (decide(action(READ, caller, path="a"), (deny,)).decision is DENY) is applies


def test_every_name_of_a_tool_names_it_and_a_pattern_covers_every_name() -> None:
    for name in ("fs.read", "read_file", "file_read", "fs.*", "*_file", "file_*"):
        assert decide(action(READ, path="a"), (rule("deny", {"tools": [name]}),)).decision is DENY, name
    for name in ("fs", "read", "fs.r", "*.write"):
        assert decide(action(READ, path="a"), (rule("deny", {"tools": [name]}),)).decision is ALLOW, name


def test_why_a_rule_does_not_apply_is_said_in_words() -> None:
    rules = (
        rule("deny", {"tools": ["fs.write", "fs.edit"]}),
        rule("deny", {"paths": ["secret/**"]}),
        rule("deny", {"hosts": ["example.org"]}),
        rule("deny", {"users": ["ben"]}),
        rule("deny", {"attended": False}),
        rule("deny", {"categories": ["delete"]}),
        rule("deny", {"side_effects": ["irreversible"]}),
    )

    assert [why for _, why in explain(action(READ, path="a"), rules).considered] == [
        "fs.read is not fs.write, fs.edit",
        "its path is another one",
        "the call names no host",
        "the user is ana",
        "somebody is there to be asked",
        "its categories are none",
        "its side effect is none",
    ]
