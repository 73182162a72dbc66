"""What a person says that somebody else's tool does, and the contract that each word stands for (docs/plugins.md,
What a tool does)."""

from enum import StrEnum
from typing import TypedDict

from ozzie_server_ext.domain.toolmeta import Category, Idempotency, RiskLevel, SideEffect


class Effect(StrEnum):
    READS = "reads"
    CHANGES = "changes"
    SENDS = "sends"
    DELETES = "deletes"
    PAYS = "pays"
    CONFIGURES = "configures"


_CATEGORIES = {
    Effect.SENDS: Category.EXTERNAL_SEND,
    Effect.DELETES: Category.DELETE,
    Effect.PAYS: Category.PAYMENT,
    Effect.CONFIGURES: Category.CONFIG_CHANGE,
}


class Contract(TypedDict):
    """The part of a `ToolMeta` that follows from an effect."""

    side_effect: SideEffect
    risk_level: RiskLevel
    idempotency: Idempotency
    categories: frozenset[Category]
    is_unclassified: bool


def contract_of(effect: Effect | None) -> Contract:
    """Return the contract of a tool with this effect; without one, that of a tool that never runs."""
    reads = effect is Effect.READS
    category = None if effect is None else _CATEGORIES.get(effect)
    return Contract(
        side_effect=SideEffect.NONE if reads else SideEffect.IRREVERSIBLE,
        risk_level=RiskLevel.LOW if reads else RiskLevel.MEDIUM,
        idempotency=Idempotency.SUPPORTED if reads else Idempotency.NOT_SUPPORTED,
        categories=frozenset({category} if category else ()),
        is_unclassified=effect is None,
    )
