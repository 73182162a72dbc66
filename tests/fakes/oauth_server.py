"""An MCP server at an address that wants a sign-in, and its authorization server: two servers on loopback, by hand, so
that they can also do what no honest one does."""

import base64
import hashlib
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

TOOLS = [
    {
        "name": name,
        "description": about,
        "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
        "annotations": {"readOnlyHint": reads},
    }
    for name, about, reads in (("echo", "Says the text again", True), ("keep", "Keeps the text", False))
]


@dataclass(frozen=True)
class Seen:
    """A request to one of the two servers."""

    where: str
    path: str
    form: dict[str, str]
    authorization: str


@dataclass
class Behaviour:
    """How the two behave. `challenge` is the address that the first 401 names for what the server says of itself;
    `resource` and `metadata` replace parts of what they say of themselves; `redirect` replaces
    parts of what the browser brings back; `answers` are whole answers in place of theirs, by path."""

    challenge: str = ""
    lasts: int | None = 3600
    refreshes: bool = True
    rotates: bool = True
    resource: dict[str, Any] = field(default_factory=dict[str, Any])
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    redirect: dict[str, str] = field(default_factory=dict[str, str])
    answers: dict[str, tuple[int, dict[str, str], bytes]] = field(
        default_factory=dict[str, tuple[int, dict[str, str], bytes]]
    )
    rights: str = "read"
    """What a call of `keep` wants; a sign-in brings what was asked for."""


