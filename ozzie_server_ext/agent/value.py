"""What a program reads of a turn: apart from `shape`, which processes load that know nothing of how a turn looks."""

from ozzie_server_ext.agent.structured_output import value_of
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.protocol.jsontext import InvalidJson
from ozzie_server_ext.render.turnview import TextPart, TurnView


def value_in(view: TurnView) -> Json:
    """The value of a turn whose answer was looked at before it was done; None where it was erased since."""
    last = view.parts[-1] if view.parts else None
    if not isinstance(last, TextPart):
        return None
    try:
        return value_of(last.text)
    except InvalidJson:
        return None
