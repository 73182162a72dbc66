"""Which MCP servers count in a project, what was settled for them, and the contracts of their tools."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ozzie_server_ext.config.files import stamps_of
from ozzie_server_ext.config.home import Home
from ozzie_server_ext.config.jsonc import ConfigError, JsoncError
from ozzie_server_ext.domain.content import CLEAN, Content, Label
from ozzie_server_ext.domain.errors import NotFound
from ozzie_server_ext.domain.toolmeta import Category, Idempotency, RiskLevel, SideEffect, Target, TargetKind
from ozzie_server_ext.plugins.effects import Effect
from ozzie_server_ext.plugins.manifest import McpText
from ozzie_server_ext.plugins.mcp_file import read_mcp_file
from ozzie_server_ext.plugins.server_tool import ServerTool, tools_of
from ozzie_server_ext.plugins.servers import (
    SettledServer,
    SettledTool,
    UsedServer,
    access_sentences,
    claimed,
    files_of,
    form_of,
    key_of,
    servers_of,
    settle,
    write_own,
)
from ozzie_server_ext.plugins.tool_host import Connection
from ozzie_server_ext.plugins.tool_names import slug_of
from ozzie_server_ext.policy.decision import Action, Caller, Decision, Reading, Verdict
from ozzie_server_ext.policy.engine import decide
from ozzie_server_ext.protocol.tool_host import Claims, ServerAccess
from ozzie_server_ext.protocol.tool_host import ServerTool as SeenTool
from ozzie_server_ext.tools.builtin import builtin_tools
from ozzie_server_ext.tools.registry import ToolRegistry

NOW = datetime(2026, 11, 1, tzinfo=UTC)
FILES = McpText(command="files", args=("./notes",))
DOCS = McpText(transport="http", url="https://mcp.example.org/")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "home")
    made.create()
    return made


@pytest.fixture
def project(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    return made


def settled(how: McpText = FILES, *tools: str, **known: Any) -> SettledServer:
    seen = {name: SettledTool(seen=SeenTool(name=name, schema={"type": "object"})) for name in tools}
    return SettledServer(
        **({"form": form_of(how), "trusted_at": NOW, "name": "", "version": "", "tools": seen} | known)
    )


def list_in(project: Path, file: str = ".mcp.json", **servers: Any) -> Path:
    path = project / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"servers" if ".vscode" in file else "mcpServers": servers}))
    return path


def states(home: Home, project: Path) -> list[tuple[str, str]]:
    return [(server.key, server.state) for server in servers_of(home, project).servers]


# --- states -----------------------------------------------------------------------------------------------------------


def test_a_listed_server_is_new_until_it_is_settled_and_changed_once_it_is_listed_otherwise(
    home: Home, project: Path
) -> None:
    write_own(home, "files", FILES)
    seen = [states(home, project)]
    settle(home, "files", settled())
    seen.append(states(home, project))
    write_own(home, "files", McpText(command="files", args=("./notes", "/")))
    seen.append(states(home, project))
    write_own(home, "files", FILES)
    seen.append(states(home, project))
    settle(home, "files", None)
    seen.append(states(home, project))

    assert seen == [[("files", state)] for state in ("new", "trusted", "changed", "trusted", "new")]


@pytest.mark.parametrize(
    "how",
    [
        {"command": "other", "args": ["./notes"]},
        {"command": "files", "args": ["./notes", ""]},
        {"command": "files", "args": ["./notes"], "env": {"A": "b"}},
        {"url": "https://mcp.example.org/"},
    ],
)
def test_every_part_of_the_form_counts(how: Any, home: Home, project: Path) -> None:
    path = list_in(project, files=how)
    settle(home, key_of("files", path), settled())

    assert [state for _, state in states(home, project)] == ["changed"]


def test_an_address_or_its_headers_count_too(home: Home, project: Path) -> None:
    docs = {"url": "https://mcp.example.org/", "headers": {"A": "b"}}
    path = list_in(project, docs=docs)
    (listed,) = read_mcp_file(path.read_bytes(), path)
    settle(home, key_of("docs", path), settled(listed.how))
    found: list[str] = []
    for change in ({}, {"headers": {"A": "c"}}, {"url": "https://mcp.example.org/x"}, {"type": "sse"}):
        list_in(project, docs=docs | change)
        found += [state for _, state in states(home, project)]

    assert found == ["trusted", "changed", "changed", "changed"]


def test_what_another_program_means_by_it_does_not_count(home: Home, project: Path) -> None:
    path = list_in(project, files={"command": "files", "args": ["./notes"]})
    settle(home, key_of("files", path), settled())
    list_in(project, files={"args": ["./notes"], "type": "stdio", "command": "files", "disabled": True})

    assert [state for _, state in states(home, project)] == ["trusted"]


def test_own_servers_come_first_and_shadow_those_of_their_name(home: Home, project: Path) -> None:
    ozzies = list_in(project, ".ozzie/mcp.json", files={"command": "a"}, one={"command": "a"})
    claudes = list_in(project, ".mcp.json", one={"command": "b"}, two={"command": "b"})
    codes = list_in(project, ".vscode/mcp.json", three={"command": "c"})
    write_own(home, "files", FILES)

    assert states(home, project) == [
        ("files", "new"),
        (f"{ozzies}#files", "shadowed"),
        (f"{ozzies}#one", "new"),
        (f"{claudes}#one", "shadowed"),
        (f"{claudes}#two", "new"),
        (f"{codes}#three", "new"),
    ]


def test_a_name_that_differs_in_signs_alone_is_shadowed_for_the_tools_would_have_the_same_ids(
    home: Home, project: Path
) -> None:
    write_own(home, "my-files", FILES)
    path = project / ".mcp.json"
    path.write_text('{"mcpServers": {"My files": {"command": "a"}}}')

    assert states(home, project) == [("my-files", "new"), (f"{path}#My files", "shadowed")]


def test_a_shadowed_server_is_not_used_though_it_was_trusted(home: Home, project: Path) -> None:
    path = list_in(project, files={"command": "files", "args": ["./notes"]})
    settle(home, key_of("files", path), settled())
    (before,) = servers_of(home, project).servers
    write_own(home, "files", DOCS)
    own, theirs = servers_of(home, project).servers

    assert before.used == UsedServer(name="files", is_remote=False, settled=settled())
    assert (theirs.state, theirs.used, own.used) == ("shadowed", None, None)
    assert servers_of(home, project).find("files") == own


def test_only_a_trusted_server_is_used(home: Home, project: Path) -> None:
    write_own(home, "files", FILES)
    (new,) = servers_of(home, project).servers
    settle(home, "files", settled(DOCS))
    (changed,) = servers_of(home, project).servers
    write_own(home, "files", DOCS)
    (trusted,) = servers_of(home, project).servers

    assert (new.used, changed.used) == (None, None)
    assert trusted.used == UsedServer(name="files", is_remote=True, settled=settled(DOCS))


def test_trust_in_one_project_or_file_is_none_in_another(home: Home, project: Path, tmp_path: Path) -> None:
    files = {"command": "files", "args": ["./notes"]}
    path = list_in(project, files=files)
    other = tmp_path / "other"
    other.mkdir()
    list_in(other, files=files)
    settle(home, key_of("files", path), settled())
    found = [states(home, project)[0][1], states(home, other)[0][1]]
    path.unlink()
    list_in(project, ".cursor/mcp.json", files=files)
    write_own(home, "files2", FILES)

    assert found == ["trusted", "new"]
    assert [state for _, state in states(home, project)] == ["new", "new"]


@pytest.mark.parametrize("file", [".mcp.json", ".ozzie/mcp.json", ".vscode/mcp.json"])
def test_a_project_that_is_reached_by_a_link_is_the_same(file: str, home: Home, project: Path, tmp_path: Path) -> None:
    path = list_in(project, file, files={"command": "files", "args": ["./notes"]})
    link = tmp_path / "link"
    link.symlink_to(project)
    settle(home, key_of("files", link / file), settled())

    assert key_of("files", link / file) == f"{path}#files"
    assert states(home, project) == states(home, link) == [(f"{path}#files", "trusted")]


def test_a_list_that_is_a_link_is_the_projects_own_not_that_which_it_leads_to(
    home: Home, project: Path, tmp_path: Path
) -> None:
    """Otherwise trust in one project would be trust in all that lead to its list."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    theirs = list_in(elsewhere, ".cursor/mcp.json", files={"command": "files", "args": ["./notes"]})
    (project / ".cursor").symlink_to(theirs.parent)
    settle(home, key_of("files", theirs), settled())

    assert states(home, project) == [(f"{project}/.cursor/mcp.json#files", "new")]


