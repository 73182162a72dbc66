"""What an export says about a session and its turns, in the same words in every format."""

from datetime import UTC, datetime

from ozzie_server_ext.export.session import ErasedTurn, ExportedSession, Extent, Message
from ozzie_server_ext.render.page import Block, Command, Facts, paragraph
from ozzie_server_ext.render.text import money, visible_label


def title_of(extent: Extent) -> str:
    return visible_label(extent.title) or "Untitled"


def about(session: ExportedSession, at: datetime) -> list[Block]:
    """Return what stands above the turns. `at` is the time of the export."""
    extent, turns = session.extent, session.turns
    begun = [turn.messages[0].at for turn in turns]
    when = [f"{each:%Y-%m-%d}" for each in (min(begun), max(begun))] if begun else []
    models = dict.fromkeys(model for turn in turns for _, _, model in turn.view.models if model)
    tokens = sum(turn.view.total_tokens for turn in turns)
    cost = money(sum(turn.view.cost for turn in turns))
    if not all(turn.view.cost_known for turn in turns):
        cost = f"{cost} + unknown"
    facts = {
        "Session": extent.session_id,
        "When": " to ".join(dict.fromkeys(when)),
        "Messages": f"{sum(len(turn.messages) for turn in turns):,}",
        "Models": ", ".join(models),
        "Tokens": f"{tokens:,}",
        "Cost": cost,
        "Forked from": str(extent.row["parent"]),
    }
    return [
        Facts([(name, value) for name, value in facts.items() if value]),
        paragraph(f"Exported from Ozzie on {moment(at)}. It shows what was recorded."),
    ]


def about_notebook() -> list[Block]:
    """Return what a reader of a notebook may do with it."""
    return [
        paragraph("Nothing in it runs by itself, and a cell that is run begins a new session."),
        paragraph("Check that it is as recorded: ", Command("ozzie sessions verify FILE")),
    ]


def forked_from(extent: Extent) -> str:
    """Return where a fork comes from."""
    where = f"after turn {turn} of another session" if (turn := extent.row["forked_turn"]) else "from another session"
    return f"Forked {where}. It goes on in this notebook."


def moment(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def heading(message: Message) -> str:
    """Return who said a message, and when."""
    what = {"message": "", "update": ", to the turn above", "answer": ", to the question above"}[message.as_what]
    return f"{visible_label(message.by) or 'You'}, {moment(message.at)}{what}"


def erased(turn: ErasedTurn) -> str:
    if not turn.by:
        return f"The session that this one was forked from was erased on {turn.at:%Y-%m-%d}."
    return f"A message and its turn were erased on {turn.at:%Y-%m-%d} by {visible_label(turn.by)}."
