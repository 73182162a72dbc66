"""What a tool declares of itself, and the shapes of a call and its result."""

from dataclasses import dataclass, field
from enum import StrEnum

from ozzie_server_ext.domain.artifacts import ArtifactKind
from ozzie_server_ext.domain.content import CLEAN, Content, Label
from ozzie_server_ext.domain.json import Json, JsonObject

SKILLS = "delegate."
"""How the ids of skills as tools begin."""
SKILL_PREFIX = "skill_"
"""How a model reads their names, so that none takes a tool's; people read the skill's."""


class SideEffect(StrEnum):
    NONE = "none"
    REVERSIBLE = "reversible"
    IRREVERSIBLE = "irreversible"


class RiskLevel(StrEnum):
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class Idempotency(StrEnum):
    SUPPORTED = "supported"
    REQUIRED = "required"
    NOT_SUPPORTED = "not_supported"


class Category(StrEnum):
    """What a tool does that is never silently allowed, whatever its side effect says."""

    EXTERNAL_SEND = "external_send"
    PAYMENT = "payment"
    DELETE = "delete"
    CONFIG_CHANGE = "config_change"
    HOST_COMMAND = "host_command"
    LIVE_KERNEL = "live_kernel"
    CODE_CELL = "code_cell"


class TargetKind(StrEnum):
    """What an argument names: a file or folder below the project, an address, or a command as its list of words."""

    PATH = "path"
    URL = "url"
    COMMAND = "command"


@dataclass(frozen=True, slots=True)
class Target:
    """An argument that says what a call acts on: rules are matched with it. A list of texts names several, but for a
    command. What a path names counts as read, unless the tool itself notes what it reads (`is_read`)."""

    argument: str
    kind: TargetKind
    is_read: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolMeta:
    """Mandatory metadata of a tool. `max_inline_chars` bounds what goes back to the model as text; `targets` are all
     arguments that name what a call acts on; `version` is that of the contract, given by who makes the tool.

     Of content from outside: whatever a call of a tool that `brings` a label says, bears it; `is_outbound` says
     that arguments leave this machine, so that even a call that changes nothing can carry content away; `keeps_labels`
     that what it changes lies in Ozzie's own store, where it bears the labels of what it is made from. `told_by` is who
     wrote its name, its description and its schema, where that was somebody outside: whoever is offered it reads
     those. One that is `for_skills` is called by their steps, and offered to no model. A call of one that
     `delegates_to` a skill is handed over to that.

     By `tags`, words for what it is about, and `examples`, of what people ask it for, it is found among many tools
    ; no model is shown them."""

    tool_id: str
    name: str
    side_effect: SideEffect
    risk_level: RiskLevel
    timeout_s: float
    idempotency: Idempotency
    categories: frozenset[Category] = frozenset()
    targets: tuple[Target, ...] = ()
    further_names: tuple[str, ...] = ()
    version: str = ""
    max_inline_chars: int = 4000
    brings: Label | None = None
    is_outbound: bool = False
    keeps_labels: bool = False
    told_by: Content = CLEAN
    tags: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    for_skills: bool = False
    delegates_to: str = ""

    @property
    def may_be_repeated(self) -> bool:
        """Whether a call that was begun and has no outcome may be made again unasked: what has no effect
        may. Of another one, the tool is asked first whether it was done (`Tool.happened`)."""
        return self.side_effect is SideEffect.NONE

    @property
    def takes_key(self) -> bool:
        """Whether a call that is made twice with the same key has its effect once."""
        return self.idempotency is not Idempotency.NOT_SUPPORTED


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """What a model is told of a tool: `name` is the provider-safe one, `parameters` a JSON Schema object."""

    name: str
    description: str
    parameters: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolError:
    """Why a call did not give a result. `message` is a sentence that the model and the user both read."""

    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What a call keeps among the artifacts, under a name: the next version of it, where there is one. Texts, and bytes
    that are UTF-8, are kept without secrets. With `told`, the result, which is an object then, has name and id in its
    list `kept`: no tool knows an id beforehand. With `shown`, a text has its beginning and end there too, so many
    characters of it: they are cut from what is left without secrets, for half of a secret is not found."""

    name: str
    kind: ArtifactKind
    mime: str
    content: str | bytes
    told: bool = False
    shown: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """`summary` tells people the result in at most six words ("64 lines", "12 kB"). `made` is kept with the
    outcome, in one append, and it is all that the call changes: where it can't be kept, nothing was done. `content`
    is what of it came from outside. `links` are addresses that stand in what came from the web, as they stand there:
    who asks for one of them makes nothing up (ADR 31). `wrote` are the files, with their whole paths, that hold by now
    what the call was made from."""

    ok: bool
    data: Json = None
    error: ToolError | None = None
    summary: str = ""
    artifact_refs: tuple[str, ...] = field(default=())
    made: tuple[Made, ...] = ()
    content: Content = CLEAN
    links: tuple[str, ...] = ()
    wrote: tuple[str, ...] = ()
