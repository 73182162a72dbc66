"""The settings tree: keys of the configuration, with bounds and defaults."""

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, StrictBool, field_validator, model_validator

from ozzie_server_ext.config.validation import like
from ozzie_server_ext.domain.approvals import REQUEST_EXPIRES_S
from ozzie_server_ext.domain.budget import NANO_USD_PER_USD, OnBreach, TokenPrices


def is_address(text: str) -> bool:
    """Return whether `text` is an http or https address with a host."""
    # First, because urlsplit silently drops line breaks and tabs.
    if " " in text or not text.isprintable():
        return False
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


ALWAYS_OFFERED = (
    *("calculator", "list_files", "read_file", "search", "write_file", "edit_file"),
    *("shell", "apply_changes", "list_kernels"),
    *("read_notebook", "insert_cell", "edit_cell", "undo_cell_edit"),
    *("read_artifact", "read_note", "write_note", "ask_user"),
)
"""Tools that every task on files needs, that other tools' results suggest, and that the shipped notebooks show."""


class _Settings(BaseModel):
    """`former_keys`: old names of keys, which files may still use; if both are given, the new one counts."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    former_keys: ClassVar[Mapping[str, str]] = {}

    @model_validator(mode="before")
    @classmethod
    def _with_present_keys(cls, data: Any) -> Any:
        if not cls.former_keys or not isinstance(data, dict):
            return data
        given: dict[str, Any] = dict(data)
        former = {new: given.pop(old) for old, new in cls.former_keys.items() if old in given}
        return former | given


class TasksSettings(_Settings):
    """`max_running`: concurrent turns of all sessions; a session runs one at a time."""

    max_running: int = Field(default=64, ge=1, le=1000)


class SkillsSettings(_Settings):
    """`dirs`: the user's own skill folders besides `$OZZIE_PATH/skills`. `max_parallel_steps`: concurrent steps of all
    runs. An agent delegates to skills at most `max_delegations` times in a task, and tasks at most `max_depth` levels
    deep."""

    dirs: tuple[Annotated[str, Field(min_length=1, max_length=4096)], ...] = ()
    max_parallel_steps: int = Field(default=16, ge=1, le=1000)
    max_delegations: int = Field(default=10, ge=0, le=1000)
    max_depth: int = Field(default=4, ge=0, le=16)


class WatchdogSettings(_Settings):
    """`after_s`: report a task after this long without progress; None disables it. After as long again, take the
    `action`: nothing more (`remind`), use the cheaper model at its next call (`degrade`), or end it (`cancel`)."""

    after_s: float | None = Field(default=600.0, ge=10, le=7 * 24 * 3600)
    action: Literal["remind", "degrade", "cancel"] = "remind"


TEMPLATE = re.compile(r"\$\{\{\s*\.Env\.(?P<long>[A-Za-z_]\w*)\s*\}\}|\$\{(?P<short>[A-Za-z_]\w*)\}")
"""An environment variable in a value: `${{ .Env.VAR }}` or `${VAR}`."""

_LETTERS = "may hold the letters a to z and A to Z, digits"
Name = Annotated[
    str,
    like(
        r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}",
        f"{_LETTERS}, '.', '_' and '-' only, at most 64, and begins with a letter or digit",
    ),
]


KeyName = Annotated[
    str, like(r"[A-Za-z_][A-Za-z0-9_]{0,127}", f"{_LETTERS} and '_' only, at most 128, and begins with no digit")
]


Scope = Annotated[
    str,
    like(r"[\x21\x23-\x5B\x5D-\x7E]+", "needs one ASCII character or more, no blanks, no quotation mark or backslash"),
]
"""RFC 6749 §3.3."""
OFFLINE = "offline"
"""The built-in script. It is not a language model, so it never replaces one."""
FALLBACK = "fallback"
CHEAP = "cheap"
"""The alias to continue with when a budget has no room for the chosen model."""
SUMMARIZER = "summarizer"
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


class GatewaySettings(_Settings):
    host: str = "127.0.0.1"
    port: int = Field(default=18420, ge=0, le=65535)

    @property
    def takes_any_port(self) -> bool:
        """Whether another free port will do if this one is taken: only a port that a person chose is binding."""
        return self.port == 0 or "port" not in self.model_fields_set

    def other_port_notice(self, used: int) -> str:
        """Return a notice if the gateway listens on another port than this one, else ""."""
        if used == self.port or self.port == 0:
            return ""
        return f"Port {self.port} is taken, so this gateway listens on port {used}."


class ApiKeyAuth(_Settings):
    """The name of the environment variable or secret that holds a key; never the key itself.

    The short form `{"api_key": "${VAR}"}` means the same as `env`. Either name is looked up in the vault first, then in
    the environment; exactly one is given.
    """

    type: Literal["api_key"] = "api_key"
    env: KeyName | None = None
    vault: KeyName | None = None
    header: str | None = None

    @property
    def name(self) -> str:
        return self.env or self.vault or ""

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: object) -> object:
        if not isinstance(value, dict) or "api_key" not in value:
            return value
        for other in ("env", "vault"):
            if other in value:
                raise ValueError(f'give "{other}" or "api_key", not both')
        named = TEMPLATE.fullmatch(str(value["api_key"]))
        if named is None:
            raise ValueError(
                '"api_key" names an environment variable, as in "${OPENAI_API_KEY}"; a key itself is never kept here'
            )
        rest = {key: item for key, item in value.items() if key != "api_key"}
        return {**rest, "env": named["long"] or named["short"]}

    @model_validator(mode="after")
    def _has_one_name(self) -> "ApiKeyAuth":
        if (self.env is None) == (self.vault is None):
            raise ValueError('give the key\'s name, as "env" or as "vault"')
        return self


class ClaudeCodeAuth(_Settings):
    type: Literal["claude_code_token"]


class OAuth2Auth(_Settings):
    type: Literal["oauth2"]
    client_id_env: KeyName
    client_secret_env: KeyName
    token_url: str
    scopes: tuple[Scope, ...] = ()

    @field_validator("token_url")
    @classmethod
    def _is_safe(cls, value: str) -> str:
        """Reject insecure addresses without repeating them: the client's secret is sent there."""
        parts = urlsplit(value) if is_address(value) else None
        if parts is None or (parts.scheme.lower() != "https" and parts.hostname not in _LOOPBACK):
            raise ValueError("an address begins with https://, or with http:// on this machine")
        return value


