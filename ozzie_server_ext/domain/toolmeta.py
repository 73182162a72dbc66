"""A tool's metadata, and the shapes of its spec and its result."""

from dataclasses import dataclass, field
from enum import StrEnum

from ozzie_server_ext.domain.artifacts import ArtifactKind
from ozzie_server_ext.domain.content import CLEAN, Content, Label
from ozzie_server_ext.domain.json import Json, JsonObject

SKILLS = "delegate."
"""The prefix of the ids of skills as tools."""
SKILL_PREFIX = "skill_"
"""The prefix of their names for models, so that no skill has a tool's name. People see the skill's own name."""


SERVERS = "mcp."
"""The prefix of the ids of MCP servers' tools."""

PROMPT_GET = ".prompt.get"
"""The end of the ids of the tools that get their prompts."""

PLUGINS = "plugin."
"""The prefix of the ids of plugins' tools."""


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
    """Effects that ask first whatever the tool's side effect, unless a rule names the tool; some even then
    (`policy.engine`)."""

    EXTERNAL_SEND = "external_send"
    PAYMENT = "payment"
    DELETE = "delete"
    CONFIG_CHANGE = "config_change"
    HOST_COMMAND = "host_command"
    LIVE_KERNEL = "live_kernel"
    CODE_CELL = "code_cell"


class Capability(StrEnum):
    """What a tool needs of the machine or the server around the gateway."""

    SANDBOX = "sandbox.run"
    HOST = "host.run"
    INTERNET = "internet.reach"
    KERNELS = "jupyter.kernels"


class TargetKind(StrEnum):
    """What an argument names: a file or folder below the project, an address of the web, a command as a list of words;
    an address of mail, an account, an amount of money, a person, a calendar or a channel by name, or an object of a
    service by its id or title."""

    PATH = "path"
    URL = "url"
    COMMAND = "command"
    RECIPIENT = "recipient"
    ACCOUNT = "account"
    AMOUNT = "amount"
    PERSON = "person"
    CALENDAR = "calendar"
    CHANNEL = "channel"
    OBJECT = "object"


@dataclass(frozen=True, slots=True, order=True)
class Said:
    """Something that a person named in their own words, in the normal form of its kind (`policy.words`)."""

    kind: TargetKind
    value: str


@dataclass(frozen=True, slots=True)
class Target:
    """An argument that names what a call acts on; rules match it. A list of texts names several targets, except of a
    command. `is_read`: the named path counts as read; false if the tool itself records what it reads. `currency` of an
    amount: a code of ISO 4217, or the argument that has it."""

    argument: str
    kind: TargetKind
    is_read: bool = True
    currency: str = ""


@dataclass(frozen=True, slots=True)
class Reached:
    """Whom or what a call reaches without naming it in an argument, as whoever gets the answer to a mail: `text` as the
    service has it. With `of`, an id in an argument, it is not reached, but another name of what has this id: its title,
    who sent it, who takes part."""

    kind: TargetKind
    text: str
    of: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolMeta:
    """Mandatory metadata of a tool. `max_inline_chars` limits the text that goes back to the model; `targets` are all
    arguments that name what a call acts on; `version` is the contract's, set by the tool's author.

    - `brings`: the label of everything that a call returns, failures included.
    - `is_outbound`: arguments leave this machine, so even a call without effects can leak content.
    - `keeps_labels`: its changes are in Ozzie's own store, where they keep the labels of what they are made from.
    - `told_by`: the provenance of its name, description and schema, which the model reads.
    - `tags` and `examples`: words and requests by which it is found among many tools; never shown to a model.
    - `requires`: what must be there, or a call fails with what is missing.
    - `for_skills`: only steps of skills call it; no model is offered it. `for_clients`: only MCP clients do.
    - `delegates_to`: the skill that its calls are delegated to.
    - `reaches`: of one call, as its plan found; rules and cards have it beside what the arguments name.
    - `own_data`: it changes only data of the user's that nobody else sees, unless it reaches somebody.
    - `overview`: it tells little: names, titles and times by which a thing is found, what is public, or what follows
      from its arguments.
    - `carries`: arguments that name what goes along with the call: a mail that is forwarded, an attachment.
    - `is_unclassified`: nobody has said what it does. It is listed, never offered and never run.
    - `typed`: arguments that come from a person's message. If they typed them, they carry nothing away.
    - `for_messages`: only a message of the user's calls it, before its model is asked; no model is offered it, and none
      can call it.
    """

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
    for_clients: bool = False
    delegates_to: str = ""
    requires: frozenset[Capability] = frozenset()
    reaches: tuple[Reached, ...] = ()
    own_data: bool = False
    carries: tuple[str, ...] = ()
    overview: bool = False
    is_unclassified: bool = False
    typed: tuple[str, ...] = ()
    for_messages: bool = False

    @property
    def permissions(self) -> tuple[str, ...]:
        """What a call must be allowed to do, sorted; the rules decide about each call."""
        effect = "read" if self.side_effect is SideEffect.NONE else "write"
        found = {f"project.{effect}" for target in self.targets if target.kind is TargetKind.PATH}
        found |= {category.value for category in self.categories}
        return tuple(sorted(found | ({"internet.send"} if self.is_outbound else set())))

    @property
    def is_for_models(self) -> bool:
        """Whether models may be offered it."""
        return not (self.for_skills or self.for_clients or self.for_messages)

    @property
    def has_amounts(self) -> bool:
        """Whether an argument of it names an amount of money."""
        return any(target.kind is TargetKind.AMOUNT for target in self.targets)

    @property
    def may_be_repeated(self) -> bool:
        """Whether a started call without an outcome may be made again: yes if it has no effect. Otherwise
        `Tool.happened` is called first."""
        return self.side_effect is SideEffect.NONE

    @property
    def takes_key(self) -> bool:
        """Whether a call made twice with the same key takes effect once."""
        return self.idempotency is not Idempotency.NOT_SUPPORTED


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """A tool as a model sees it: `name` is safe for providers, `parameters` a JSON Schema object."""

    name: str
    description: str
    parameters: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolError:
    """Why a call has no result. `message` is a sentence for the model and the user."""

    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """An artifact that a call makes: the next version of that name, if it exists. Secrets are removed from texts and
    from bytes that are UTF-8. `told`: add name and id to the list `kept` of the result, which must be an object; no
    tool knows the id beforehand. `shown`: add that many characters of the text's beginning and end there, too, cut
    after secrets are removed: half of a secret would not be found."""

    name: str
    kind: ArtifactKind
    mime: str
    content: str | bytes
    told: bool = False
    shown: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """`summary` is for people, at most six words ("64 lines", "12 kB"). `made` is stored together with the outcome, in
    one append, and is all that the call changes: if it can't be stored, nothing was done. `content` is the result's
    provenance. `links` are the addresses in content from the web, verbatim: a model that requests one of them did not
    invent it (ADR 31). `wrote` are the absolute paths of files that now contain what the call was made from."""

    ok: bool
    data: Json = None
    error: ToolError | None = None
    summary: str = ""
    artifact_refs: tuple[str, ...] = field(default=())
    made: tuple[Made, ...] = ()
    content: Content = CLEAN
    links: tuple[str, ...] = ()
    wrote: tuple[str, ...] = ()
