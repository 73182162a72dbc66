"""What a model has read by name, such as a mail or a document, as the calls that read it (docs/policy.md, Classes)."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from ozzie_server_ext.agent.entries import UserMessage
from ozzie_server_ext.agent.rounds import OK, Round
from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.events import ToolUse
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.toolmeta import (
    Capability,
    Idempotency,
    Reached,
    RiskLevel,
    SideEffect,
    TargetKind,
    ToolMeta,
)
from ozzie_server_ext.policy.decision import Action, Caller
from ozzie_server_ext.policy.engine import ALWAYS_ASK
from ozzie_server_ext.policy.targets import Named
from ozzie_server_ext.protocol.jsontext import loads_object


def reads_of(
    entries: Iterable[UserMessage | Round], summary: str, meta_of: Callable[[str], ToolMeta | None]
) -> Iterator[Action]:
    """Yield the calls that told the model something. What can't be known any more is a call that names something
    unreadable."""
    if summary:
        yield UNKNOWN
    for entry in entries:
        if isinstance(entry, Round):
            if entry.text and not entry.whole:  # what a run of a skill told
                yield UNKNOWN
            for use in entry.uses:
                if entry.outcomes.get(use.use_id, "").startswith(OK):
                    yield from read_by(meta_of(use.name), _args_of(use), entry.reached.get(use.use_id, ()))


def _args_of(use: ToolUse) -> JsonObject | None:
    try:
        return loads_object(use.arguments, surrogates="repair")
    except InputError:
        return None


def read_by(meta: ToolMeta | None, args: JsonObject | None, reached: Sequence[Reached]) -> Iterator[Action]:
    """Yield the call of a tool, if it told something. A command or code reads what it likes."""
    if meta is None or args is None or meta.delegates_to or meta.requires - _PUBLIC or meta.categories & ALWAYS_ASK:
        yield UNKNOWN
    elif meta.side_effect is SideEffect.NONE and not meta.overview:
        read = Action.of(replace(meta, reaches=tuple(reached)), args, _NOBODY)
        yield read if read.named or read.paths or read.hosts else UNKNOWN


_PUBLIC = frozenset({Capability.INTERNET})
_NOBODY = Caller()
UNKNOWN = Action(
    meta=ToolMeta(
        tool_id="unknown.read",
        name="unknown_read",
        side_effect=SideEffect.NONE,
        risk_level=RiskLevel.LOW,
        timeout_s=1.0,
        idempotency=Idempotency.SUPPORTED,
    ),
    caller=_NOBODY,
    named=(Named(kind=TargetKind.OBJECT, argument="", given="", value=None),),
)
"""A call of which nobody can tell what it told."""