class NoAuth(_Settings):
    type: Literal["none"]


Auth = Annotated[ApiKeyAuth | ClaudeCodeAuth | OAuth2Auth | NoAuth, Field(discriminator="type")]


class LimitSettings(_Settings):
    """Limits of a provider for all turns together, in any 60 s, and at once."""

    requests_per_minute: int | None = Field(default=None, ge=1)
    tokens_per_minute: int | None = Field(default=None, ge=1)
    parallel: int | None = Field(default=None, ge=1)


class RetrySettings(_Settings):
    """Retries of failed calls. `max_attempts` includes the first call."""

    max_attempts: int = Field(default=3, ge=1, le=10)
    backoff_ms: int = Field(default=500, ge=0, le=60_000)


Price = Annotated[Decimal, Field(ge=0, le=1_000_000, decimal_places=9)]
"""USD per million tokens, with the precision of 1e-9 USD in which money is stored."""
Usd = Annotated[Decimal, Field(gt=0, le=1_000_000, decimal_places=9)]
MOST_AMOUNT = 1_000_000_000_000
"""Largest token budget: sums must still fit into a database column, whatever a provider counts."""


class CapabilitySettings(_Settings):
    """The user's facts about a model, which override litellm's table. `context` and `max_output` are in tokens."""

    context: int | None = Field(default=None, ge=1)
    max_output: int | None = Field(default=None, ge=1)
    tools: bool | None = None
    parallel_tools: bool | None = None
    images: bool | None = None
    structured: bool | None = None
    reasoning: bool | None = None
    price_in: Price | None = None
    price_out: Price | None = None

    @property
    def prices(self) -> TokenPrices | None:
        if self.price_in is None or self.price_out is None:
            return None
        return TokenPrices(read=int(self.price_in * NANO_USD_PER_USD), written=int(self.price_out * NANO_USD_PER_USD))

    @model_validator(mode="after")
    def _has_both_prices(self) -> "CapabilitySettings":
        if (self.price_in is None) != (self.price_out is None):
            raise ValueError('give "price_in" and "price_out" together; one alone gives no cost')
        return self


