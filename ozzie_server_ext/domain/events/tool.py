"""Facts about the calls of tools, and which tools a model was offered."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from ozzie_server_ext.domain.events.fact import Fact
from ozzie_server_ext.domain.ids import ApprovalId, ArtifactId, BlobRef, CallId
from ozzie_server_ext.domain.json import Json, JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallRequested(Fact):
    """The model asked for a call. `use_id` is its own id for that, unique within the round only; `call_id` is ours."""

    type: ClassVar[str] = "tool.call.requested"
    call_id: CallId
    use_id: str
    tool_id: str
    name: str
    version: str
    args: JsonObject
    round: int
    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallDecided(Fact):
    """What the rules say to a call: the decision, the rule that made it and where that stands, its reason in words, and
    the version of all rules."""

    type: ClassVar[str] = "tool.call.decided"
    call_id: CallId
    decision: Literal["ALLOW", "CHECK", "ASK", "DENY"]
    rule: str
    reason: str
    place: str = ""
    policy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallStarted(Fact):
    """The intent: durable before the tool runs (DESIGN §2.5). `effect` is what it is about to do, and to what, by which
    the tool finds out after a crash whether it did; null where nothing tells. `before` is the content it replaces,
    `approval_id` the yes by which it runs, where it took one. `writes` are the files, with their whole paths, that it
    is about to write: they bear the labels of this fact, whatever becomes of the call."""

    type: ClassVar[str] = "tool.call.started"
    call_id: CallId
    effect: JsonObject | None = None
    before: ArtifactId | None = None
    approval_id: ApprovalId | None = None
    writes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallCompleted(Fact):
    """The outcome. `data` is the result, or its beginning and end where it is large: then the whole is the first of
    `artifacts`. `summary` is for people, in a few words. `blob` held a large result before there were artifacts.
    `brought` are the sources outside that this result itself is from, `links` addresses that stand in what came from
    the web, `wrote` the files, with their whole paths, that bear the labels of this fact from now on."""

    type: ClassVar[str] = "tool.call.completed"
    call_id: CallId
    ok: bool
    data: Json
    summary: str
    duration_ms: float
    blob: BlobRef | None = None
    artifacts: tuple[ArtifactId, ...] = ()
    brought: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    wrote: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallFailed(Fact):
    """The call gave no result. `message` is what the model and the user read; `brought` are the sources outside that it
    may be from."""

    type: ClassVar[str] = "tool.call.failed"
    call_id: CallId
    code: str
    message: str
    duration_ms: float
    brought: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallCancelled(Fact):
    """The call was stopped before it gave a result."""

    type: ClassVar[str] = "tool.call.cancelled"
    call_id: CallId
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallUncertain(Fact):
    """The call was begun, and nobody knows whether it did what it was for. It is not made again by itself, unless
    `again` says so: then another call is made in its place, with the same key, and nobody is asked. Where its task ends
    before that, nobody knows still. `brought`: as of a failure."""

    type: ClassVar[str] = "tool.call.uncertain"
    call_id: CallId
    reason: str
    again: bool = False
    brought: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallResolved(Fact):
    """A person says of an uncertain call that it was done, or that it was not and is to be made again; or they leave it
    as it is."""

    type: ClassVar[str] = "tool.call.resolved"
    call_id: CallId
    outcome: Literal["done", "again", "left"]
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InjectedTool:
    tool_id: str
    name: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolsetInjected(Fact):
    """Which tools, in which versions, the model was offered (TL-6)."""

    type: ClassVar[str] = "toolset.injected"
    tools: tuple[InjectedTool, ...]
