"""`ozzie mcp serve` as clients start it: nothing but the protocol on standard output, whatever they send."""

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.mcp_clients import OLDER, newer, over_stdio, text_of
from tests.rig import Gateway, GatewayHome, new_home, ozzie, start_gateway
from tests.warm import WarmPopen

pytestmark = pytest.mark.timeout(120)

WITHIN_S = 60
HELLO = {
    "jsonrpc": "2.0",
    "id": "hello",
    "method": "initialize",
    "params": {"protocolVersion": OLDER, "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}},
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with start_gateway(new_home(tmp_path_factory.mktemp("serve"))) as running:
        yield running


def served(home: GatewayHome, *lines: bytes, answers: int) -> tuple[int, list[dict[str, Any]], str]:
    """The exit status, the messages and standard error of a server that got these lines and, after so many answers, the
    end."""
    process = WarmPopen(
        [sys.executable, "-m", "ozzie_server_ext.cli.main", "mcp", "serve"],
        env=home.env,
        cwd=home.project,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"".join(lines))
    process.stdin.flush()
    first = [process.stdout.readline() for _ in range(answers)]
    out, error = process.communicate(timeout=WITHIN_S)
    return process.returncode, [json.loads(each) for each in (*first, *out.splitlines())], error.decode()


def line(message: Any) -> bytes:
    return json.dumps(message).encode() + b"\n"


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"{\n", -32700),
        (b"\xff\xfe\n", -32700),
        (b"[" * 10_000 + b"\n", -32700),
        (b"[]\n", -32600),
        (b"7\n", -32600),
        (b'{"jsonrpc":"2.0","id":[1],"method":"tools/list"}\n', -32600),
        (b'{"jsonrpc":"2.0","id":true,"method":"tools/list"}\n', -32600),
        (b'{"a":"' + b"x" * (2 << 20) + b'"}\n', -32700),
    ],
)
def test_what_is_no_message_is_answered_and_the_next_one_is_read(server: Gateway, sent: bytes, code: int) -> None:
    status, messages, error = served(server.home, sent, b"\n", line(HELLO), answers=2)

    assert status == 0, error
    assert [messages[0]["id"], messages[0]["error"]["code"]] == [None, code]
    assert messages[1]["id"] == "hello"
    assert messages[1]["result"]["serverInfo"]["name"] == "ozzie"
    assert len(messages) == 2


def test_an_error_has_the_id_of_its_request(server: Gateway) -> None:
    _, unknown = newer("no/method", 7)
    early = {"jsonrpc": "2.0", "id": 8, "method": "tools/list"}  # no session was begun
    status, messages, error = served(server.home, line(unknown), line(early), answers=2)

    assert status == 0, error
    assert {each["id"]: "error" in each for each in messages} == {7: True, 8: True}


async def test_it_starts_a_gateway_if_none_runs(home: GatewayHome) -> None:
    try:
        async with over_stdio(home, OLDER) as client:
            result = await client.call_tool("calculator", {"expr": "4*4"})
    finally:
        home.stop_gateways()

    assert text_of(result) == '{"value":"16"}'


def test_tokens_are_made_listed_and_revoked(home: GatewayHome) -> None:
    none = ozzie(home, "mcp", "token")
    made = ozzie(home, "mcp", "token", "cursor")
    listed = ozzie(home, "mcp", "token", "--json")
    revoked = ozzie(home, "mcp", "token", "cursor", "--revoke")
    again = ozzie(home, "mcp", "token", "cursor", "--revoke")
    bad = ozzie(home, "mcp", "token", "Not A Name")

    assert "No client has a token" in none.stdout
    assert made.stdout.startswith("ozzie-mcp-")
    assert len(made.stdout.split()) == 1
    assert "shown once" in made.stderr
    assert json.loads(listed.stdout) == {"clients": ["cursor"]}
    assert revoked.returncode == 0
    assert (again.returncode, "No client cursor has a token" in again.stderr) == (1, True)
    assert (bad.returncode, "small letters" in bad.stderr) == (1, True)
