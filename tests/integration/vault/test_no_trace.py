"""A key of the vault reaches the provider, and stands nowhere else."""

import json
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.fakes.openai_server import FakeOpenAI
from tests.rig import GatewayHome, start_gateway
from tests.traces import Search

FIRST, SECOND = "sk-first-7f3a91c2d4e8", "sk-second-0b6d5e1f9a27"
PASSPHRASE = "correct horse battery"


def ozzie(home: GatewayHome, *words: str, given: str = "") -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "ozzie_server_ext.cli.main", *words]
    return subprocess.run(
        command, env=dict(home.env), cwd=home.project, input=given, capture_output=True, text=True, timeout=60
    )


def in_processes(search: Search, pid: int) -> list[str]:
    """What the environments and command lines of the gateway and all below it show."""
    gateway = psutil.Process(pid)
    below = gateway.children(recursive=True)
    assert below, "the model worker runs"
    return search.processes([gateway, *below])


@pytest.mark.cold
@pytest.mark.timeout(180)
def test_a_key_stands_in_no_file_event_environment_or_command_line(home: GatewayHome, tmp_path: Path) -> None:
    printed: list[str] = []
    search = Search({"the first": FIRST, "the second": SECOND, "the passphrase": PASSPHRASE})

    def say(*words: str, given: str = "", status: int = 0) -> str:
        done = ozzie(home, *words, given=given)
        assert done.returncode == status, done.stdout + done.stderr
        printed.extend((done.stdout, done.stderr))
        return done.stdout + done.stderr

    with FakeOpenAI(keys=frozenset({FIRST, SECOND})) as provider:
        provider_settings = {
            "driver": "openai",
            "model": "echo",
            "base_url": provider.base_url,
            "auth": {"type": "api_key", "vault": "PROVIDER_KEY"},
        }
        home.configure({"models": {"default": "main", "providers": {"main": provider_settings}}})
        say("secrets", "set", "PROVIDER_KEY", "--stdin", given=f"{FIRST}\n")
        with start_gateway(home) as gateway:
            say("ask", "hello")
            first = provider.requests[-1].headers.get("authorization")
            shown = in_processes(search, gateway.process.pid)
            listed = say("models", "list")
            say("secrets", "rotate", "PROVIDER_KEY", "--stdin", given=SECOND)
            say("ask", "hello again")
            second = provider.requests[-1].headers.get("authorization")
            shown += in_processes(search, gateway.process.pid)
            say("secrets", "export", str(tmp_path / "export"), "--stdin", given=f"{PASSPHRASE}\n")
            say("secrets", "rotate")
            say("ask", "and again")
            say("secrets", "protect", "--with", "passphrase", "--stdin", given=f"{PASSPHRASE}\n")
            say("secrets", "lock")
            locked = say("ask", "is it locked", status=1)
            say("secrets", "unlock", "--stdin", given=f"{PASSPHRASE}\n")
            say("ask", "open again")
            say("secrets", "protect", "--with", "keyfile", "--stdin", given=f"{PASSPHRASE}\n")
            say("secrets", "rm", "PROVIDER_KEY", "--yes")
            removed = say("ask", "is it gone", status=1)
            asked = len(provider.requests)
            events = json.loads(say("events", "tail", "--json", "--type", "secret.changed", "--limit", "50"))

    assert (first, second) == (f"Bearer {FIRST}", f"Bearer {SECOND}")
    assert asked == 4, "nothing was asked without a key"
    assert "key from the vault" in listed
    assert 'The key for "main" (PROVIDER_KEY) is in the vault, which is locked.' in locked
    assert "Unlock it with ozzie secrets unlock" in locked
    assert 'There is no key for "main": PROVIDER_KEY is not set.' in removed
    assert "Set it with ozzie secrets set PROVIDER_KEY" in removed
    assert {event["type"] for event in events} == {"secret.changed"}
    assert sorted(
        (said["number"], said["action"], said["version"]) for event in events for said in [event["payload"]]
    ) == [
        (1, "set", 1),
        (2, "replaced", 2),
        (3, "rekeyed", 0),
        (4, "protected", 0),
        (5, "protected", 0),
        (6, "removed", 2),
    ]
    assert shown == []
    assert search.texts(printed, "what was printed") == []
    assert search.files(tmp_path) == []
