"""`ozzie artifacts get` saves the artifact or nothing, whatever answers in the place of the gateway."""

import argparse
import hashlib
import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from ozzie_server_ext.cli.artifacts import get_artifact
from ozzie_server_ext.domain.errors import Unavailable
from ozzie_server_ext.protocol.handshake import VERSION, Handshake, handshake_path, write_handshake

ARTIFACT = "01M800000000000000000000ZZ"
CONTENT = b"what was kept"


class Answering(BaseHTTPRequestHandler):
    """Tells of one artifact, and sends `content` for it."""

    content = CONTENT

    def do_GET(self) -> None:
        told = json.dumps({"hash": hashlib.sha256(CONTENT).hexdigest(), "mime": "text/plain"}).encode()
        body = self.content if self.path.endswith("/content") else told
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def answering(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Answering]]:
    class Answers(Answering):
        pass

    home, runtime = tmp_path / "home", tmp_path / "runtime"
    monkeypatch.setenv("OZZIE_PATH", str(home))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(runtime))
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        url = f"http://127.0.0.1:{server.server_port}/"
        here = Handshake(v=VERSION, url=url, token="t", pid=os.getpid(), home=str(home), started=1.0)
        write_handshake(handshake_path(runtime, os.getpid()), here)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield Answers
        server.shutdown()
        thread.join()


def asked_for(target: Path) -> argparse.Namespace:
    return argparse.Namespace(artifact_id=ARTIFACT, output=str(target), json=False)


def test_what_has_the_hash_of_the_artifact_is_written(answering: type[Answering], tmp_path: Path) -> None:
    assert get_artifact(asked_for(tmp_path / "out")) == 0
    assert (tmp_path / "out").read_bytes() == CONTENT


def test_what_has_another_hash_is_not_written(answering: type[Answering], tmp_path: Path) -> None:
    answering.content = b"<html>Sign in</html>"

    with pytest.raises(Unavailable, match="its SHA-256 does not match"):
        get_artifact(asked_for(tmp_path / "out"))
    assert not (tmp_path / "out").exists()
