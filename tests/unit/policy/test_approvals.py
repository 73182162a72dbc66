"""What a yes is for: nothing but the call that was shown, or calls that are like it in all that counts."""

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ozzie_server_ext.domain.approvals import AuthStrength, may_cover, weakest_way
from ozzie_server_ext.domain.content import CLEAN, Content
from ozzie_server_ext.domain.toolmeta import (
    Category,
    Reached,
    RiskLevel,
    SideEffect,
    Target,
    TargetKind,
    ToolMeta,
    ToolResult,
)
from ozzie_server_ext.policy.approvals import binding, cover_of, covers
from ozzie_server_ext.policy.decision import Action, Caller, Decision, Reading, Verdict
from ozzie_server_ext.policy.engine import Ruling
from ozzie_server_ext.tools.base import FunctionTool, ToolContext
from tests.unit.policy.rig import COMMAND, ERASE, FETCH, JOB, KERNEL, NOTE, SEND, WRITE, action, meta

MANY = meta(
    "fs.join",
    side_effect=SideEffect.REVERSIBLE,
    risk_level=RiskLevel.MEDIUM,
    targets=(Target("paths", TargetKind.PATH), Target("to", TargetKind.PATH)),
)
"""A tool that names several files, or none."""

ANA = Caller(project="/home/ana/work", channel="notebook", user="ana")


# --- a yes for the session -----------------------------------------------------------------------------------

PARTS = st.sampled_from(["notes", "data", "a.md", "b.md", "..", ".", "", "NOTES", "no"])
PATHS = st.builds("/".join, st.lists(PARTS, min_size=1, max_size=4))
METAS = st.builds(
    lambda tool, **changed: dataclasses.replace(tool, **changed),
    st.sampled_from([WRITE, MANY, NOTE, JOB, FETCH]),
    version=st.sampled_from(["1", "2"]),
    side_effect=st.sampled_from(SideEffect),
    risk_level=st.sampled_from(RiskLevel),
    categories=st.one_of(st.just(frozenset[Category]()), st.frozensets(st.sampled_from(Category), max_size=1)),
)
CALLERS = st.builds(Caller, project=st.sampled_from(["/home/ana/work", "/home/ana"]))
RULES = st.sampled_from(["default.changes", "mine"])
LABELS = st.sampled_from([(), ("web",), ("file", "web")])


@st.composite
def calls(draw: st.DrawFn) -> tuple[Action, str]:
    args: dict[str, Any] = {
        "path": draw(st.one_of(PATHS, st.none())),
        "paths": draw(st.one_of(st.lists(PATHS, max_size=3), st.none())),
        "to": draw(st.one_of(PATHS, st.none())),
        "url": draw(st.sampled_from(["https://example.com", "https://example.org/a", "no address"])),
        "argv": ["make"],
    }
    content = Content(labels=draw(LABELS))
    return Action.of(draw(METAS), args, draw(CALLERS), Reading(content=content)), draw(RULES)


@given(calls(), calls())
def test_a_yes_for_the_session_covers_only_what_is_like_the_call_that_it_was_given_to(
    asked: tuple[Action, str], other: tuple[Action, str]
) -> None:
    cover = cover_of(*asked)
    if cover is None or not covers(cover, *other):
        return

    (first, rule), (second, other_rule) = asked, other
    assert (second.meta.tool_id, second.meta.version) == (first.meta.tool_id, first.meta.version)
    assert second.caller.project == first.caller.project
    assert (other_rule, second.reading.content.labels) == (rule, first.reading.content.labels)
    assert set(second.hosts) <= set(first.hosts)
    assert bool(second.hosts) == bool(first.hosts)
    assert may_cover(second.meta)
    folders = [path[:-1] for path in first.paths if path and len(path) > 1]
    assert bool(second.paths) == bool(first.paths), "a call that names nothing may be about everything"
    for path in second.paths:
        assert path, "what can't be read, or is the whole project, lies in no folder"
        below = any(path[: len(folder)] == folder and len(path) > len(folder) for folder in folders)
        assert below or path in first.paths


@given(calls())
def test_what_a_yes_for_the_session_was_given_to_is_covered_by_it(call: tuple[Action, str]) -> None:
    cover = cover_of(*call)

    assert cover is None or covers(cover, *call)


@given(calls())
def test_no_yes_for_the_session_is_offered_for_what_is_never_silently_allowed(
    call: tuple[Action, str],
) -> None:
    asked, *_ = call
    grave = asked.meta.side_effect is SideEffect.IRREVERSIBLE or asked.meta.risk_level is RiskLevel.HIGH
    unreadable = any(not path for path in asked.paths)
    if grave or asked.meta.categories or None in asked.hosts or asked.commands or unreadable:
        assert cover_of(*call) is None


