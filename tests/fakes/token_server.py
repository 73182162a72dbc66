"""A token server on loopback (RFC 6749 §4.4): gives numbered tokens to one client, or answers as it is told."""

import base64
import json
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote_plus

CLIENT_ID = "ozzie: test"
CLIENT_SECRET = "s3cret/+&=%:é"  # every character that one of the two encodings has to take care of


@dataclass(frozen=True)
class TokenRequest:
    path: str
    headers: Mapping[str, str]
    form: Mapping[str, str]


@dataclass(frozen=True)
class TokenAnswer:
    """What is sent instead of a token."""

    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()


class FakeTokenServer:
    """`takes`: where the client has to say who it is, "basic" or "body"; `client`: its id and its secret; `name`: how
    its tokens begin. A context manager."""

    def __init__(
        self,
        *,
        takes: str = "basic",
        lasts: Any = 3600,
        client: tuple[str, str] = (CLIENT_ID, CLIENT_SECRET),
        name: str = "token",
    ) -> None:
        self.requests: list[TokenRequest] = []
        self.answers: deque[TokenAnswer] = deque()
        self.given = 0
        self.hold = threading.Event()
        self.hold.set()
        self._takes = takes
        self._lasts = lasts
        self._client = client
        self._name = name
        self._arrived = threading.Condition()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, name="fake token server", daemon=True)

    def __enter__(self) -> "FakeTokenServer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.hold.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/oauth/token"

    def wait_for_requests(self, count: int, seconds: float = 60.0) -> None:
        with self._arrived:
            if not self._arrived.wait_for(lambda: len(self.requests) >= count, seconds):
                raise TimeoutError(f"{len(self.requests)} of {count} requests came.")

    def _answer(self, asked: TokenRequest) -> TokenAnswer:
        with self._arrived:
            self.requests.append(asked)
            self._arrived.notify_all()
        self.hold.wait(60)
        if self.answers:
            return self.answers.popleft()
        if asked.form.get("grant_type") != "client_credentials":
            return _refused(400, "unsupported_grant_type", "")
        if self._client_of(asked) != self._client:
            return _refused(401, "invalid_client", f"No client has the secret {asked.form.get('client_secret', '')}.")
        with self._arrived:
            self.given += 1
            token = {"access_token": f"{self._name}-{self.given}", "token_type": "Bearer"}
        if self._lasts is not None:
            token["expires_in"] = self._lasts
        return TokenAnswer(200, json.dumps(token).encode())

    def _client_of(self, asked: TokenRequest) -> tuple[str, str] | None:
        if self._takes == "body":
            return asked.form.get("client_id", ""), asked.form.get("client_secret", "")
        scheme, _, coded = asked.headers.get("authorization", "").partition(" ")
        if scheme != "Basic":
            return None
        client_id, _, secret = base64.b64decode(coded).decode().partition(":")
        return unquote_plus(client_id), unquote_plus(secret)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", "0"))).decode()
                headers = {name.lower(): value for name, value in self.headers.items()}
                answer = server._answer(TokenRequest(self.path, headers, dict(parse_qsl(body, keep_blank_values=True))))
                self.send_response(answer.status)
                for name, value in (("Content-Type", "application/json"), *answer.headers):
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body)

            def log_message(self, format: str, *args: Any) -> None:
                """Nothing is printed."""

        return Handler


def _refused(status: int, error: str, description: str) -> TokenAnswer:
    return TokenAnswer(status, json.dumps({"error": error, "error_description": description}).encode())