def test_a_list_that_can_not_be_read_is_told_and_the_others_count(home: Home, project: Path) -> None:
    write_own(home, "files", FILES)
    (project / ".mcp.json").write_text('{"mcpServers": nonsense}')

    found = servers_of(home, project)

    assert [server.key for server in found.servers] == ["files"]
    assert found.problems == (f"{project / '.mcp.json'}, line 1, column 16: this is no JSON with comments.",)


def test_a_server_that_is_not_there_is_told_with_those_that_are(home: Home, project: Path) -> None:
    with pytest.raises(NotFound) as none:
        servers_of(home, project).find("files")
    write_own(home, "one", FILES)
    write_own(home, "two", DOCS)
    with pytest.raises(NotFound) as others:
        servers_of(home, project).find("files")

    assert (str(none.value), none.value.hint) == (
        "There is no MCP server `files`.",
        "Add one: ozzie mcp add NAME -- COMMAND",
    )
    assert others.value.hint == "There are: `one`, `two`."


def test_stamps_change_with_each_list_and_with_what_is_settled(home: Home, project: Path) -> None:
    found = [stamps_of(files_of(home, project))]
    write_own(home, "files", FILES)
    found.append(stamps_of(files_of(home, project)))
    settle(home, "files", settled())
    found.append(stamps_of(files_of(home, project)))
    for file in (".ozzie/mcp.json", ".mcp.json", ".cursor/mcp.json", ".vscode/mcp.json"):
        list_in(project, file)
        found.append(stamps_of(files_of(home, project)))

    assert len(found) == 7
    assert all(one != other for at, one in enumerate(found) for other in found[at + 1 :])


