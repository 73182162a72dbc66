"""Web servers on loopback that behave as badly as they are told to, and a small authority for their certificates."""

import datetime
import ipaddress
import socket
import socketserver
import ssl
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, cast

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from ozzie_server_ext.web.reach import Allowance

NAMES = ("site.example", "www.site.example", "other.example")
"""Those that the certificates are for, and that lead to the servers."""
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as it came."""

    method: str
    path: str
    headers: Mapping[str, str]
    secure: bool


Answer: TypeAlias = bytes | Callable[[socket.socket], None]
"""Bytes are sent as they are; a function does with the connection what it likes until the server ends."""


def answer(
    body: bytes | str = b"", content_type: str = "text/html; charset=utf-8", status: str = "200 OK", **headers: str
) -> bytes:
    """A proper answer. A header's name is written with `_` for `-`."""
    raw = body.encode() if isinstance(body, str) else body
    fields = {"Content-Type": content_type, "Content-Length": str(len(raw)), "Connection": "close"}
    fields |= {name.replace("_", "-").title(): value for name, value in headers.items()}
    lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in fields.items() if value)]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + raw


def leads(location: str, status: str = "302 Found") -> bytes:
    return answer(b"", status=status, location=location)


@dataclass
class FakeWeb:
    """One plain and one secure server at that address. A context manager. What is at no path answers 404."""

    host: str = LOOPBACK
    pages: dict[str, Answer] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> "FakeWeb":
        self.authority, key, certificate = certificates(NAMES)
        with tempfile.NamedTemporaryFile(suffix=".pem") as file:
            Path(file.name).write_bytes(key + certificate)
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(file.name)
        self._servers = [_Server(self, None), _Server(self, context)]
        self.port, self.secure_port = (server.server_address[1] for server in self._servers)
        self._threads = [threading.Thread(target=server.serve_forever, args=(0.01,)) for server in self._servers]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        for server in self._servers:
            server.shutdown()
            server.server_close()
        for thread in self._threads:
            thread.join(10)

    def url(self, path: str = "/", host: str = NAMES[0]) -> str:
        return f"http://{host}:{self.port}{path}"

    def secure(self, path: str = "/", host: str = NAMES[0]) -> str:
        return f"https://{host}:{self.secure_port}{path}"

    def allowance(self, **names: Sequence[Sequence[str]]) -> Allowance:
        """That these servers may be reached by their names, and what further names lead to (`_` for `.`)."""
        known: dict[str, tuple[tuple[str, ...], ...]] = dict.fromkeys(NAMES, ((LOOPBACK,),))
        known |= {name.replace("_", "."): tuple(map(tuple, answers)) for name, answers in names.items()}
        ports = (self.port, self.secure_port)
        return Allowance(addresses=(LOOPBACK,), ports=ports, names=known, authorities=self.authority)


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 16

    def __init__(self, web: FakeWeb, context: ssl.SSLContext | None) -> None:
        super().__init__((web.host, 0), _Handler)
        self.web = web
        self.context = context

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is what many tests are about."""


class _Handler(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        server, connection = cast(_Server, self.server), self.request
        connection.settimeout(10)
        if server.context is not None:
            connection = server.context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        with connection:
            if isinstance(connection, ssl.SSLSocket):
                connection.do_handshake()
            self._serve(server.web, connection)

    def _serve(self, web: FakeWeb, connection: socket.socket) -> None:
        raw = b""
        while b"\r\n\r\n" not in raw:
            piece = connection.recv(65536)
            if not piece:
                return
            raw += piece
            if raw[:1] == b"\x16":  # as servers do that hear TLS where they speak none
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                return
        first, *fields = raw.decode("latin-1").split("\r\n\r\n")[0].split("\r\n")
        method, path, _ = first.split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in fields)}
        web.asked.append(Asked(method, path, headers, isinstance(connection, ssl.SSLSocket)))
        said = web.pages.get(path, answer("nothing", status="404 Not Found"))
        if callable(said):
            said(connection)
        else:
            connection.sendall(said)
        if isinstance(connection, ssl.SSLSocket):
            connection.unwrap()


def certificates(names: Sequence[str], addresses: Sequence[str] = (LOOPBACK,)) -> tuple[str, bytes, bytes]:
    """An authority's certificate, and the key and the certificate that it gives to a server of these names and
    addresses."""
    now = datetime.datetime.now(datetime.UTC)
    span = (now - datetime.timedelta(hours=1), now + datetime.timedelta(hours=2))
    root_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    root_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "A test's authority")])

    def made(name: x509.Name, public: ec.EllipticCurvePublicKey, *, is_authority: bool) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(root_name)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(span[0])
            .not_valid_after(span[1])
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        )

    root = made(root_name, root_key.public_key(), is_authority=True).sign(root_key, hashes.SHA256())
    alternatives = [*map(x509.DNSName, names), *(x509.IPAddress(ipaddress.ip_address(each)) for each in addresses)]
    leaf = (
        made(x509.Name([]), key.public_key(), is_authority=False)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=True)
        .sign(root_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    plain = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return root.public_bytes(pem).decode(), plain, leaf.public_bytes(pem)
