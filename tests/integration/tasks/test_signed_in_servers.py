"""Tools of a server that a person has signed in to, in real turns: the gateway, the tool host and the servers are real;
what the model says is written down here."""

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ozzie_server_ext.config.home import Home, key_folder
from ozzie_server_ext.domain.events import EventBody, Origin, SecretChanged, ToolCallCompleted, ToolCallFailed
from ozzie_server_ext.domain.ids import task_stream
from ozzie_server_ext.models.scripted import Say, Use
from ozzie_server_ext.observability.clock import SystemClock
from ozzie_server_ext.plugins.connections import Values
from ozzie_server_ext.plugins.manifest import McpText
from ozzie_server_ext.plugins.servers import Effect, settle, write_own
from ozzie_server_ext.plugins.settling import proposed
from ozzie_server_ext.plugins.sign_ins import SignIns
from ozzie_server_ext.programs.mcp_auth import signed_in
from ozzie_server_ext.protocol.tool_host import ServerAccess
from ozzie_server_ext.tasks.configuration import SECRETS_STREAM
from ozzie_server_ext.tasks.service import NewTurn
from ozzie_server_ext.vault.vault import Vault
from tests.fakes.oauth_server import OAuthServers
from tests.integration.plugins.test_sign_in import Person, wish
from tests.mcp_rig import classified, tool_host
from tests.scripted_gateway import ScriptedOzzie

pytestmark = pytest.mark.timeout(120)

WAIT_S = 60


@pytest.fixture
def servers() -> Iterator[OAuthServers]:
    with OAuthServers() as servers:
        yield servers


class Bench:
    """A gateway, and a server that its user trusts and has signed in to."""

    def __init__(self, ozzie: ScriptedOzzie, home: Home, sign_ins: SignIns) -> None:
        self.ozzie = ozzie
        self.home = home
        self.sign_ins = sign_ins

    async def outcome(self, text: str) -> EventBody:
        """What became of a call, in a session of its own."""
        self.ozzie.plays(Use("signed__echo", {"text": text}), [Say("Done.")])
        session = (await self.ozzie.sessions.open(text, title="n", channel="notebook")).session_id
        sent = await self.ozzie.submit(NewTurn(session, "Go on.", Origin(channel="notebook", sender_id="ana")))
        await self.ozzie.rests(sent.task_id, wait_s=WAIT_S)
        bodies = [event.body for event in await self.ozzie.log.read_stream(task_stream(sent.task_id))]
        return next(body for body in bodies if isinstance(body, ToolCallCompleted | ToolCallFailed))


@pytest.fixture
async def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, servers: OAuthServers) -> AsyncIterator[Bench]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "user-config"))
    project, home = tmp_path / "project", Home(tmp_path / "home")
    project.mkdir()
    home.create()
    how = McpText(transport="http", url=servers.url)
    grant = await signed_in(wish(servers), Person())
    async with tool_host(tmp_path) as host:
        sign_ins = SignIns(home, Vault(home.secrets, key_folder, SystemClock()), host)
        await sign_ins.replace("signed", "signed", grant, by="ana")
        values = Values(lambda name: None, project)
        proposal = await proposed(
            *(home, host, "signed", how, how, ServerAccess(), None, lambda _: values),
            signed=lambda remote: sign_ins.signed("signed", "signed", remote),
            now=datetime.now(UTC),
        )
        write_own(home, "signed", how)
        settle(home, "signed", classified(proposal.settled, {"echo": Effect.READS}))
        ozzie = await ScriptedOzzie.start(home, project)
        assert isinstance(ozzie, ScriptedOzzie)
        yield Bench(ozzie, home, sign_ins)
        await ozzie.stop()


async def listed_by(bench: Bench) -> dict[str, bool]:
    """Which servers a list has, and whether a person has signed in to each."""
    found, _ = await bench.ozzie.projects.own.server_tools.overview()
    return {each.server.name: each.signed_in for each in found}


async def test_a_token_is_renewed_during_turns_and_the_connection_stays(bench: Bench, servers: OAuthServers) -> None:
    before = servers.methods.count("initialize")
    first = await bench.outcome("one")
    servers.end_tokens()
    second = await bench.outcome("two")
    third = await bench.outcome("three")

    assert [body.data for body in (first, second, third) if isinstance(body, ToolCallCompleted)] == [
        "one",
        "two",
        "three",
    ]
    assert servers.methods.count("initialize") == before + 1
    changes = [event.body for event in await bench.ozzie.log.read_stream(SECRETS_STREAM)]
    assert [body.by for body in changes if isinstance(body, SecretChanged)] == ["ana", "Ozzie, renewing a sign-in"]


async def test_no_token_is_recorded_or_returned(bench: Bench, servers: OAuthServers) -> None:
    (token,) = servers.tokens

    outcome = await bench.outcome("What did I send?")

    assert isinstance(outcome, ToolCallCompleted)
    assert str(outcome.data).startswith("You sent Bearer ")
    assert token not in str(outcome.data)
    await bench.ozzie.stop()
    left = [path for path in bench.home.root.rglob("*") if path.is_file() and token.encode() in path.read_bytes()]
    assert left == []


async def test_a_call_without_a_valid_sign_in_says_what_to_do(bench: Bench, servers: OAuthServers) -> None:
    servers.end_tokens()
    servers.refreshing.clear()
    found = [await bench.outcome("one"), await bench.outcome("two")]
    await bench.sign_ins.forget("signed", "signed", by="ana")
    found.append(await bench.outcome("three"))

    words = [body.message for body in found if isinstance(body, ToolCallFailed)]
    assert words[0].endswith("(HTTP 401). Sign in again: ozzie mcp login signed")
    assert words[1].endswith("Your sign-in has expired. Sign in again: ozzie mcp login signed")
    assert words[2].endswith("It wants you to sign in, or a key (HTTP 401). Sign in: ozzie mcp login signed")


async def test_whoever_signs_out_ends_the_connection_and_the_list_tells_of_it(
    bench: Bench, servers: OAuthServers
) -> None:
    await bench.outcome("one")
    before = len(servers.methods)
    listed = await listed_by(bench)
    await bench.sign_ins.forget("signed", "signed", by="ana")

    outcome = await bench.outcome("two")

    assert (listed, await listed_by(bench)) == ({"signed": True}, {"signed": False})
    assert isinstance(outcome, ToolCallFailed)
    assert "tools/call" not in servers.methods[before:]
