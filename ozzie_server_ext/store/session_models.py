"""The model of a session behind its provider, which the table of sessions does not have."""

from collections.abc import Sequence

from ozzie_server_ext.domain.events import ModelCallStarted
from ozzie_server_ext.domain.ids import SessionId
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.tables import Row

_MOST_CALLS = 50
"""Calls of a session that are searched for its latest answer; the others are checks and summaries."""
_STARTED = frozenset({ModelCallStarted.type})


async def with_providers(log: EventLog, sessions: Sequence[Row]) -> list[Row]:
    """Return rows of `sessions` with `model` as "provider/model". The provider is the one that the model was used with
    last in that session; before the end of its first call, the model stands alone."""
    wanted: list[Json] = [row["session_id"] for row in sessions if row["model"]]
    used = await log.rows("usage", where={"session_id": wanted}, order_by="day") if wanted else []
    by_model: dict[tuple[str, str], list[str]] = {}
    for each in used:
        by_model.setdefault((str(each["session_id"]), str(each["model"])), []).append(str(each["provider"]))
    named: list[Row] = []
    for row in sessions:
        providers = by_model.get((str(row["session_id"]), str(row["model"])), [])
        provider = providers[-1] if providers else ""
        # The table has days only, and within one the order of the names. Few sessions change a model's provider.
        if len(set(providers)) > 1:
            provider = await _latest(log, row) or provider
        named.append({**row, "model": f"{provider}/{row['model']}" if provider else str(row["model"])})
    return named


async def _latest(log: EventLog, row: Row) -> str:
    """Return the provider of the latest call that answered with the session's model; empty if it is not among the
    latest calls."""
    session = SessionId(str(row["session_id"]))
    events = await log.read(session_id=session, types=_STARTED, newest_first=True, limit=_MOST_CALLS)
    for event in events:
        body = event.body
        if isinstance(body, ModelCallStarted) and (body.model, body.purpose) == (row["model"], "answer"):
            return body.provider
    return ""