# --- servers.json -----------------------------------------------------------------------------------------------------


def test_what_is_settled_is_read_as_it_was_written(home: Home, project: Path) -> None:
    seen = SeenTool(
        name="send",
        schema={"type": "object", "properties": {"to": {"type": "string"}}},
        title="Send",
        description="Sends mail — \N{PERSON WITH BALL}",
        claims=Claims(read_only=False, open_world=True),
    )
    tool = SettledTool(seen=seen, effect=Effect.SENDS, targets={"to": TargetKind.RECIPIENT})
    access = ServerAccess(reads=("/a",), writes=("/b",), program=("/c",), hosts=("mail.example:443",))
    whole = settled(
        name="Mail",
        version="1.0",
        instructions="Be kind.",
        argv=("/c/mail", "--all"),
        packages="0af1",
        access=access,
        secrets=("KEY",),
        tools={"send": tool},
    )
    write_own(home, "files", FILES)

    settle(home, "files", whole)

    (server,) = servers_of(home, project).servers
    assert server.settled == whole
    assert home.servers_file.stat().st_mode & 0o077 == 0


def test_settling_one_server_leaves_the_others(home: Home, project: Path) -> None:
    for name in ("one", "two", "three"):
        write_own(home, name, FILES)
        settle(home, name, settled())

    settle(home, "two", None)
    settle(home, "never", None)
    settle(home, "three", settled(DOCS))

    assert states(home, project) == [("one", "trusted"), ("two", "new"), ("three", "changed")]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"{}",
        b'{"servers": []}',
        b'{"servers": {"files": {}}}',
        b'{"servers": {"files": {"form": 1, "trusted_at": "2026-11-01T00:00:00Z", "name": "", "version": ""}}}',
        b"\xff",
        b"[" * 100_000,
    ],
    ids=lambda content: repr(content[:30]),
)
def test_a_damaged_file_is_told_and_never_taken_for_an_empty_one(content: bytes, home: Home, project: Path) -> None:
    write_own(home, "files", FILES)
    home.servers_file.write_bytes(content)

    for act in (lambda: servers_of(home, project), lambda: settle(home, "files", settled())):
        with pytest.raises(ConfigError) as raised:
            act()
        assert str(raised.value) == (
            f"{home.servers_file}: what was settled for MCP servers can't be read: the file is damaged."
        )
        assert raised.value.hint == "Restore a backup of it, or move it away and trust your servers again."
    assert home.servers_file.read_bytes() == content


# --- mcp.json ---------------------------------------------------------------------------------------------------------

IN_EACH_FORM = [
    FILES,
    McpText(command="/opt/files", env={"TOKEN": "${KEY}", "B": "ä"}),
    DOCS,
    McpText(transport="http", url="https://mcp.example.org/", headers={"Authorization": "Bearer ${KEY}"}),
    McpText(transport="sse", url="http://127.0.0.1:9/sse"),
]