class ProviderSettings(_Settings):
    """One model at one provider, under a name of the user's choice. Tags are free; only selectors use them.

    `socket` is where an NDJSON worker listens. `timeout_s`: how long the provider may stay silent, before the first
    piece of an answer and between two.
    """

    driver: Literal[
        "anthropic", "openai", "gemini", "ollama", "deepseek", "vllm", "openai-compatible", "litellm", "worker"
    ]
    model: str
    base_url: str | None = None
    socket: str | None = None
    auth: Auth = NoAuth(type="none")
    max_tokens: int | None = Field(default=None, ge=1)
    timeout_s: float = Field(default=120, gt=0, le=3600)
    limits: LimitSettings = LimitSettings()
    tags: dict[str, str | int | float | bool] = {}
    capabilities: CapabilitySettings = CapabilitySettings()

    @model_validator(mode="before")
    @classmethod
    def _short_auth(cls, value: object) -> object:
        """Accept `{"api_key": …}` without a type."""
        if isinstance(value, dict) and isinstance(auth := value.get("auth"), dict) and "type" not in auth:
            return {**value, "auth": {"type": "api_key", **auth}}
        return value

    @field_validator("base_url")
    @classmethod
    def _is_address(cls, value: str | None) -> str | None:
        if value is not None and not is_address(value):
            raise ValueError("an address begins with http:// or https:// and has no spaces")
        return value

    @field_validator("socket")
    @classmethod
    def _is_path(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("/", "~/")):
            raise ValueError("the path of a socket begins with / or ~/")
        return value

    @model_validator(mode="after")
    def _fits_together(self) -> "ProviderSettings":
        is_worker = self.driver == "worker"
        if self.socket is not None and not is_worker:
            raise ValueError(f'"socket" is for the driver "worker"; {self.driver} has a "base_url"')
        if is_worker and self.base_url is not None:
            raise ValueError('a worker is reached by its "socket", not by a "base_url"')
        if is_worker and not isinstance(self.auth, NoAuth):
            raise ValueError("a worker takes no key; anybody with access to its socket may use it")
        if is_worker and self.capabilities.tools:
            raise ValueError("a worker gets one text and no tools, whatever its model could do")
        return self


class ModelsSettings(_Settings):
    """Providers by name, aliases for one provider or a fallback chain of them, and the default.

    The alias `fallback` ends every other alias's chain, and the default's. `upgrade` names, for an alias or a provider,
    the stronger one to use when it is not up to a request. `workers`: maximum number of processes that call models.
    """

    default: str | None = None
    workers: int | None = Field(default=None, ge=1, le=16)
    providers: dict[Name, ProviderSettings] = {}
    aliases: dict[Name, str | Annotated[tuple[str, ...], Field(min_length=1)]] = {}
    upgrade: dict[Name, str] = {}
    retry: RetrySettings = RetrySettings()
    cool_down_s: float = Field(default=30, ge=0, le=3600)

    def targets(self, alias: str) -> tuple[str, ...]:
        """Return an alias's targets as written; none for any other name."""
        found = self.aliases.get(alias, ())
        return (found,) if isinstance(found, str) else found

    def providers_of(self, name: str) -> tuple[str, ...]:
        """Return the providers and `offline` that a name stands for, in order, each once; none for an unknown name."""
        if name in self.aliases:
            return tuple(dict.fromkeys(each for target in self.targets(name) for each in self.providers_of(target)))
        return (name,) if name in self.providers or name == OFFLINE else ()

    @model_validator(mode="after")
    def _names_resolve(self) -> "ModelsSettings":
        if OFFLINE in self.providers or OFFLINE in self.aliases:
            raise ValueError(f'"{OFFLINE}" is the name of the built-in driver; rename the provider or alias')
        known = {*self.providers, *self.aliases, OFFLINE}
        for alias in self.aliases:
            if alias in self.providers:
                raise ValueError(f'"{alias}" is both an alias and a provider')
            for target in self.targets(alias):
                if target not in known:
                    raise ValueError(f'the alias "{alias}" names "{target}", which is not a provider or alias')
            self._expect_an_end(alias, ())
            if len(chain := self.providers_of(alias)) > 1 and OFFLINE in chain:
                raise ValueError(f'the alias "{alias}" names "{OFFLINE}", a script that cannot replace a model')
        if OFFLINE in self.providers_of(FALLBACK):
            raise ValueError(f'the alias "{FALLBACK}" names "{OFFLINE}", a script that cannot replace a model')
        if self.default is not None and self.default not in known:
            raise ValueError(
                f'the default "{self.default}" is not a provider or alias; there are: {", ".join(sorted(known))}'
            )
        for weaker, stronger in self.upgrade.items():
            for named in (weaker, stronger):
                if named not in known - {OFFLINE}:
                    raise ValueError(f'"upgrade" names "{named}", which is not a provider or alias')
        return self

    def _expect_an_end(self, alias: str, above: tuple[str, ...]) -> None:
        if alias in above:
            raise ValueError(f'the alias "{alias}" names itself: {" → ".join((*above, alias))}')
        for target in self.targets(alias):
            self._expect_an_end(target, (*above, alias))


