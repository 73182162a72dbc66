"""Content from outside behind a call: what asks, what a rule has to say to allow it, and addresses (ADR 31)."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ozzie_server_ext.domain.content import CLEAN, Content, Label
from ozzie_server_ext.domain.toolmeta import ToolMeta
from ozzie_server_ext.policy.approvals import cover_of, covers
from ozzie_server_ext.policy.decision import (
    MAX_ADDRESS,
    MOST_FOLLOWED,
    Action,
    Caller,
    Decision,
    Reading,
    Verdict,
    plain_address,
)
from ozzie_server_ext.policy.engine import decide, explain
from ozzie_server_ext.policy.sources import SourcePattern, origin_text
from tests.unit.policy.rig import COMMAND, FETCH, JOB, KERNEL, NOTE, READ, SEND, WRITE, meta, projects_rule, rule

ALLOW, ASK, DENY = Decision.ALLOW, Decision.ASK, Decision.DENY

WEB = Content.of(Label.WEB, ["docs.example.org"])
EVIL = WEB | Content.of(Label.WEB, ["evil.example"])
GET = replace(FETCH, is_outbound=True)
SEARCH = meta("web.search", name="web_search", is_outbound=True)
KEPT = replace(NOTE, keeps_labels=True)


def of(tool: ToolMeta, content: Content = CLEAN, *, reading: Reading | None = None, **args: Any) -> Action:
    caller = Caller(project="/home/ana/work", channel="notebook", user="ana")
    return Action.of(tool, args, caller, reading or Reading(content=content, has_read=bool(content)))


def verdict(tool: ToolMeta, content: Content = CLEAN, *rules: Any, **args: Any) -> Verdict:
    return decide(of(tool, content, **args), rules)


# --- effects, and what leaves this machine -----------------------------------------------------------------------


def test_what_could_be_undone_unasked_is_asked_where_content_from_outside_is_behind_it() -> None:
    assert verdict(NOTE).decision is ALLOW

    asked = verdict(NOTE, WEB)

    assert (asked.decision, asked.rule) == (ASK, "floor.outside")
    assert asked.reason == "Content from outside may be behind it."


@pytest.mark.parametrize("tool", [READ, KEPT], ids=["reads", "keeps labels"])
def test_what_only_reads_here_and_what_ozzie_keeps_with_its_labels_runs(tool: ToolMeta) -> None:
    assert verdict(tool, WEB).decision is ALLOW


def test_a_search_sends_something_out_and_is_asked_then() -> None:
    assert verdict(SEARCH).decision is ALLOW

    asked = verdict(SEARCH, WEB)

    assert (asked.decision, asked.rule) == (ASK, "floor.outside")
    assert asked.reason.startswith("It sends something out")


def test_what_is_denied_stays_denied_and_what_asks_already_keeps_its_reason() -> None:
    assert verdict(WRITE, WEB, rule("deny", {"tools": ["write_file"]})).decision is DENY
    assert verdict(WRITE, WEB).rule == "default.changes"


def test_a_rule_that_allows_has_to_say_which_content_it_means() -> None:
    plain = rule("allow", {"tools": ["write_file"], "paths": ["notes/**"]}, "notes")
    meant = rule(
        "allow", {"tools": ["write_file"], "paths": ["notes/**"], "sources": ["web:docs.example.org"]}, "docs-to-notes"
    )

    assert verdict(WRITE, CLEAN, plain, path="notes/a.md").decision is ALLOW
    kept = explain(of(WRITE, WEB, path="notes/a.md"), (plain,))
    assert kept.verdict.rule == "floor.outside"
    assert kept.overruled is not None
    assert kept.overruled.rule == "notes"
    assert verdict(WRITE, WEB, meant, path="notes/a.md").rule == "docs-to-notes"
    assert verdict(WRITE, WEB, meant, path="data/a.md").decision is ASK, "that sink"
    assert verdict(WRITE, EVIL, meant, path="notes/a.md").decision is ASK, "for that source"
    assert verdict(WRITE, CLEAN, meant, path="notes/a.md").decision is ALLOW


@pytest.mark.parametrize("when", [{"tools": ["write_*"]}, {"side_effects": ["reversible"]}])
def test_a_rule_that_does_not_name_the_tool_is_not_enough(when: dict[str, Any]) -> None:
    wide = rule("allow", {**when, "sources": ["*"]})

    assert verdict(WRITE, WEB, wide).decision is ASK


def test_a_rule_of_the_project_never_lets_anything_out() -> None:
    asks = projects_rule("ask", {"tools": ["write_file"], "sources": ["web:*"]})

    assert verdict(WRITE, WEB, asks).decision is ASK
    assert verdict(READ, WEB, projects_rule("ask", {"sources": ["web:*"]})).decision is ASK


@pytest.mark.parametrize("tool", [COMMAND, KERNEL], ids=lambda tool: tool.tool_id)
def test_commands_and_live_kernels_ask_whatever_a_rule_says(tool: ToolMeta) -> None:
    assert verdict(tool, WEB, rule("allow", {"tools": [tool.name], "sources": ["*"]})).decision is ASK


def test_a_rule_that_denies_misses_no_source() -> None:
    deny = rule("deny", {"sources": ["web:evil.example"]})

    assert verdict(READ, WEB, deny).decision is ALLOW
    assert verdict(READ, EVIL, deny).decision is DENY
    assert verdict(READ, Content(labels=("web",)), deny).decision is DENY, "nobody knows from where on the web"
    assert verdict(READ, CLEAN, deny).decision is ALLOW


def test_a_rule_that_checks_can_not_speak_of_content_that_could_speak_to_a_model() -> None:
    with pytest.raises(Exception, match='a rule that checks can\'t state "sources"'):
        rule("check", {"tools": ["write_file"], "sources": ["web:*"]})


# --- patterns of sources -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "source", "is_meant"),
    [
        ("*", "web:example.org", True),
        ("*", "mcp:", True),
        ("web:*", "web:example.org", True),
        ("web:*", "web:", True),
        ("web:*", "mcp:example.org", False),
        ("web:example.org", "web:example.org", True),
        ("web:example.org", "web:EXAMPLE.org", True),
        ("web:example.org", "web:a.example.org", False),
        ("web:*.example.org", "web:a.example.org", True),
        ("web:*.example.org", "web:example.org", False),
        ("web:*.example.org", "web:evil.com#.example.org", False),
        ("web:*.example.org", "web:", False),
        ("web:10.0.0.0/8", "web:10.1.2.3", True),
        ("file:/data/**", "file:/data/a/b.csv", True),
        ("file:/data/**", "file:/database", False),
        ("file:/data/**", "file:/data/../etc/passwd", False),
        ("file:/data/**", "file:data/a", False),
        ("mcp:tick*", "mcp:tickets", True),
        ("mcp:tick*", "mcp:", False),
        ("output:a.ipynb", "output:a.ipynb", True),
    ],
)
def test_a_pattern_is_sure_of_what_it_takes_for_a_source(pattern: str, source: str, is_meant: bool) -> None:
    assert SourcePattern.of(pattern).matches(source, sure=True) is is_meant


@pytest.mark.parametrize(
    "pattern", ["", "web", "web:", "wep:example.org", "example.org", "file:data/**", "web:*.*.org", "web:a b", ":x"]
)
def test_what_is_no_pattern_is_told(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"is not a (source|host)"):
        SourcePattern.of(pattern)


def test_an_example_of_a_rule_says_where_its_content_is_from() -> None:
    examples: dict[str, Any] = {
        "match": [{"tool": "write_file", "args": {"path": "notes/a.md"}, "sources": ["web:docs.example.org"]}],
        "no_match": [{"tool": "write_file", "args": {"path": "notes/a.md"}, "sources": ["web:evil.example"]}],
    }
    when = {"tools": ["write_file"], "sources": ["web:docs.example.org"]}

    assert rule("allow", when, examples=examples).states_sources
    with pytest.raises(Exception, match="it says that it matches"):
        rule("allow", when, examples={"match": examples["no_match"]})


def test_where_it_came_from_is_told_shortly_and_visibly() -> None:
    assert origin_text(CLEAN) == ""
    assert origin_text(Content(labels=("mcp",))) == "what a server of tools said"
    assert origin_text(WEB) == "web content (docs.example.org)"
    many = Content.of(Label.WEB, [f"{letter}.example" for letter in "abcdef"]) | Content.of(Label.FILE, ["/x\u202e"])
    assert origin_text(many) == "a file outside the project, web content (/x\\u202e, a.example, b.example and 4 more)"


# --- addresses -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "plain"),
    [
        ("https://Example.ORG", "https://example.org/"),
        ("HTTPS://example.org:443/a?b=c#d", "https://example.org/a?b=c"),
        ("http://example.org:8080/", "http://example.org:8080/"),
        ("https://bücher.example/ä", "https://xn--bcher-kva.example/ä"),
        ("http://[::1]:80/", "http://[::1]/"),
        ("https://example.org/%41", "https://example.org/%41"),
        ("https://ana:pw@example.org/", None),
        ("ftp://example.org/", None),
        ("https://2130706433/", None),
        ("https://example.org:99999/", None),
        ("https://example.org\\@evil.example/", None),
        ("https://example.org/" + "a" * MAX_ADDRESS, None),
        ("example.org", None),
    ],
)
def test_an_address_is_compared_in_one_form_with_its_path_to_the_letter(url: str, plain: str | None) -> None:
    assert plain_address(url) == plain


def read(content: Content = CLEAN, *linked: str, typed: tuple[str, ...] = (), **more: Any) -> Reading:
    def plain(urls: tuple[str, ...]) -> frozenset[str]:
        return frozenset(filter(None, map(plain_address, urls)))

    return Reading(**{"content": content, "has_read": True, "linked": plain(linked), "typed": plain(typed), **more})


PAGE = "https://docs.example.org/guide"
ENOUGH: dict[str, Any] = {"has_own": True, "followed": MOST_FOLLOWED}


@pytest.mark.parametrize(
    ("reading", "url", "decision"),
    [
        (read(has_read=False), "https://pypi.example/numpy/json", ALLOW),
        (read(), "https://pypi.example/numpy/json", ASK),
        (read(typed=("https://pypi.example/",)), "https://pypi.example/numpy/json", ASK),
        (read(typed=(PAGE,)), PAGE, ALLOW),
        (read(WEB, PAGE), PAGE, ALLOW),
        (read(WEB, PAGE), PAGE + "#part", ALLOW),
        (read(WEB, PAGE), PAGE + "?d=secret", ASK),
        (read(WEB, PAGE), PAGE + "/", ASK),
        (read(WEB, PAGE), "https://docs.example.org.evil.example/guide", ASK),
        (read(WEB, PAGE), "https://secret.docs.example.org/guide", ASK),
        (read(WEB, PAGE, followed=MOST_FOLLOWED), PAGE, ALLOW),
        (read(WEB, PAGE, has_own=True, followed=MOST_FOLLOWED - 1), PAGE, ALLOW),
        (read(WEB, PAGE, **ENOUGH), PAGE, ASK),
        (read(WEB, typed=(PAGE,), **ENOUGH), PAGE, ALLOW),
        (read(WEB, has_read=False), "https://example.org/", ASK),
        (read(has_read=False), "https://2130706433/", ALLOW),
        (read(), "no address", ASK),
    ],
)
def test_an_address_that_nobody_gave_is_asked_where_something_could_leave_with_it(
    reading: Reading, url: str, decision: Decision
) -> None:
    found = decide(of(GET, reading=reading, url=url), ())

    assert found.decision is decision
    assert found.rule == ("default.read_only" if decision is ALLOW else "floor.address")


def test_words_that_are_sent_out_are_asked_for_once_anything_was_read() -> None:
    assert decide(of(SEARCH, reading=Reading()), ()).decision is ALLOW
    asked = decide(of(SEARCH, reading=read()), ())

    assert (asked.decision, asked.rule) == (ASK, "floor.address")
    assert asked.reason == "It sends something out, which could carry away what was read."


def test_a_rule_that_states_sources_lets_nothing_go_that_is_not_from_there() -> None:
    docs = rule("allow", {"tools": ["fetch_url"], "sources": ["web:docs.example.org"]}, "docs")

    assert decide(of(GET, reading=read(), url="https://evil.example/?d=secret"), (docs,)).decision is ASK


def test_a_rule_that_names_the_tool_lets_it_go_anywhere_as_long_as_nothing_is_from_outside() -> None:
    named = rule("allow", {"tools": ["fetch_url"], "hosts": ["*.example"]}, "mirrors")
    url = "https://pypi.example/numpy/json"

    assert decide(of(GET, reading=read(), url=url), (named,)).rule == "mirrors"
    assert decide(of(GET, reading=read(WEB), url=url), (named,)).decision is ASK
    meant = rule("allow", {"tools": ["fetch_url"], "hosts": ["*.example"], "sources": ["web:docs.example.org"]}, "docs")
    assert decide(of(GET, reading=read(WEB), url=url), (meant,)).rule == "docs"
    assert decide(of(GET, reading=read(EVIL), url=url), (meant,)).decision is ASK
    assert decide(of(GET, reading=read(), url="https://evil.org/"), (named,)).decision is ASK


def test_of_several_addresses_each_has_to_be_given() -> None:
    several = replace(SEND, tool_id="web.many", categories=frozenset(), is_outbound=True)
    one, other = "https://a.example/", "https://b.example/"

    assert of(several, reading=read(WEB, one, other), hosts=[one, other]).given == ("address", "address")
    assert of(several, reading=read(WEB, one), hosts=[one, other]).given == ("address", "")


# --- a yes for the session -----------------------------------------------------------------------------------


def test_a_yes_for_the_session_to_an_address_is_for_its_host_and_the_labels_behind_it() -> None:
    first = of(GET, reading=read(WEB), url="https://pypi.example/numpy/json")
    cover = cover_of(first, "floor.address")
    assert cover is not None
    assert cover.said == "`fetch_url` at `pypi.example`"

    def is_covered(url: str, content: Content = WEB) -> bool:
        return covers(cover, of(GET, reading=read(content), url=url), "floor.address")

    assert is_covered("https://pypi.example/pandas/json")
    assert not is_covered("https://a.pypi.example/")
    assert not is_covered("https://evil.example/")
    assert not is_covered("https://pypi.example/", CLEAN)
    assert not is_covered("https://pypi.example/", WEB | Content.of(Label.MCP, ["tickets"]))
    assert not is_covered("no address")


@given(st.sampled_from([GET, SEARCH, WRITE, NOTE, KEPT, READ, JOB, SEND]), st.sampled_from([CLEAN, WEB, EVIL]))
def test_content_from_outside_never_makes_a_call_freer(tool: ToolMeta, content: Content) -> None:
    clean = verdict(tool, CLEAN, url=PAGE, path="a.md", hosts=[PAGE], argv=["make"])
    labelled = verdict(tool, content, url=PAGE, path="a.md", hosts=[PAGE], argv=["make"])

    assert labelled.decision.rank >= clean.decision.rank
