"""Resources and prompts that attack: a real tool host and real servers (`tests/fakes/hostile_words.py`), in both eras
of the protocol. Each ends in words or in a bounded result, and a good server of the same host never notices."""

import re
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import pytest_asyncio

from ozzie_server_ext.config.home import Home
from ozzie_server_ext.plugins.connections import Values
from ozzie_server_ext.plugins.manifest import McpText
from ozzie_server_ext.plugins.settling import MAX_RECORDED, Proposal, proposed
from ozzie_server_ext.plugins.tool_host import ServerFailed, ToolHost
from ozzie_server_ext.protocol.tool_host import MAX_LISTED, Output, ServerAccess, Started, Wanted
from tests.fakes import hostile_words
from tests.integration.plugins.test_hostile_servers import STRANGE, expect_words, leaves_nothing
from tests.mcp_rig import expect_sandbox, tool_host
from tests.tiers import some

pytestmark = [pytest.mark.timeout(120), pytest.mark.asyncio(loop_scope="module")]

SCRIPT = Path(hostile_words.__file__)
PYTHON = (sys.executable, "-S", "-E")
OPENS_S = 20.0
WORKS_S = 20.0
SILENT_S = 0.3
GOOD = Output(texts=("ok",), structured={"parts": [{"is_text": True, "mime": "", "uri": "note://a"}]})


class Bench:
    def __init__(self, host: ToolHost) -> None:
        self.host = host

    async def outcome(self, behaviour: str, wants: Wanted, *, within_s: float = WORKS_S) -> Output:
        async with leaves_nothing(behaviour) as token:
            connection = await self.host.open(started(behaviour, token), within_s=OPENS_S)
            try:
                return await connection.call(
                    "note://a" if wants == "resource" else "good", {}, within_s=within_s, wants=wants
                )
            finally:
                connection.close()


def started(behaviour: str, token: str) -> Started:
    return Started(argv=(*PYTHON, str(SCRIPT), behaviour, token), access=ServerAccess(reads=(str(SCRIPT),)))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bench(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Bench]:
    expect_sandbox()
    async with tool_host(tmp_path_factory.mktemp("host")) as host:
        good = await host.open(started("good", "good"), within_s=OPENS_S)
        yield Bench(host)
        # The same connection, of the same process, is there to the end.
        assert await good.call("note://a", {}, within_s=WORKS_S, wants="resource") == GOOD


DIED = ("mcp.lost", r"It has ended\. It wrote: I am dying")
SILENT = ("mcp.timeout", r"It did not answer within 0\.3 s\.")
LONG_LINE = ("mcp.lost", r"It sent a message of more than 16 MiB\.")
TOO_LONG = ("mcp.too_long", r"It returned more than 8 MiB, which is too much for one result\.")
GARBAGE = "Its answer does not have the form of a result: "
FAILED: dict[tuple[str, Wanted], tuple[str, str]] = {
    ("dies", "resource"): DIED,
    ("dies", "prompt"): DIED,
    ("newer_dies", "resource"): DIED,
    ("is_silent", "resource"): SILENT,
    ("is_silent", "prompt"): SILENT,
    ("newer_is_silent", "prompt"): SILENT,
    ("sends_100_mb", "resource"): LONG_LINE,
    ("newer_sends_100_mb", "resource"): LONG_LINE,
    ("sends_9_mib", "resource"): TOO_LONG,
    ("sends_9_mib", "prompt"): TOO_LONG,
    ("sends_many", "resource"): ("mcp.too_long", r"It returned more than 1,000 parts\."),
    ("sends_many", "prompt"): ("mcp.too_long", r"It returned more than 1,000 messages\."),
    ("sends_nonsense", "resource"): ("mcp.garbage", rf"{GARBAGE}contents: Input should be a valid list\."),
    ("sends_nonsense", "prompt"): ("mcp.garbage", rf"{GARBAGE}messages\.0\.role: .*"),
    ("newer_sends_nonsense", "prompt"): ("mcp.garbage", rf"{GARBAGE}.*role: .*"),
    ("sends_numbers", "resource"): ("mcp.garbage", rf"{GARBAGE}contents\.0\..*"),
    ("sends_numbers", "prompt"): ("mcp.garbage", rf"{GARBAGE}messages\.0\..*"),
    ("sends_nothing", "resource"): SILENT,
    ("sends_nothing", "prompt"): SILENT,
    ("dies", "resources"): DIED,
    ("is_silent", "prompts"): SILENT,
    ("lists_nonsense", "resources"): ("mcp.garbage", rf"{GARBAGE}resources\.0: .*"),
    ("lists_nonsense", "prompts"): ("mcp.garbage", rf"{GARBAGE}prompts\.0\.name: .*"),
    ("is_silent", "completion"): SILENT,
    ("completes_nonsense", "completion"): ("mcp.garbage", rf"{GARBAGE}completion: .*"),
}
"""What a server does, the code of what comes of it, and what is said."""