@pytest.mark.parametrize("how", IN_EACH_FORM)
def test_what_is_listed_is_read_in_the_same_form(how: McpText, home: Home) -> None:
    write_own(home, "it", how)

    (listed,) = read_mcp_file(home.mcp_file.read_bytes(), home.mcp_file)
    assert (listed.name, form_of(listed.how), listed.passed_over) == ("it", form_of(how), ())


@pytest.mark.parametrize("form", ["mcpServers", "servers"])
def test_other_servers_and_what_other_programs_mean_stay_as_they_are(form: str, home: Home, project: Path) -> None:
    theirs = {"command": "npx", "args": ["-y", "x"], "disabled": True, "envFile": "${workspaceFolder}/.env"}
    inputs = [{"id": "key", "type": "promptString", "password": True}]
    home.mcp_file.write_text(
        f'// for my editor\n{{"inputs": {json.dumps(inputs)}, "{form}": {{"theirs": {json.dumps(theirs)},}}, "ä": 1}}'
    )

    write_own(home, "files", FILES)
    added = json.loads(home.mcp_file.read_bytes())
    write_own(home, "files", DOCS)
    changed = json.loads(home.mcp_file.read_bytes())
    write_own(home, "files", None)
    write_own(home, "never", None)
    without = json.loads(home.mcp_file.read_bytes())

    whole = {"inputs": inputs, form: {"theirs": theirs}, "ä": 1}
    assert added == whole | {form: {"theirs": theirs, "files": {"command": "files", "args": ["./notes"]}}}
    assert changed[form]["files"] == {"type": "http", "url": "https://mcp.example.org/"}
    assert without == whole


def test_of_a_file_with_both_forms_that_one_is_changed_which_is_read(home: Home, project: Path) -> None:
    home.mcp_file.write_text('{"servers": {"a": {"command": "a"}}, "mcpServers": {"b": {"command": "b"}}}')

    write_own(home, "files", FILES)

    assert [key for key, _ in states(home, project)] == ["b", "files"]
    assert json.loads(home.mcp_file.read_bytes())["servers"] == {"a": {"command": "a"}}


@pytest.mark.parametrize("content", ["", "{", "[]", '{"mcpServers": []}', '{"servers": 1}', '{"a": 1, "a": 2}'])
def test_a_list_that_can_not_be_read_is_not_overwritten(content: str, home: Home) -> None:
    home.mcp_file.write_text(content)

    with pytest.raises((ConfigError, JsoncError)) as raised:
        write_own(home, "files", FILES)

    assert str(home.mcp_file) in str(raised.value)
    assert home.mcp_file.read_text() == content


def test_a_list_for_nobody_else_is_made_where_there_is_none(tmp_path: Path) -> None:
    home = Home(tmp_path / "not/yet")

    write_own(home, "files", FILES)

    assert home.mcp_file.stat().st_mode & 0o077 == 0


# --- words ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("files", "files"),
        ("My Files", "my_files"),
        ("@acme/server-one.2", "acme_server_one_2"),
        ("--a--", "a"),
        ("2nd", "n2nd"),
        ("", "x"),
        ("…", "x"),
        ("Ärger", "rger"),
        ("a__b", "a_b"),
        ("I\N{COMBINING DOT ABOVE}", "i"),
    ],
)
def test_a_slug_has_small_letters_digits_and_underlines(name: str, slug: str) -> None:
    assert slug_of(name) == slug


@given(st.text())
def test_every_name_has_a_slug_that_an_id_can_hold(name: str) -> None:
    slug = slug_of(name)

    assert re.fullmatch(r"[a-z][a-z0-9_]*", slug)
    assert slug_of(slug) == slug


@pytest.mark.parametrize(
    ("claims", "effect"),
    [
        (Claims(), None),
        (Claims(idempotent=True, open_world=False), None),
        (Claims(read_only=True), Effect.READS),
        (Claims(read_only=True, destructive=True), Effect.READS),
        (Claims(read_only=False), Effect.DELETES),
        (Claims(read_only=False, destructive=True), Effect.DELETES),
        (Claims(destructive=True), Effect.DELETES),
        (Claims(read_only=False, destructive=False), Effect.CHANGES),
        (Claims(destructive=False), Effect.CHANGES),
    ],
    ids=str,
)
def test_what_is_claimed_is_taken_as_the_mcp_means_it(claims: Claims, effect: Effect | None) -> None:
    assert claimed(claims) is effect


