"""Exports over REST: as files that browsers save, of sessions that are there."""

import http.client
from contextlib import closing
from urllib.parse import urlsplit

import pytest

from ozzie_server_ext.gateway.routes import PREFIX
from tests.integration.gateway.test_rest import post
from tests.integration.gateway.walk import ask
from tests.rig import Gateway
from tests.ws_client import connected


def export(gateway: Gateway, session_id: str, form: str) -> tuple[http.client.HTTPResponse, bytes]:
    address = urlsplit(gateway.url)
    with closing(http.client.HTTPConnection(str(address.hostname), address.port, timeout=20)) as connection:
        headers = {"Authorization": f"token {gateway.token}"}
        connection.request("GET", f"{PREFIX}/sessions/{session_id}/export?form={form}", headers=headers)
        response = connection.getresponse()
        return response, response.read()


@pytest.mark.parametrize("form", ["ipynb", "md", "html", "jsonl"])
def test_it_is_a_file_to_save_that_no_browser_opens(gateway: Gateway, form: str) -> None:
    session = post(gateway, "message", content="Say hello.", session_name="a/b <größe>", wait=True)["session_id"]

    response, content = export(gateway, session, form)

    assert response.status == 200
    assert response.headers["Content-Disposition"] == f"attachment; filename*=UTF-8''a-b-gr%C3%B6%C3%9Fe.{form}"
    assert response.headers.get_content_type() in ("application/octet-stream", "text/plain", "application/json")
    assert b"Say hello." in content


def test_what_can_not_be_exported_is_refused_in_words(gateway: Gateway) -> None:
    session = post(gateway, "message", content="Say hello.", wait=True)["session_id"]

    status, bad = ask(gateway, "GET", f"{PREFIX}/sessions/{session}/export?form=pdf", token=gateway.token)
    assert (status, bad["message"]) == (400, "form must be one of ipynb, md, html, jsonl.")
    assert ask(gateway, "DELETE", f"{PREFIX}/sessions/{session}", token=gateway.token)[0] == 200
    status, gone = ask(gateway, "GET", f"{PREFIX}/sessions/{session}/export", token=gateway.token)
    assert (status, gone["code"]) == (410, "input.gone")


async def test_over_the_websocket_it_is_a_text(gateway: Gateway) -> None:
    async with connected(gateway) as client:
        session_id = await client.open_session("words")
        told = await client.request("session.export", session_id=session_id, form="md")

    assert told["payload"]["name"].endswith(".md")
    assert told["payload"]["text"].startswith("# ")
