"""Rules that are made on cards: what is offered, what they let through, and that nothing else changes."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ozzie_server_ext.config.home import Home
from ozzie_server_ext.config.jsonc import ConfigError, JsoncError
from ozzie_server_ext.domain.approvals import AuthStrength, SessionGrant
from ozzie_server_ext.domain.content import Content
from ozzie_server_ext.domain.events import ApprovalRequested
from ozzie_server_ext.domain.ids import ApprovalId, CallId
from ozzie_server_ext.domain.toolmeta import RiskLevel, SideEffect
from ozzie_server_ext.policy import standing
from ozzie_server_ext.policy.approvals import cover_of
from ozzie_server_ext.policy.decision import Action, Caller, Decision, Reading
from ozzie_server_ext.policy.engine import CHANGES, OUTSIDE, decide
from ozzie_server_ext.policy.files import Policy, load
from ozzie_server_ext.tools.builtin import builtin_tools
from ozzie_server_ext.tools.registry import ToolRegistry
from tests.unit.policy.rig import ERASE, FETCH, MAIL, WRITE, find, meta

AT = datetime(2026, 11, 30, 12, tzinfo=UTC)
EDIT = meta("fs.edit", side_effect=SideEffect.REVERSIBLE, risk_level=RiskLevel.MEDIUM, targets=WRITE.targets)
TRASH = meta("fs.trash", side_effect=SideEffect.REVERSIBLE, risk_level=RiskLevel.MEDIUM, targets=WRITE.targets)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    found = Home(tmp_path / "home")
    found.create()
    return found


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def call(path: str, project: Path, tool: Any = WRITE, content: Content | None = None) -> Action:
    reading = Reading(content=content or Content())
    return Action.of(tool, {"path": path}, Caller(project=str(project)), reading)


def asked(action: Action) -> ApprovalRequested:
    """The request for a yes to a call, as far as it matters here."""
    cover = cover_of(action, CHANGES.rule)
    return ApprovalRequested(
        approval_id=ApprovalId("a"),
        call_id=CallId("c"),
        tool_id=action.meta.tool_id,
        name=action.meta.name,
        sentence="?",
        proof="",
        shown="",
        whole=None,
        reason="",
        rule=CHANGES.rule,
        place="",
        side_effect=action.meta.side_effect,
        risk_level=action.meta.risk_level,
        undo="",
        binds="",
        needs=AuthStrength.RELAY,
        cover=cover,
        key="k",
        expires_at="",
        standing=standing.offered(cover, CHANGES),
    )


def rules(home: Home, project: Path) -> Policy:
    return load(home, project, find, system_file=home.root / "none")


def decision(home: Home, project: Path, action: Action) -> Decision:
    return decide(action, rules(home, project).rules).decision


def offer(path: str, project: Path) -> str:
    return asked(call(path, project)).standing


def test_what_is_offered_is_the_folder_of_the_file_or_the_file_itself(project: Path) -> None:
    assert offer("notes/a.md", project) == "`write_file` and `edit_file` in `notes/`"
    assert offer("notes/2026/a.md", project) == "`write_file` and `edit_file` in `notes/2026/`"
    assert offer("a.md", project) == "`write_file` and `edit_file` on `a.md`"


@pytest.mark.parametrize(
    "path",
    [
        ".git/hooks/pre-commit",
        "notes/.hidden/a",
        ".env",
        "no*es/a.md",
        "**/a",
        "./ notes/a.md",
        "a.md /",
        "a/" * 33,
        "x" * 600,
    ],
)
def test_nothing_is_offered_in_hidden_folders_or_where_a_name_would_be_a_pattern(path: str, project: Path) -> None:
    assert offer(path, project) == ""


def test_nothing_is_offered_where_another_rule_would_not_help(project: Path) -> None:
    cover = cover_of(call("notes/a.md", project), CHANGES.rule)
    assert isinstance(cover, SessionGrant)
    assert standing.offered(cover, CHANGES)

    assert not standing.offered(None, CHANGES)
    assert not standing.offered(cover, OUTSIDE)
    assert not standing.offered(cover, replace(CHANGES, place="policy.jsonc, line 3")), "a rule of that id asks"
    assert not standing.offered(replace(cover, labels=("web",)), CHANGES)
    assert not standing.offered(replace(cover, hosts=("example.org",)), CHANGES)
    assert not standing.offered(replace(cover, arguments="0" * 64), CHANGES)
    assert not standing.offered(replace(cover, project=""), CHANGES)
    assert not standing.offered(replace(cover, tool_id="fs.trash"), CHANGES)
    assert not standing.offered(replace(cover, below=()), CHANGES)


def test_files_of_the_folder_are_written_and_edited_from_then_on_and_all_else_asks(home: Home, project: Path) -> None:
    before = call("notes/a.md", project)
    assert decision(home, project, before) is Decision.ASK

    assert standing.add(home, asked(before), "Ana", AT) == ("standing.notes", True)

    for path in ("notes/a.md", "notes/b.md", "notes/deep/c.md"):
        assert decision(home, project, call(path, project)) is Decision.ALLOW, path
        assert decision(home, project, call(path, project, EDIT)) is Decision.ALLOW, path
        assert decision(home, project, call(path, project, TRASH)) is Decision.ASK, path
    for path in ("a.md", "data/a.md", "notes2/a.md", "data/notes/a.md", "notes/../a.md", "Notes/a.md"):
        assert decision(home, project, call(path, project)) is Decision.ASK, path


def test_it_is_for_that_very_project(home: Home, project: Path) -> None:
    standing.add(home, asked(call("notes/a.md", project)), "Ana", AT)

    for other in (project / "part", project.parent, project.parent / "project2"):
        other.mkdir(exist_ok=True)
        assert decision(home, other, call("notes/a.md", other)) is Decision.ASK, other


def test_it_lets_nothing_through_that_asks_for_another_reason(home: Home, project: Path) -> None:
    standing.add(home, asked(call("notes/a.md", project)), "Ana", AT)
    web = Content(labels=("web",), sources=("web:evil.example",))

    assert decision(home, project, call("notes/a.md", project, content=web)) is Decision.ASK
    for tool in (ERASE, MAIL, FETCH):
        with_path = meta(
            tool.tool_id,
            side_effect=SideEffect.IRREVERSIBLE,
            risk_level=tool.risk_level,
            categories=tool.categories,
            targets=(*WRITE.targets, *tool.targets),
        )
        assert decision(home, project, call("notes/a.md", project, with_path)) is Decision.ASK, tool.tool_id


def test_a_rule_of_the_users_that_asks_or_denies_counts_more(home: Home, project: Path) -> None:
    standing.add(home, asked(call("notes/a.md", project)), "Ana", AT)
    for wanted in ("ask", "deny"):
        rule = {
            "id": "thesis",
            "decision": wanted,
            "reason": "It is the thesis.",
            "when": {"paths": ["notes/thesis/**"]},
            "examples": {"match": [{"tool": "write_file", "args": {"path": "notes/thesis/a.md"}}]},
        }
        home.policy_file.write_text(json.dumps({"rules": [rule]}))

        assert decision(home, project, call("notes/thesis/a.md", project)).value == wanted.upper()
        assert decision(home, project, call("notes/a.md", project)) is Decision.ALLOW


def test_to_say_it_twice_makes_one_rule_and_folders_of_one_name_have_their_own(home: Home, project: Path) -> None:
    other = project.parent / "other"
    other.mkdir()

    made = [standing.add(home, asked(call(path, project)), "Ana", AT) for path in ("notes/a.md", "notes/b.md")]
    made += [standing.add(home, asked(call("notes/a.md", other)), "Ana", AT)]
    made += [standing.add(home, asked(call("Müller & Co/a.md", project)), "Ana", AT)]

    assert made == [
        ("standing.notes", True),
        ("standing.notes", False),
        ("standing.notes-2", True),
        ("standing.m-ller-co", True),
    ]
    kept = [
        rule.verdict.rule
        for file in rules(home, project).files
        if file.path == home.standing_file
        for rule in file.rules
    ]
    assert kept == ["standing.notes", "standing.notes-2", "standing.m-ller-co"]
    assert home.standing_file.stat().st_mode & 0o777 == 0o600


def test_what_is_taken_back_asks_again_and_the_rest_stays(home: Home, project: Path) -> None:
    for path in ("notes/a.md", "data/a.csv"):
        standing.add(home, asked(call(path, project)), "Ana", AT)

    assert standing.revoke(home, "standing.notes")
    assert not standing.revoke(home, "standing.notes")
    assert not standing.revoke(home, "thesis")

    assert decision(home, project, call("notes/a.md", project)) is Decision.ASK
    assert decision(home, project, call("data/a.csv", project)) is Decision.ALLOW


def test_a_file_that_somebody_broke_is_named_and_left_as_it_is(home: Home, project: Path) -> None:
    for text, error in (("{", JsoncError), ('{"rules": [{"id": "x"}]}', ConfigError)):
        home.standing_file.write_text(text)

        with pytest.raises(error, match=r"standing\.jsonc, line 1"):
            standing.add(home, asked(call("notes/a.md", project)), "Ana", AT)

        assert home.standing_file.read_text() == text


def test_the_rule_made_on_one_card_does_not_change_what_a_yes_to_another_is_for(home: Home, project: Path) -> None:
    before = rules(home, project)

    standing.add(home, asked(call("notes/a.md", project)), "Ana", AT)

    after = rules(home, project)
    assert (after.asking, after.version != before.version) == (before.asking, True)


REAL = ToolRegistry(builtin_tools()).find


@pytest.mark.parametrize(
    "path", ["notes/a.md", "a.md", "Müller & Co/Ende.md", "a/b/c/d.txt", 'it\'s "new"/a', "é/\u202ea"]
)
@pytest.mark.parametrize("where", ["", "sub/dir", "/"])
def test_what_is_written_is_taken_by_the_gateways_own_tools(path: str, where: str, home: Home, project: Path) -> None:
    folder = Path("/") if where == "/" else project / where
    folder.mkdir(parents=True, exist_ok=True)
    request = asked(call(path, folder))
    assert request.standing

    standing.add(home, request, "Ana", AT)

    policy = load(home, project, REAL, system_file=home.root / "none")
    assert [warning for file in policy.files for warning in file.warnings] == []
    assert decide(call(path, folder), policy.rules).decision is Decision.ALLOW


def test_a_project_that_became_a_link_or_a_circle_of_links_has_the_rule_no_more(home: Home, project: Path) -> None:
    standing.add(home, asked(call("notes/a.md", project)), "Ana", AT)
    other = project.parent / "other"
    project.rename(other)
    project.symlink_to(other)

    assert decision(home, other, call("notes/a.md", other)) is Decision.ASK

    project.unlink()
    project.symlink_to(project)
    assert decision(home, other, call("notes/a.md", other)) is Decision.ASK


@pytest.mark.parametrize(
    "written",
    [
        {"rules": [{"decision": "deny"}]},
        {"rules": [{"decision": "ask"}]},
        {"profile": "strict"},
        {"contacts": {"people": ["Ben"]}},
    ],
)
def test_only_rules_that_allow_may_stand_in_its_file(written: dict[str, Any], home: Home, project: Path) -> None:
    standing.add(home, asked(call("notes/a.md", project)), "Ana", AT)
    tree = json.loads("".join(home.standing_file.read_text().splitlines(keepends=True)[2:]))
    rules_ = [rule | changed for rule, changed in zip(tree["rules"], written.get("rules", [{}]), strict=True)]
    home.standing_file.write_text(json.dumps({**written, "rules": rules_}))

    with pytest.raises(ConfigError, match="has more than rules that allow"):
        rules(home, project)
