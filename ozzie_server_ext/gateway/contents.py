"""Follows what Jupyter's file manager does to notebooks, so that each keeps its session (NB-15)."""

import asyncio
import os
from typing import Any

from jupyter_server.services.contents.manager import ContentsManager

from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.gateway.relay import Forwarded, Relay
from ozzie_server_ext.gateway.rest.relayed import Collected
from ozzie_server_ext.gateway.state import GatewayState
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.protocol.jsontext import dumps

log = logger(__name__)

BY = "jupyter"


def follow_contents(serverapp: Any, state: GatewayState) -> None:
    """Have the sessions of notebooks go with them when they, or their folders, are renamed or deleted in Jupyter."""

    def path_of(name: str) -> str:
        # As Jupyter makes the name that a notebook's kernel is told.
        return os.path.join(serverapp.root_dir, *name.strip("/").split("/"))

    # Jupyter tells of each change in a task of its own. A name that was left and taken again by another notebook must
    # not be left last.
    in_turn = asyncio.Lock()

    async def changed(logger: Any, schema_id: str, data: dict[str, Any]) -> None:
        try:
            async with in_turn:
                if data["action"] == "rename":
                    await _moved(state, path_of(data["source_path"]), path_of(data["path"]))
                elif data["action"] == "delete":
                    await _moved(state, path_of(data["path"]), None)
        except OzzieError:
            log.exception("a notebook was moved, and its session was not")

    serverapp.event_logger.add_listener(schema_id=ContentsManager.event_schema_id, listener=changed)


async def _moved(state: GatewayState, source: str, path: str | None) -> None:
    """Tell Ozzie, wherever it is: `path` is where it lies now, None where it is gone. Raises OzzieError."""
    if state.relay is not None and await _told_to_owner(state.relay, source, path):
        return
    if state.ozzie is None:
        return
    if path is None:
        await state.ozzie.notebooks.deleted(source, by=BY)
    else:
        await state.ozzie.notebooks.moved(source, path, by=BY)


async def _told_to_owner(relay: Relay, source: str, path: str | None) -> bool:
    body = dumps({"source": source} | ({} if path is None else {"path": path}))
    forwarded = Forwarded(method="POST", path="ozzie/api/notebooks/move", user=BY, body=body.encode())
    collected = Collected()
    told = await relay.exchange(forwarded, collected, asyncio.Event())
    if told and collected.status != 200:
        log.error("the owner did not take the move of a notebook: %s", collected.object())
    return told
