"""Follows what Jupyter's file manager does to notebooks, so that each keeps its session (NB-15)."""

import os
from typing import Any

from jupyter_server.services.contents.manager import ContentsManager

from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.gateway.state import GatewayState
from ozzie_server_ext.observability.logs import logger

log = logger(__name__)

BY = "jupyter"


def follow_contents(serverapp: Any, state: GatewayState) -> None:
    """Have the sessions of notebooks go with them when they, or their folders, are renamed or deleted in Jupyter."""

    def path_of(name: str) -> str:
        # As Jupyter makes the name that a notebook's kernel is told.
        return os.path.join(serverapp.root_dir, *name.strip("/").split("/"))

    async def changed(logger: Any, schema_id: str, data: dict[str, Any]) -> None:
        if state.ozzie is None:
            return
        notebooks = state.ozzie.notebooks
        try:
            if data["action"] == "rename":
                await notebooks.moved(path_of(data["source_path"]), path_of(data["path"]), by=BY)
            elif data["action"] == "delete":
                await notebooks.deleted(path_of(data["path"]), by=BY)
        except OzzieError:
            log.exception("a notebook was moved, and its session was not")

    serverapp.event_logger.add_listener(schema_id=ContentsManager.event_schema_id, listener=changed)