@pytest.mark.parametrize("labels", [("remote",), ("remote", "web")])
def test_what_a_remote_agent_sent_is_asked_every_time(labels: tuple[str, ...]) -> None:
    """A yes names kinds of content: one for one agent would cover another's."""
    sent = Content(labels=labels, sources=("remote:mcp/a",))
    call = Action.of(WRITE, {"path": "notes/a.md"}, ANA, Reading(content=sent))
    web = Action.of(WRITE, {"path": "notes/a.md"}, ANA, Reading(content=Content(labels=("web",))))

    assert cover_of(web, "r") is not None
    assert cover_of(call, "r") is None


@pytest.mark.parametrize("tool", [SEND, ERASE, COMMAND, KERNEL], ids=lambda tool: tool.tool_id)
def test_each_tool_that_floors_stand_under_is_asked_for_every_time(tool: ToolMeta) -> None:
    assert cover_of(action(tool, hosts=["example.com"], argv=["make"]), "r") is None


@pytest.mark.parametrize(
    ("path", "covered"),
    [
        ("notes/b.md", True),
        ("notes/deep/er/b.md", True),
        ("./notes//b.md", True),
        ("notes/deep/../b.md", False),
        ("notes", False),
        ("notes2/b.md", False),
        ("Notes/b.md", False),
        ("data/notes/b.md", False),
        ("notes/../data/b.md", False),
        ("/notes/b.md", False),
        ("\0", False),
        (".", False),
    ],
)
def test_a_folder_is_told_by_its_components(path: str, covered: bool) -> None:
    cover = cover_of(action(WRITE, path="notes/a.md"), "r")
    assert cover is not None
    assert cover.said == "`write_file` in `notes/`"

    assert covers(cover, action(WRITE, path=path), "r") is covered


def test_of_a_file_that_lies_in_no_folder_only_that_one_is_covered() -> None:
    cover = cover_of(action(WRITE, path="readme.md"), "r")
    assert cover is not None

    assert cover.said == "`write_file` on `readme.md`"
    assert covers(cover, action(WRITE, path="readme.md"), "r")
    assert not covers(cover, action(WRITE, path="licence.md"), "r")
    assert not covers(cover, action(WRITE, path="notes/readme.md"), "r")


def test_files_with_and_without_a_folder_are_both_said() -> None:
    cover = cover_of(action(MANY, paths=["notes/a.md", "b.md"], to="notes/c.md"), "r")
    assert cover is not None

    assert cover.said == "`fs_join` in `notes/` and on `b.md`"


def test_a_call_that_names_no_file_is_not_covered_by_a_yes_for_a_folder() -> None:
    cover = cover_of(action(MANY, paths=["notes/a.md"], to="notes/b.md"), "r")
    assert cover is not None

    assert not covers(cover, action(MANY, paths=[], to=None), "r")
    assert not covers(cover, action(MANY, paths=["notes/a.md"], to="data/b.md"), "r"), "each file has to lie there"


def test_a_yes_for_a_call_that_names_nothing_is_for_the_very_same_call() -> None:
    cover = cover_of(action(NOTE, text="mine"), "r")
    assert cover is not None

    assert (cover.said, cover.below) == ("`note_add` with these very arguments", ())
    assert covers(cover, action(NOTE, text="mine"), "r")
    assert not covers(cover, action(NOTE, text="EVIL"), "r")
    assert not covers(replace(cover, arguments=""), action(NOTE, text="mine"), "r"), "one that an older Ozzie recorded"


def test_a_yes_for_a_call_that_names_a_recipient_is_for_the_very_same_call() -> None:
    share = dataclasses.replace(MANY, targets=(Target("path", TargetKind.PATH), Target("to", TargetKind.RECIPIENT)))
    cover = cover_of(action(share, path="notes/a.md", to="ana@firm.example"), "r")
    assert cover is not None

    assert cover.said == "`fs_join` with these very arguments"
    assert covers(cover, action(share, path="notes/a.md", to="ana@firm.example"), "r")
    assert not covers(cover, action(share, path="notes/a.md", to="evil@evil.example"), "r")
    assert not covers(cover, action(share, path="notes/b.md", to="ana@firm.example"), "r")
    assert covers(replace(cover, arguments=""), action(share, path="notes/a.md"), "r"), "and none of that without one"


def test_a_yes_is_void_once_the_call_reaches_somebody_else() -> None:
    def to(*addresses: str) -> ToolMeta:
        reaches = tuple(Reached(TargetKind.RECIPIENT, each) for each in addresses)
        return dataclasses.replace(NOTE, reaches=reaches)

    cover = cover_of(action(to("ana@firm.example"), text="mine"), "r")
    assert cover is not None

    assert covers(cover, action(to("ana@firm.example"), text="mine"), "r")
    for other in (to(), to("evil@evil.example"), to("ana@firm.example", "evil@evil.example")):
        assert not covers(cover, action(other, text="mine"), "r")