def test_what_a_server_may_do_is_said_the_gravest_first() -> None:
    plain = SettledServer(form="", trusted_at=datetime.now(UTC), name="", version="")
    access = ServerAccess(reads=("/docs",), writes=("/notes",), program=("/opt/files",))

    assert access_sentences(replace(plain, access=access, secrets=("KEY",)), is_remote=False) == (
        "It is given the secret or variable `KEY`.",
        "It may read and change `/notes`.",
        "It may read `/docs`.",
        "It may read `/opt/files`, where its program is.",
        "It has no network.",
        "It sees nothing else of this machine but the system's programs.",
    )
    installed = access_sentences(replace(plain, access=access, packages="abc"), is_remote=False)
    assert not any("/opt/files" in sentence for sentence in installed)
    hosts = ServerAccess(hosts=("a.example:443",))
    assert access_sentences(replace(plain, access=hosts), is_remote=False)[0] == (
        "It may send what it is given or may read to `a.example:443`."
    )
    assert access_sentences(plain, is_remote=True) == ()


# --- tools ------------------------------------------------------------------------------------------------------------


async def nobody() -> Connection:
    raise AssertionError("nothing is called here")


def tools(server: str, *names: str, effect: Effect | None = Effect.READS, how: McpText = FILES) -> list[ServerTool]:
    known = settled(how, *names)
    known = replace(known, tools={name: replace(tool, effect=effect) for name, tool in known.tools.items()})
    return list(tools_of(UsedServer(name=server, is_remote=how.url is not None, settled=known), nobody))


def names(*found: ServerTool) -> list[tuple[str, str]]:
    return [(tool.meta.tool_id, tool.meta.name) for tool in found]


def test_a_tools_id_and_name_begin_with_its_server() -> None:
    found = tools("My Files", "read_text", "Write/All.now")

    assert names(*found) == [
        ("mcp.my_files.write_all_now", "my_files__Write_All_now_cafe9336"),
        ("mcp.my_files.read_text", "my_files__read_text"),
    ]
    assert all(tool.spec.name == tool.meta.name for tool in found)


def test_tools_whose_names_differ_in_signs_alone_have_different_ids_in_whatever_order_they_are_listed() -> None:
    found = tools("files", "a.b", "a-b", "a_b", "A/B")

    assert len({tool.meta.tool_id for tool in found}) == len({tool.meta.name for tool in found}) == 4
    assert "mcp.files.a_b" not in {tool.meta.tool_id for tool in found}, "rules for it must not be for another one"
    assert [tool.meta.tool_id for tool in tools("files", "A/B", "a_b", "a.b", "a-b")] == [
        tool.meta.tool_id for tool in found
    ]


@pytest.mark.parametrize(
    ("one", "other"), [(("a", "b_c"), ("a_b", "c")), (("read", "file"), ("x", "y")), (("a", "_b"), ("a_", "b"))]
)
def test_tools_of_two_servers_never_share_a_name(one: tuple[str, str], other: tuple[str, str]) -> None:
    (first,), (second,) = tools(*one), tools(*other)

    assert first.meta.name != second.meta.name
    assert "__" in first.meta.name


def test_very_long_names_fit_and_stay_apart() -> None:
    found = tools("files", "a" * 128, "a" * 127 + "b", "a" * 57 + "c")
    other = tools("filed", "a" * 128)

    assert [len(name) for _, name in names(*found, *other)] == [64] * 4
    assert len(dict.fromkeys(names(*found, *other))) == 4
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for _, name in names(*found))


@pytest.mark.parametrize(
    ("server", "tool"), [("x", "read_file"), ("read", "file"), ("Read", "file"), ("x", "fs.read"), ("fs", "read")]
)
def test_no_tool_of_a_server_takes_the_place_of_one_of_ozzies(server: str, tool: str) -> None:
    own = builtin_tools()
    registry = ToolRegistry(own)

    registry.replace((), tools(server, tool))

    names = [(each, name) for each in own for name in (each.meta.tool_id, each.meta.name, *each.meta.further_names)]
    assert [name for each, name in names if registry.find(name) is not each] == []


_NAMES = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_./-]{0,127}", fullmatch=True)
_ALIKE = st.text("aB_./-2", min_size=1, max_size=4)


