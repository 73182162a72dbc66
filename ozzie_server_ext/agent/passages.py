"""What a model has read of a conversation, as texts in which a name is looked for (`tools.origins`)."""

from collections.abc import Iterable, Iterator

from ozzie_server_ext.agent.entries import UserMessage
from ozzie_server_ext.agent.rounds import Round
from ozzie_server_ext.protocol.jsontext import loads, texts_in
from ozzie_server_ext.tools.origins import Passage, Place


def passages_of(entries: Iterable[UserMessage | Round], summary: str) -> Iterator[Passage]:
    """Yield a passage for each message and each result of a call, and the summary of earlier turns."""
    if summary:
        yield Passage(Place.SUMMARY, summary)
    for entry in entries:
        if isinstance(entry, UserMessage):
            yield Passage(Place.MESSAGE, entry.text)
            continue
        names: dict[str, str] = {use.use_id: use.name for use in entry.uses}
        for use_id, outcome in entry.outcomes.items():
            # As texts: in JSON, a letter may stand right before a name, as in "\\nana@firm.example".
            text = "\n".join(texts_in(loads(outcome, max_bytes=len(outcome) * 4)))
            yield Passage(Place.RESULT, text, tool=names.get(use_id, ""), sources=entry.brought.get(use_id, ()))