def test_a_list_of_folders_that_nobody_reads_is_not_offered() -> None:
    assert cover_of(action(MANY, paths=[f"f{number}/a" for number in range(8)]), "r") is not None
    assert cover_of(action(MANY, paths=[f"f{number}/a" for number in range(9)]), "r") is None


def test_all_of_a_long_folder_is_told() -> None:
    folder = "reports/customers/europe/central-region/{}/archive/of/old/quarter-three/final/"
    said = [cover_of(action(WRITE, path=folder.format(name) + "a.md"), "r") for name in ("public", "PRIVATE")]

    assert [cover and cover.said for cover in said] == [
        f"`write_file` in `{folder.format(name)}`" for name in ("public", "PRIVATE")
    ]


def test_the_name_of_a_folder_can_not_disguise_what_a_yes_is_for() -> None:
    cover = cover_of(action(WRITE, path="n`\u202eotes\n/a.md"), "r")
    assert cover is not None

    assert cover.said == r"`write_file` in `n\u0060\u202eotes /`"


# --- a yes once ----------------------------------------------------------------------------------------------

ASK = Ruling(Verdict(decision=Decision.ASK, rule="default.changes", reason="It changes something."), "v1")
ARGS = {"path": "notes/a.md", "text": "hi"}
EFFECT = {"sha256": "0" * 64}


def bound(**changed: Any) -> str:
    given: dict[str, Any] = {
        "meta": dataclasses.replace(WRITE, version="1"),
        "args": ARGS,
        "effect": EFFECT,
        "ruling": ASK,
        "caller": ANA,
        "content": CLEAN,
    }
    return binding(**(given | changed))


@pytest.mark.parametrize(
    "changed",
    [
        {"meta": dataclasses.replace(WRITE, version="2")},
        {"meta": dataclasses.replace(WRITE, version="1", tool_id="fs.other")},
        {"args": {**ARGS, "text": "hi "}},
        {"args": {**ARGS, "path": "notes/b.md"}},
        {"effect": {"sha256": "1" * 64}},
        {"effect": None},
        {"ruling": replace(ASK, asking="v2")},
        {"ruling": replace(ASK, verdict=replace(ASK.verdict, rule="mine"))},
        {"caller": replace(ANA, project="/home/ana/other")},
        {"content": Content(labels=("web",))},
        {"content": Content(sources=("web:example.org",))},
    ],
    ids=str,
)
def test_a_yes_is_bound_to_all_that_makes_the_call_what_it_is(changed: dict[str, Any]) -> None:
    assert bound(**changed) != bound()


def _tool(kind: TargetKind) -> ToolMeta:
    def send(context: ToolContext, *, to: list[str]) -> ToolResult:
        """Send it."""
        raise NotImplementedError

    return FunctionTool(send, dataclasses.replace(SEND, targets=(Target("to", kind),))).meta


def test_a_yes_is_bound_to_what_the_call_names() -> None:
    """By the arguments byte for byte, and by the contract, whose version counts the kinds of targets."""
    mail: dict[str, Any] = {"meta": _tool(TargetKind.RECIPIENT), "args": {"to": ["ana@firm.example"]}}

    assert bound(**mail) == bound(**mail)
    assert bound(**mail) != bound(**mail | {"args": {"to": ["ana@firm.example", "evil@evil.example"]}})
    assert bound(**mail) != bound(**mail | {"args": {"to": ["ANA@firm.example"]}}), "the same address, another text"
    assert bound(**mail) != bound(**mail | {"meta": _tool(TargetKind.PERSON)})


def test_a_yes_is_bound_to_nothing_else() -> None:
    assert bound(args=dict(reversed(ARGS.items()))) == bound()
    assert bound(caller=replace(ANA, channel="cli", user="")) == bound(), "wherever the turn goes on"


# --- who may say it ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "labelled", "needs"),
    [
        (WRITE, False, AuthStrength.RELAY),
        (WRITE, True, AuthStrength.CLI),
        (NOTE, False, AuthStrength.RELAY),
        (SEND, False, AuthStrength.CLI),
        (ERASE, False, AuthStrength.CLI),
        (COMMAND, False, AuthStrength.CLI),
        (KERNEL, False, AuthStrength.CLI),
        (meta("conf.set", categories=frozenset({Category.CONFIG_CHANGE})), False, AuthStrength.CLI),
        (meta("shop.pay", categories=frozenset({Category.PAYMENT})), False, AuthStrength.CLI),
    ],
    ids=str,
)
def test_what_can_not_be_undone_or_comes_from_outside_is_not_for_a_kernel_to_say(
    tool: ToolMeta, labelled: bool, needs: AuthStrength
) -> None:
    assert weakest_way(tool, labelled=labelled) is needs


def test_the_ways_have_an_order() -> None:
    ways = (AuthStrength.MODEL, AuthStrength.RELAY, AuthStrength.CLI, AuthStrength.BROWSER, AuthStrength.STEP_UP)
    assert [way.strength for way in ways] == [0, 1, 2, 3, 4]