@given(st.lists(_NAMES | _ALIKE, min_size=2, max_size=12, unique=True))
def test_no_two_tools_of_a_server_share_an_id(listed: list[str]) -> None:
    found = tools("files", *listed)

    assert len({tool.meta.tool_id for tool in found}) == len(listed)
    assert all(re.fullmatch(r"mcp\.files\.[a-z][a-z0-9_]*", tool.meta.tool_id) for tool in found)


# --- contracts --------------------------------------------------------------------------------------------------------


def verdict(tool: ServerTool, content: Content = CLEAN, **args: Any) -> Verdict:
    caller = Caller(project="/home/ana/work", channel="notebook", user="ana")
    return decide(Action.of(tool.meta, args, caller, Reading(content=content, has_read=bool(content))), ())


@pytest.mark.parametrize(
    ("effect", "category", "rule"),
    [
        (Effect.CHANGES, None, "floor.irreversible"),
        (Effect.SENDS, Category.EXTERNAL_SEND, "floor.external_send"),
        (Effect.DELETES, Category.DELETE, "floor.delete"),
        (Effect.PAYS, Category.PAYMENT, "floor.payment"),
        (Effect.CONFIGURES, Category.CONFIG_CHANGE, "floor.config_change"),
    ],
)
def test_what_a_tool_does_that_changes_anything_asks(effect: Effect, category: Category | None, rule: str) -> None:
    (tool,) = tools("files", "it", effect=effect)
    meta = tool.meta

    assert (meta.side_effect, meta.risk_level) == (SideEffect.IRREVERSIBLE, RiskLevel.MEDIUM)
    assert (meta.idempotency, meta.may_be_repeated) == (Idempotency.NOT_SUPPORTED, False)
    assert meta.categories == ({category} if category else set())
    assert (verdict(tool).decision, verdict(tool).rule) == (Decision.ASK, rule)


def test_what_only_reads_runs_and_may_be_repeated_and_brings_content_from_outside() -> None:
    (tool,) = tools("files", "it", effect=Effect.READS)
    meta = tool.meta

    assert (meta.side_effect, meta.risk_level, meta.categories) == (SideEffect.NONE, RiskLevel.LOW, frozenset())
    assert (meta.idempotency, meta.may_be_repeated) == (Idempotency.SUPPORTED, True)
    assert (meta.brings, meta.is_outbound, meta.is_unclassified) == (Label.MCP, False, False)
    assert verdict(tool).decision is verdict(tool, Content.of(Label.WEB, ["a.example"])).decision is Decision.ALLOW


def test_what_nobody_has_classified_is_denied() -> None:
    (tool,) = tools("files", "it", effect=None)

    assert (verdict(tool).decision, verdict(tool).rule) == (Decision.DENY, "floor.unclassified")
    assert not tool.meta.may_be_repeated


def test_what_reads_at_an_address_asks_once_something_was_read() -> None:
    (tool,) = tools("docs", "it", how=DOCS)

    assert tool.meta.is_outbound
    assert verdict(tool).decision is Decision.ALLOW
    assert verdict(tool, Content.of(Label.WEB, ["a.example"])).decision is Decision.ASK


def test_what_an_argument_names_is_known_to_cards_and_rules() -> None:
    known = settled(FILES, "send")
    tool = replace(known.tools["send"], effect=Effect.SENDS, targets={"to": TargetKind.RECIPIENT, "a": TargetKind.URL})
    server = UsedServer(name="mail", is_remote=False, settled=replace(known, tools={"send": tool}))

    (found,) = tools_of(server, nobody)

    assert found.meta.targets == (Target("a", TargetKind.URL), Target("to", TargetKind.RECIPIENT))


def test_each_thing_that_a_person_settles_makes_another_version_of_the_contract() -> None:
    known = settled(FILES, "it")
    it = known.tools["it"]
    access = ServerAccess(reads=("/a",))
    others = [
        known,
        replace(known, tools={"it": replace(it, effect=Effect.READS)}),
        replace(known, tools={"it": replace(it, seen=replace(it.seen, description="Other words"))}),
        replace(known, tools={"it": replace(it, targets={"a": TargetKind.URL})}),
        replace(known, access=access),
        replace(known, packages="1"),
        replace(known, form="1"),
    ]

    found = [
        tool.meta.version
        for each in others
        for tool in tools_of(UsedServer(name="files", is_remote=False, settled=each), nobody)
    ]

    assert len(set(found)) == len(others)
