"""`sessions export`: a session as a file."""

import msgspec

from ozzie_server_ext.domain import ids
from ozzie_server_ext.domain.exports import Form
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.gateway.operation import Call
from ozzie_server_ext.gateway.rest.shapes import Download, SessionId

_MIMES: dict[Form, str] = {
    "ipynb": "application/x-ipynb+json",
    "md": "text/markdown",
    "html": "text/html",
    "jsonl": "application/jsonl",
}


class ExportQuery(msgspec.Struct, frozen=True, kw_only=True):
    """`form`: a notebook, a document, a page, or a line for each event."""

    session_id: SessionId
    form: Form = "ipynb"


async def export_session(call: Call, request: ExportQuery) -> Download:
    """Export a session as a file, with all its turns as they are now.

    A notebook and lines carry a proof that they are as recorded, which `ozzie sessions verify` checks.
    """
    name, text = await call.ozzie.exports.export(ids.SessionId(request.session_id), request.form)
    return Download(content=text.encode(), mime=_MIMES[request.form], name=name)


def text_of(file: Download) -> JsonObject:
    """Return the WebSocket's answer."""
    return {"name": file.name, "text": file.content.decode()}
