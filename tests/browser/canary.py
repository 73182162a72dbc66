"""A server that nobody may call; it keeps what was asked of it."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Canary:
    """Listens on loopback, in threads of its own. A context manager."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self._changed = threading.Condition()
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

    def wait_for_calls(self, count: int) -> None:
        """Returns when there have been so many, or after 20 s."""
        with self._changed:
            self._changed.wait_for(lambda: len(self.calls) >= count, timeout=20)

    def _noted(self, call: str) -> None:
        with self._changed:
            self.calls.append(call)
            self._changed.notify_all()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        noted = self._noted

        class Handler(BaseHTTPRequestHandler):
            def handle_one_request(self) -> None:
                # Whatever comes counts, of whatever method.
                self.raw_requestline = self.rfile.readline(65537)
                self.close_connection = True
                if self.raw_requestline and self.parse_request():
                    noted(f"{self.command} {self.path}")
                    self.send_response(204)
                    self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler
