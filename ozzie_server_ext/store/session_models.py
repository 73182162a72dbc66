"""The model of a session behind its provider, which the table of sessions does not have."""

from collections.abc import Sequence

from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.tables import Row


async def with_providers(log: EventLog, sessions: Sequence[Row]) -> list[Row]:
    """Return rows of `sessions` with `model` as "provider/model". The provider is the latest that the model was used
    with in that session; before the end of its first call, the model stands alone."""
    wanted: list[Json] = [row["session_id"] for row in sessions if row["model"]]
    used = await log.rows("usage", where={"session_id": wanted}, order_by="day") if wanted else []
    providers = {(row["session_id"], row["model"]): str(row["provider"]) for row in used}
    return [{**row, "model": _behind(providers.get((row["session_id"], row["model"]), ""), row)} for row in sessions]


def _behind(provider: str, row: Row) -> str:
    return f"{provider}/{row['model']}" if provider else str(row["model"])
