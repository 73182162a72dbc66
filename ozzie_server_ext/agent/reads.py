"""What a model has read of a conversation: as texts, in which a name is looked for (`tools.origins`), and as the calls
that read something by name, such as a mail or a document (docs/policy.md, Classes)."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from ozzie_server_ext.agent.entries import UserMessage
from ozzie_server_ext.agent.rounds import OK, Round
from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.events import ToolUse
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.toolmeta import Capability, Reached, SideEffect, ToolMeta
from ozzie_server_ext.policy.decision import Action, Caller
from ozzie_server_ext.policy.engine import ALWAYS_ASK
from ozzie_server_ext.protocol.jsontext import loads_object
from ozzie_server_ext.tools.origins import Passage, Place


def passages_of(entries: Iterable[UserMessage | Round], summary: str) -> list[Passage]:
    """Return the summary of earlier turns, and a passage for each message and each result of a call. It holds nothing
    of the entries that may change, and nothing is parsed: another thread does that while the conversation goes on."""
    found = [Passage(Place.SUMMARY, summary)] if summary else []
    for entry in entries:
        if isinstance(entry, UserMessage):
            found.append(Passage(Place.MESSAGE, entry.text, sources=entry.sources))
            continue
        uses: dict[str, ToolUse] = {use.use_id: use for use in entry.uses}
        for use_id, outcome in entry.outcomes.items():
            name, asked = (use.name, use.arguments) if (use := uses.get(use_id)) else ("", "")
            sources = entry.brought.get(use_id, ())
            found.append(Passage(Place.RESULT, outcome, tool=name, asked=asked, sources=sources))
    return found


def reads_of(
    entries: Iterable[UserMessage | Round], summary: str, meta_of: Callable[[str], ToolMeta | None]
) -> Iterator[Action | None]:
    """Yield the calls that told the model something; None for one of which nobody can tell what it told."""
    if summary:
        yield None
    for entry in entries:
        if isinstance(entry, Round):
            if entry.text and not entry.whole:  # what a run of a skill told
                yield None
            for use in entry.uses:
                if entry.outcomes.get(use.use_id, "").startswith(OK):
                    yield from read_by(meta_of(use.name), _args_of(use), entry.reached.get(use.use_id, ()))


def _args_of(use: ToolUse) -> JsonObject | None:
    try:
        return loads_object(use.arguments, surrogates="repair")
    except InputError:
        return None


def read_by(meta: ToolMeta | None, args: JsonObject | None, reached: Sequence[Reached]) -> Iterator[Action | None]:
    """Yield the call of a tool, if it told something, as `reads_of` does. A command or code reads what it likes."""
    if meta is None or args is None or meta.delegates_to or meta.requires - _PUBLIC or meta.categories & ALWAYS_ASK:
        yield None
    elif meta.side_effect is SideEffect.NONE and not meta.overview:
        read = Action.of(replace(meta, reaches=tuple(reached)), args, _NOBODY)
        yield read if read.named or read.paths or read.hosts else None


_PUBLIC = frozenset({Capability.INTERNET})
_NOBODY = Caller()