class OAuthServers:
    """The MCP server at `url` and its authorization server at `issuer`. `seen` are the requests of both. A context
    manager."""

    def __init__(self) -> None:
        self.behaviour = Behaviour()
        self.seen: list[Seen] = []
        self.methods: list[str] = []
        """What was asked of the MCP server with a token that counts."""
        self.kept: list[str] = []
        self.hold = threading.Event()
        """Tokens are given while it is set."""
        self.hold.set()
        self.asked_for_token = threading.Event()
        self.tokens: dict[str, str] = {}
        """The access tokens that count, with their rights."""
        self.refreshing: dict[str, str] = {}
        self._codes: dict[str, dict[str, str]] = {}
        self._count = 0
        self._lock = threading.Lock()
        self._mcp = _server(self._serve_mcp)
        self._auth = _server(self._serve_auth)
        self.origin = f"http://127.0.0.1:{self._mcp.server_port}"
        self.url = f"{self.origin}/mcp"
        self.issuer = f"http://127.0.0.1:{self._auth.server_port}"

    def __enter__(self) -> "OAuthServers":
        for server in (self._mcp, self._auth):
            threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for server in (self._mcp, self._auth):
            server.shutdown()
            server.server_close()

    def paths(self, where: str) -> list[str]:
        return [each.path for each in self.seen if each.where == where]

    def forms(self, path: str) -> list[dict[str, str]]:
        return [each.form for each in self.seen if each.path == path]

    def end_tokens(self) -> None:
        """As after their time."""
        self.tokens.clear()

    # --- the MCP server -------------------------------------------------------------------------------------------

    def _serve_mcp(self, request: "_Request") -> None:
        self._note("mcp", request)
        if request.path in self.behaviour.answers:
            return request.answer(*self.behaviour.answers[request.path])
        if request.path.startswith("/.well-known/oauth-protected-resource"):
            about = {"resource": self.url, "authorization_servers": [self.issuer], **self.behaviour.resource}
            return request.json(200, about)
        if request.path != "/mcp":
            return request.json(404, {})
        rights = self.tokens.get(request.headers.get("authorization", "").removeprefix("Bearer "))
        if rights is None:
            where = self.behaviour.challenge or f"{self.origin}/.well-known/oauth-protected-resource/mcp"
            return request.json(401, {"error": "no"}, {"WWW-Authenticate": f'Bearer resource_metadata="{where}"'})
        message = json.loads(request.body or b"{}")
        if request.command != "POST" or "id" not in message:
            return request.answer(202 if request.command == "POST" else 405, {}, b"")
        self.methods.append(message["method"])
        result: dict[str, Any] | None = None
        match message["method"]:
            case "initialize":
                result = {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "signed", "version": "1.0"},
                }
            case "tools/list":
                result = {"tools": TOOLS}
            case "tools/call":
                name, text = message["params"]["name"], message["params"]["arguments"]["text"]
                if name == "keep" and self.behaviour.rights not in rights.split():
                    wanted = f'Bearer error="insufficient_scope", scope="{self.behaviour.rights}"'
                    return request.json(403, {}, {"WWW-Authenticate": wanted})
                if name == "keep":
                    self.kept.append(text)
                told = f"You sent {request.headers['authorization']}." if text == "What did I send?" else text
                result = {"content": [{"type": "text", "text": told}]}
            case _:
                pass
        body: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        body |= {"result": result} if result is not None else {"error": {"code": -32601, "message": "No such method"}}
        return request.json(200, body)

    # --- the authorization server ---------------------------------------------------------------------------------

    def _serve_auth(self, request: "_Request") -> None:
        self._note("auth", request)
        path, behaviour = request.path, self.behaviour
        if path in behaviour.answers:
            return request.answer(*behaviour.answers[path])
        if path == "/.well-known/oauth-authorization-server":
            about = {
                "issuer": self.issuer,
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
                "registration_endpoint": f"{self.issuer}/register",
                "response_types_supported": ["code"],
                "code_challenge_methods_supported": ["S256"],
                "authorization_response_iss_parameter_supported": True,
            }
            about |= behaviour.metadata
            return request.json(200, {name: value for name, value in about.items() if value is not None})
        if path == "/register":
            return request.json(201, {**json.loads(request.body), "client_id": self._next("client")})
        if path == "/authorize":
            code = self._next("code")
            self._codes[code] = request.form
            brought = {"code": code, "state": request.form["state"], "iss": self.issuer, **behaviour.redirect}
            query = urlencode({name: value for name, value in brought.items() if value})
            return request.answer(302, {"Location": f"{request.form['redirect_uri']}?{query}"}, b"")
        if path == "/token":
            return self._give(request)
        return request.json(404, {})

    def _give(self, request: "_Request") -> None:
        form = request.form
        self.asked_for_token.set()
        self.hold.wait(30)
        with self._lock:
            if form["grant_type"] == "refresh_token":
                scope = self.refreshing.get(form["refresh_token"])
                if scope is not None and self.behaviour.rotates:
                    del self.refreshing[form["refresh_token"]]
            else:
                asked = self._codes.pop(form["code"], None)
                digest = hashlib.sha256(form["code_verifier"].encode()).digest()
                challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
                scope = asked.get("scope", "") if asked and asked["code_challenge"] == challenge else None
            if scope is None:
                return request.json(400, {"error": "invalid_grant", "error_description": "It is spent."})
            access, refresh = self._next("access"), self._next("refresh")
            self.tokens[access] = scope
            answer: dict[str, Any] = {"access_token": access, "token_type": "Bearer"}
            answer |= {"scope": scope} if scope else {}
            answer |= {"expires_in": self.behaviour.lasts} if self.behaviour.lasts is not None else {}
            if self.behaviour.refreshes and (self.behaviour.rotates or form["grant_type"] != "refresh_token"):
                self.refreshing[refresh] = scope
                answer["refresh_token"] = refresh
        return request.json(200, answer)

    def _next(self, kind: str) -> str:
        self._count += 1
        return f"{kind}-{self._count}" if kind == "client" else f"{kind}-{self._count}-fern-lamp-otter"

    def _note(self, where: str, request: "_Request") -> None:
        self.seen.append(Seen(where, request.path, request.form, request.headers.get("authorization", "")))


class _Request:
    def __init__(self, handler: BaseHTTPRequestHandler) -> None:
        self._handler = handler
        parts = urlsplit(handler.path)
        self.command = handler.command
        self.path = parts.path
        self.headers = {name.lower(): value for name, value in handler.headers.items()}
        self.body = handler.rfile.read(int(self.headers.get("content-length", 0)))
        is_form = self.headers.get("content-type", "").startswith("application/x-www-form-urlencoded")
        self.form = dict(parse_qsl(self.body.decode() if is_form else parts.query))

    def json(self, status: int, value: Any, headers: dict[str, str] | None = None) -> None:
        self.answer(status, {"Content-Type": "application/json", **(headers or {})}, json.dumps(value).encode())

    def answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self._handler.send_response(status)
        for name, value in headers.items():
            self._handler.send_header(name, value)
        self._handler.send_header("Content-Length", str(len(body)))
        self._handler.end_headers()
        self._handler.wfile.write(body)


def _server(serve: Callable[[_Request], None]) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            serve(_Request(self))

        def do_POST(self) -> None:
            serve(_Request(self))

        def do_DELETE(self) -> None:
            serve(_Request(self))

        def log_message(self, format: str, *args: object) -> None:
            pass

    return ThreadingHTTPServer(("127.0.0.1", 0), Handler)