class BudgetSettings(_Settings):
    """Budget limits, and what to do at them: `ask` a person, `degrade` to the alias `cheap`, then ask, or `stop`."""

    former_keys = {"on_breach": "on_exceeded"}
    max_cost_usd: Usd | None = None
    max_tokens: int | None = Field(default=None, ge=1, le=MOST_AMOUNT)
    on_exceeded: OnBreach = "ask"

    @property
    def max_cost(self) -> int | None:
        """In 1e-9 USD."""
        return None if self.max_cost_usd is None else int(self.max_cost_usd * NANO_USD_PER_USD)


class TaskBudgetSettings(BudgetSettings):
    """`deadline_s`: seconds of work, without the time spent waiting for a person."""

    deadline_s: float | None = Field(default=None, gt=0, le=10_000_000)


class BudgetsSettings(_Settings):
    """Budgets per turn, session, project folder, and day where Ozzie runs."""

    task: TaskBudgetSettings = TaskBudgetSettings()
    session: BudgetSettings = BudgetSettings()
    project: BudgetSettings = BudgetSettings()
    day: BudgetSettings = BudgetSettings()


class AgentSettings(_Settings):
    """`system_prompt` is added below the persona; it never replaces it."""

    system_prompt: str = ""
    max_rounds: int = Field(default=25, ge=1, le=200)


class ToolsSettings(_Settings):
    """`max_offered`: how many tools a turn starts with; `always`: those always among them, ignoring unknown ones."""

    former_keys = {"offer_at_most": "max_offered"}
    max_offered: int = Field(default=40, ge=1, le=1000)
    always: Annotated[tuple[Name, ...], Field(max_length=200)] = ALWAYS_OFFERED


class SessionsSettings(_Settings):
    """`max_history`: how many earlier messages of a session a model gets. `compact_tokens`: from how many tokens on
    earlier turns are summarized; without it, from three quarters of what the model can read."""

    max_history: int = Field(default=200, ge=1)
    compact_tokens: int | None = Field(default=None, ge=1000)


class ApprovalsSettings(_Settings):
    """`expires_s`: how long an approval waits for an answer; an expired one can be asked again. `checker`: the alias or
    provider that checks calls for rules with the decision CHECK."""

    expires_s: float = Field(default=REQUEST_EXPIRES_S, ge=60, le=7 * 24 * 3600)
    checker: Name = CHEAP


class ArtifactsSettings(_Settings):
    """How long contents of artifacts are kept, and how many bytes of them; None and 0 set no limit (ADR 28)."""

    keep_days: int | None = Field(default=90, ge=0, le=36_500)
    max_bytes: int | None = Field(default=None, ge=0)


class Settings(_Settings):
    gateway: GatewaySettings = GatewaySettings()
    models: ModelsSettings = ModelsSettings()
    agent: AgentSettings = AgentSettings()
    tools: ToolsSettings = ToolsSettings()
    sessions: SessionsSettings = SessionsSettings()
    budgets: BudgetsSettings = BudgetsSettings()
    approvals: ApprovalsSettings = ApprovalsSettings()
    artifacts: ArtifactsSettings = ArtifactsSettings()
    tasks: TasksSettings = TasksSettings()
    skills: SkillsSettings = SkillsSettings()
    watchdog: WatchdogSettings = WatchdogSettings()
    plugins: dict[str, dict[str, Any]] = {}
    native_plugins: StrictBool = False

    @model_validator(mode="after")
    def _can_degrade(self) -> "Settings":
        for name in type(self.budgets).model_fields:
            if getattr(self.budgets, name).on_exceeded == "degrade" and not self.models.providers_of(CHEAP):
                raise ValueError(
                    f'"budgets.{name}" needs the alias "{CHEAP}", which is missing; define it under "models.aliases"'
                )
        return self

    @model_validator(mode="after")
    def _can_check(self) -> "Settings":
        checker = self.approvals.checker
        if checker != CHEAP and not self.models.providers_of(checker):
            raise ValueError(f'"approvals.checker" names "{checker}", which is not a provider or alias')
        return self
