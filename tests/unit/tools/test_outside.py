"""What a call brings in from outside: on its outcome, its artifacts and the files that it wrote."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from ozzie_server_ext.domain.artifacts import Artifact, ArtifactKind
from ozzie_server_ext.domain.content import CLEAN, Content, Label
from ozzie_server_ext.domain.events import (
    Event,
    ToolCallCancelled,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallUncertain,
)
from ozzie_server_ext.domain.ids import ArtifactId, task_stream
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.toolmeta import Made, SideEffect, Target, TargetKind, ToolError, ToolResult
from ozzie_server_ext.policy.decision import Reading
from ozzie_server_ext.policy.engine import FixedRulings
from ozzie_server_ext.tools.base import EffectTool, NoMarks, Plan, ToolContext, ToolFailed, ToolUncertain, Unsettled
from ozzie_server_ext.tools.outcome import LONGEST_LINK, MOST_LINKS
from tests.unit.policy.rig import rule
from tests.unit.tools.test_base import tool
from tests.unit.tools.test_broker import KNOWN, TASK, Bench, probe, types

WEB = Content.of(Label.WEB, ["docs.example.org"])
ALLOWED = FixedRulings((rule("allow", {"tools": ["test.probe"], "sources": ["*"]}),))


@pytest.fixture
def bench(context: ToolContext) -> Bench:
    return Bench(context)


async def events(bench: Bench) -> list[Event]:
    return list(await bench.log.read_stream(task_stream(TASK)))


def content_of(event: Event) -> Content:
    return Content(labels=event.labels, sources=event.sources)


class Marked:
    """A project of which one file was made from the web."""

    async def below(self, path: str = "") -> Content:
        return WEB if path in ("", "notes", "notes/a.md") else CLEAN


async def test_only_the_outcome_bears_what_the_call_brought_and_says_so(bench: Bench) -> None:
    await bench.call(probe(lambda context, text: ToolResult(ok=True, content=WEB, links=("https://a.example/",))))

    *before, completed = await events(bench)
    assert [content_of(event) for event in before] == [CLEAN] * 3
    assert content_of(completed) == WEB
    assert isinstance(completed.body, ToolCallCompleted)
    assert (completed.body.brought, completed.body.links) == (WEB.sources, ("https://a.example/",))


async def test_all_of_a_call_bears_what_it_is_made_from(bench: Bench) -> None:
    bench.context = msgspec.structs.replace(bench.context, reading=Reading(content=WEB))
    mail = Content.of(Label.MCP, ["mail"])

    await bench.call(probe(lambda context, text: ToolResult(ok=True, content=mail)))

    *before, completed = await events(bench)
    assert [content_of(event) for event in before] == [WEB] * 3
    assert content_of(completed) == WEB | mail
    assert isinstance(completed.body, ToolCallCompleted)
    assert completed.body.brought == mail.sources


async def test_an_artifact_bears_the_labels_of_the_call_that_made_it(bench: Bench) -> None:
    made = Made(name="page.md", kind="markdown", mime="text/markdown", content="x", told=True)

    await bench.call(probe(lambda context, text: ToolResult(ok=True, data={}, content=WEB, made=(made,))))

    (artifact,) = await bench.artifacts.list()
    assert artifact.content == WEB


@pytest.mark.parametrize(
    ("raised", "kind"), [(ToolFailed("404: do as I say"), ToolCallFailed), (Unsettled("?"), ToolCallUncertain)]
)
async def test_what_a_tool_that_brings_content_says_in_failing_is_from_outside_too(
    bench: Bench, raised: Exception, kind: type[Any]
) -> None:
    def fail(context: ToolContext, text: str) -> ToolResult:
        raise raised

    if kind is ToolCallUncertain:
        with pytest.raises(ToolUncertain):
            await bench.call(probe(fail, brings=Label.MCP))
    else:
        await bench.call(probe(fail, brings=Label.MCP))

    ended = (await events(bench))[-1]
    assert isinstance(ended.body, ToolCallFailed | ToolCallUncertain)
    assert type(ended.body) is kind
    assert content_of(ended) == Content.of(Label.MCP, ["test.probe"])
    assert ended.body.brought == ("mcp:test.probe",)


async def test_where_a_tool_tells_no_source_it_is_the_host_that_was_named(bench: Bench) -> None:
    async def get(context: ToolContext, *, url: str) -> ToolResult:
        """Get it."""
        return ToolResult(ok=True)

    get_url = tool(get, name="get", brings=Label.WEB, targets=(Target("url", TargetKind.URL),))
    await bench.call(get_url, name="get", arguments='{"url": "https://Example.ORG/a"}')

    assert content_of((await events(bench))[-1]) == Content.of(Label.WEB, ["example.org"])


async def test_what_never_began_brought_nothing(bench: Bench) -> None:
    recorded = await bench.call(probe(lambda context, text: ToolResult(ok=True), brings=Label.WEB), arguments="[")

    assert types(recorded) == ["requested", "failed"]
    assert [content_of(event) for event in await events(bench)] == [CLEAN] * 2


@pytest.mark.parametrize(("path", "content"), [("notes/a.md", WEB), ("./notes//a.md", WEB), ("b.md", CLEAN)])
async def test_who_names_a_file_that_was_made_from_outside_brings_that_in(
    bench: Bench, path: str, content: Content
) -> None:
    async def read(context: ToolContext, *, path: str) -> ToolResult:
        """Read it."""
        return ToolResult(ok=True)

    bench.context = msgspec.structs.replace(bench.context, marks=Marked())
    reads = tool(read, name="read", targets=(Target("path", TargetKind.PATH),))
    await bench.call(reads, name="read", arguments=f'{{"path": "{path}"}}')

    assert content_of((await events(bench))[-1]) == content


# --- every way out of a call ---------------------------------------------------------------------------------

QUOTED = "do as I say"
"""What stands in the marked file, and in whatever a tool says of it."""


async def _completes() -> ToolResult:
    return ToolResult(ok=True, data=QUOTED)


async def _reports_failure() -> ToolResult:
    return ToolResult(ok=False, error=ToolError(code="x", message=QUOTED))


async def _fails() -> ToolResult:
    raise ToolFailed(QUOTED)


async def _does_not_know() -> ToolResult:
    raise Unsettled(QUOTED)


async def _breaks() -> ToolResult:
    raise ValueError(QUOTED)


async def _never_ends() -> ToolResult:
    await asyncio.Event().wait()
    raise AssertionError("it is stopped")


WAYS: dict[str, tuple[str, Callable[[], Awaitable[ToolResult]]]] = {
    "it completes": ("run", _completes),
    "it reports a failure": ("run", _reports_failure),
    "it fails": ("run", _fails),
    "it does not know": ("run", _does_not_know),
    "it breaks": ("run", _breaks),
    "it takes too long": ("run", _never_ends),
    "it is stopped": ("run", _never_ends),
    "the plan fails": ("plan", _fails),
    "the plan breaks": ("plan", _breaks),
    "the plan finds nothing to do": ("plan", _completes),
}
CANCELLED = ("it is stopped",)


@pytest.mark.parametrize("reads", ["a marked file", "a labelled artifact", "what it says it read"])
@pytest.mark.parametrize("way", WAYS)
async def test_every_way_out_of_a_call_bears_what_the_call_has_read(bench: Bench, way: str, reads: str) -> None:
    stage, ends = WAYS[way]
    here = asyncio.Event()

    async def read(context: ToolContext) -> ToolResult:
        match reads:
            case "a labelled artifact":
                await context.artifacts.open(ArtifactId("a"))
            case "what it says it read":
                context.provenance.add(WEB)
            case _:
                pass
        here.set()
        return await ends()

    async def plan(context: ToolContext, *, path: str) -> Plan:
        """Read it."""
        nothing = await read(context) if stage == "plan" else None
        return Plan(args={"path": path}, nothing=nothing)

    async def run(context: ToolContext, plan: Plan) -> ToolResult:
        return await read(context)

    async def happened(context: ToolContext, effect: JsonObject) -> bool | None:
        return None

    marks = Marked() if reads == "a marked file" else NoMarks()
    bench.context = msgspec.structs.replace(bench.context, marks=marks, artifacts=OneArtifact())
    meta = tool(
        tool_id="test.probe",
        name="greet",
        timeout_s=0.05 if way == "it takes too long" else 30.0,
        side_effect=SideEffect.REVERSIBLE if way == "it does not know" else SideEffect.NONE,
    ).meta
    meta = replace(meta, name="probe", targets=(Target("path", TargetKind.PATH),))
    bench.rulings = FixedRulings((rule("allow", {"tools": ["test.probe"]}),))
    made = EffectTool(plan, run, meta, happened=happened)
    calling = asyncio.create_task(bench.call(made, arguments='{"path": "notes/a.md"}'))
    await here.wait()
    if way in CANCELLED:
        calling.cancel()
    await asyncio.gather(calling, return_exceptions=True)

    requested, *_, ended = await events(bench)
    assert isinstance(ended.body, ToolCallCompleted | ToolCallFailed | ToolCallUncertain | ToolCallCancelled)
    assert content_of(ended) == WEB
    assert content_of(requested) == CLEAN


class OneArtifact:
    """A session with one artifact, which was made from the web."""

    async def open(self, artifact_id: ArtifactId) -> tuple[Artifact, bytes]:
        made = Artifact(
            artifact_id=artifact_id,
            session_id=None,
            task_id=None,
            ts=datetime(2026, 1, 1, tzinfo=UTC),
            kind="markdown",
            name="page.md",
            version=1,
            storage_ref="",
            mime="text/markdown",
            size=len(QUOTED),
            hash="",
            call_id=None,
            meta={},
            labels=WEB.labels,
            sources=WEB.sources,
            superseded_by=None,
            superseded_at=None,
            erased=None,
            position=1,
        )
        return made, QUOTED.encode()

    async def under(self, beginning: str, kind: ArtifactKind) -> Sequence[Artifact]:
        return ()


async def test_a_stop_while_the_marks_are_looked_up_does_not_lose_how_the_call_ended(bench: Bench) -> None:
    looking, go_on = asyncio.Event(), asyncio.Event()

    class Slow:
        async def below(self, path: str = "") -> Content:
            looking.set()
            await go_on.wait()
            return WEB

    async def read(context: ToolContext, *, path: str) -> ToolResult:
        """Read it."""
        return ToolResult(ok=True)

    bench.context = msgspec.structs.replace(bench.context, marks=Slow())
    reads = tool(read, name="read", targets=(Target("path", TargetKind.PATH),))
    calling = asyncio.create_task(bench.call(reads, name="read", arguments='{"path": "a.md"}'))
    await looking.wait()
    calling.cancel()
    go_on.set()

    with pytest.raises(asyncio.CancelledError):
        await calling
    ended = (await events(bench))[-1]
    assert isinstance(ended.body, ToolCallCompleted)
    assert content_of(ended) == WEB


async def test_a_file_bears_the_labels_of_the_call_that_wrote_it_and_is_marked_so(bench: Bench) -> None:
    def write(context: ToolContext, text: str) -> ToolResult:
        return ToolResult(ok=True, wrote=("/p/notes/a.md",))

    bench.context = msgspec.structs.replace(bench.context, reading=Reading(content=WEB))
    bench.rulings = ALLOWED
    await bench.call(probe(write, side_effect=SideEffect.REVERSIBLE))
    (mark,) = await bench.log.rows("marks")

    assert (mark["path"], mark["labels"], mark["sources"]) == ("/p/notes/a.md", '["web"]', '["web:docs.example.org"]')


async def test_a_file_is_marked_before_it_is_written_whatever_becomes_of_that(bench: Bench) -> None:
    """A gateway may end in the middle, and others may read the file before the call has ended."""
    seen: list[str] = []

    async def plan(context: ToolContext) -> Plan:
        """Write it."""
        return Plan(args={}, effect={}, writes=("/p/notes/a.md",))

    async def run(context: ToolContext, plan: Plan) -> ToolResult:
        seen.extend(str(row["path"]) for row in await bench.log.rows("marks"))
        raise ToolFailed("It broke in the middle.")

    async def happened(context: ToolContext, effect: JsonObject) -> bool | None:
        return None

    bench.context = msgspec.structs.replace(bench.context, reading=Reading(content=WEB))
    bench.rulings = ALLOWED
    meta = tool(tool_id="test.probe", name="greet", side_effect=SideEffect.REVERSIBLE).meta
    await bench.call(EffectTool(plan, run, replace(meta, name="probe"), happened=happened))

    assert seen == ["/p/notes/a.md"]
    assert len(await bench.log.rows("marks")) == 1


async def test_links_with_a_secret_too_long_ones_and_too_many_are_left_out(bench: Bench) -> None:
    links = (f"https://a.example/?key={KNOWN}", "https://a.example/" + "a" * LONGEST_LINK)
    links += tuple(f"https://a.example/{number}" for number in range(MOST_LINKS))

    await bench.call(probe(lambda context, text: ToolResult(ok=True, links=links)))

    completed = (await events(bench))[-1].body
    assert isinstance(completed, ToolCallCompleted)
    assert completed.links == links[2:MOST_LINKS]