@pytest.mark.parametrize(("behaviour", "wants"), some([*FAILED], 10))
async def test_what_comes_to_nothing_is_told_in_words(bench: Bench, behaviour: str, wants: Wanted) -> None:
    code, says = FAILED[behaviour, wants]

    with pytest.raises(ServerFailed) as failed:
        await bench.outcome(behaviour, wants, within_s=SILENT_S if (code, says) == SILENT else WORKS_S)

    expect_words(failed.value, code, says)


@pytest.mark.parametrize("behaviour", ["good", "newer_good"])
async def test_both_eras_answer(bench: Bench, behaviour: str) -> None:
    assert await bench.outcome(behaviour, "resource") == GOOD
    assert await bench.outcome(behaviour, "prompt") == Output(structured={"messages": [{"role": "user", "text": "ok"}]})


@pytest.mark.parametrize("behaviour", ["lists_forever", "newer_lists_forever", "lists_5000", "lists_2_mb"])
async def test_a_list_ends_here_if_it_does_not_end_there(bench: Bench, behaviour: str) -> None:
    found = (await bench.outcome(behaviour, "resources")).structured

    assert isinstance(found, dict)
    listed = found.get("resources", [])
    assert found["has_more"] is True
    assert isinstance(listed, list)
    assert len(listed) <= MAX_LISTED


async def test_completions_are_bounded(bench: Bench) -> None:
    found = await bench.outcome("completes_much", "completion")

    assert (len(found.texts), max(map(len, found.texts))) == (100, 2000)


async def test_what_is_no_base64_is_passed_on_and_left_out_later(bench: Bench) -> None:
    found = await bench.outcome("sends_no_base64", "resource")

    assert [file.data for file in found.files] == ["***"]


# --- before a person trusts it ----------------------------------------------------------------------------------------


async def proposal(bench: Bench, tmp_path: Path, behaviour: str, token: str) -> Proposal:
    server = started(behaviour, token)
    how = McpText(command=server.argv[0], args=server.argv[1:])
    values = Values(lambda name: None, tmp_path)
    home = Home(tmp_path / "home")
    access = ServerAccess(reads=(str(SCRIPT),))
    return await proposed(home, bench.host, "h", how, how, access, None, lambda _: values, now=datetime.now(UTC))


async def test_prompts_that_nobody_could_run_are_left_out_in_words(bench: Bench, tmp_path: Path) -> None:
    async with leaves_nothing("lists_strange") as token:
        found = await proposal(bench, tmp_path, "lists_strange", token)

    assert [*found.settled.prompts] == ["twice", "good"]
    assert len(found.unusable) == 7
    assert not any(STRANGE.search(why) for why in found.unusable)
    assert any(
        re.search(r"An argument of the prompt `go` has the name `a=b`, which none may have\.", why)
        for why in found.unusable
    )


@pytest.mark.parametrize("behaviour", ["lists_forever", "lists_5000"])
async def test_more_than_is_taken_is_said(bench: Bench, tmp_path: Path, behaviour: str) -> None:
    async with leaves_nothing(behaviour) as token:
        found = await proposal(bench, tmp_path, behaviour, token)

    assert found.settled.more_resources
    assert len(found.settled.resources) <= MAX_RECORDED
    assert any(why.startswith("It has more prompts than the first") for why in found.unusable)


async def test_a_server_that_can_not_list_them_may_still_be_trusted(bench: Bench, tmp_path: Path) -> None:
    async with leaves_nothing("lists_nonsense") as token:
        found = await proposal(bench, tmp_path, "lists_nonsense", token)

    assert [why.partition(". ")[0] for why in found.unusable] == [
        "Its prompts can't be listed",
        "Its resources can't be listed",
    ]
