"""A server that nobody may call; it keeps what was asked of it."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Canary:
    """Listens on loopback, in threads of its own. A context manager."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> "Canary":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join(10)
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        calls = self.calls

        class Handler(BaseHTTPRequestHandler):
            def handle_one_request(self) -> None:
                # Whatever comes counts, of whatever method.
                self.raw_requestline = self.rfile.readline(65537)
                self.close_connection = True
                if self.raw_requestline and self.parse_request():
                    calls.append(f"{self.command} {self.path}")
                    self.send_response(204)
                    self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler
