"""What a model has read of a conversation, as texts in which a name is looked for (`tools.origins`)."""

from collections.abc import Iterable

from ozzie_server_ext.agent.entries import UserMessage
from ozzie_server_ext.agent.rounds import Round
from ozzie_server_ext.domain.events import ToolUse
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
