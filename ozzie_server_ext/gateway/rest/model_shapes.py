"""The shapes that the REST interface answers of models: what there is to choose, and what a selector chose."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from ozzie_server_ext.gateway.rest.shapes import Page, Usage
from ozzie_server_ext.models.facts import Capabilities

KeyPlace: TypeAlias = Literal["", "vault", "environment", "Claude Code"]
Tag: TypeAlias = str | int | float | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model that can be chosen by its name; `key` is where its key lies, empty where it needs none or there is
    none; `missing` says why it can't be used right now. Of an alias, `driver` is "alias" and `model` the name that it
    stands for. `health` says how its last call ended, empty where it was not asked lately."""

    name: str
    driver: str
    model: str
    key: KeyPlace
    missing: str
    is_default: bool
    tags: dict[str, Tag]
    health: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LastCall:
    """How a model's newest call ended: `code` is that of its failure, empty where it answered; `finish` how the answer
    ended. Calls that were stopped here are passed over."""

    ended_at: str
    code: str
    finish: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDetails:
    """One model in full. `provider` is what the configuration calls it, empty for one that was named directly; another
    `name` is an alias for it. `address` is empty for the driver's usual one, and holds neither credentials nor path.
    `missing` says why the model can't be used right now, `unasked` why litellm's table could not be asked for its
    capabilities. `then` names the providers that are asked in this order where it can't answer, `stronger` those that
    are where it is not up to a request. `today` is since the last midnight where the gateway runs."""

    name: str
    provider: str
    driver: str
    model: str
    then: list[str]
    stronger: list[str]
    address: str
    is_default: bool
    tags: dict[str, Tag]
    key_name: str
    key: KeyPlace
    missing: str
    health: str
    last_call: LastCall | None
    capabilities: Capabilities
    unasked: str
    today: Usage
    total: Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """Something that was found on this machine and is not used until it is chosen."""

    found: str
    choose: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Models(Page[Model]):
    """The models, and what else there is to know for a choice. `vault_warning` says what is wrong with the vault of
    secrets; empty where all is well."""

    default: str
    offers: list[Offer]
    config_file: str
    config_error: str
    vault_warning: str
    ignored_config: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedConstraint:
    """A required constraint that a model does not meet, and why, in words."""

    constraint: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WeighedModel:
    """How a model fared: it `fits` where nothing `failed`; `preferred` are the wishes that it meets, `score` their
    number."""

    name: str
    model: str
    fits: bool
    score: int
    failed: list[FailedConstraint]
    preferred: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelResolution:
    """What a selector chose, with every model as it was declared. Where none fits, `chosen` is null and `reason` says
    why. `wishes`: how many constraints are preferred, the highest possible score."""

    chosen: str | None
    model: str
    reason: str
    wishes: int
    weighed: list[WeighedModel]
