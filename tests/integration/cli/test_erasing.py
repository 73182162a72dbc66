"""`ozzie sessions erase`, `ozzie messages list` and `ozzie messages erase`."""

import json
import os
import pty
import subprocess
import sys

import pytest

from tests.rig import Gateway, ozzie
from tests.warm import WarmPopen


def session_of(gateway: Gateway, name: str) -> str:
    ozzie(gateway.home, "ask", f"Say hello to {name}.", "--session", name)
    return json.loads(ozzie(gateway.home, "sessions", "show", name, "--json").stdout)["id"]


def test_a_session_is_erased_by_who_says_so(gateway: Gateway) -> None:
    session = session_of(gateway, "one")

    unasked = ozzie(gateway.home, "sessions", "erase", "one")
    assert (unasked.returncode, unasked.stdout) == (2, "")
    assert "--yes" in unasked.stderr
    assert ozzie(gateway.home, "sessions", "show", "one").returncode == 0

    erased = ozzie(gateway.home, "sessions", "erase", "one", "--yes")
    assert erased.returncode == 0, erased.stderr
    assert erased.stdout == '"one" is erased. The log keeps that it was there, not what it said.\n'
    again = ozzie(gateway.home, "sessions", "erase", session, "--yes")
    assert (again.returncode, again.stdout) == (1, "")
    assert "There is no session" in again.stderr
    verified = ozzie(gateway.home, "events", "verify", "--deep")
    assert verified.returncode == 0, verified.stderr
    assert "of them erased" in verified.stdout


@pytest.mark.parametrize(("answer", "erased"), [("y", True), ("n", False)])
def test_a_person_at_a_terminal_is_asked_with_what_goes(gateway: Gateway, answer: str, erased: bool) -> None:
    session = session_of(gateway, "two")
    here, there = pty.openpty()
    with os.fdopen(here, "wb", buffering=0) as keyboard:
        running = WarmPopen(
            [sys.executable, "-m", "ozzie_server_ext.cli.main", "sessions", "erase", "two"],
            env=dict(gateway.home.env),
            cwd=gateway.home.project,
            stdin=there,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        os.close(there)
        keyboard.write(f"{answer}\n".encode())
        printed, said = running.communicate(timeout=60)

    assert said.startswith(f"  {session}, last used 2")
    assert 'Erase "two" with 2 messages? It can\'t be undone. [y/N] ' in said
    assert ("is erased" in printed, "Nothing was erased." in said) == (erased, not erased)
    assert running.returncode == (0 if erased else 1)
    assert (ozzie(gateway.home, "sessions", "show", "two").returncode == 0) is not erased


def test_a_message_is_found_by_its_id_and_erased_with_its_turn(gateway: Gateway) -> None:
    session_of(gateway, "three")
    ozzie(gateway.home, "ask", "Say the other thing.", "--session", "three")

    lines = ozzie(gateway.home, "messages", "list", "three").stdout.splitlines()
    assert [line.split()[3] for line in lines] == ["you", "Ozzie"] * 2
    assert lines[0].endswith("Say hello to three.")
    assert max(map(len, lines)) <= 80

    erased = ozzie(gateway.home, "messages", "erase", lines[0].split()[0], "--yes")
    assert erased.returncode == 0, erased.stderr
    assert erased.stdout == "The message and its turn are erased. What other turns quote of them stays.\n"
    left = json.loads(ozzie(gateway.home, "messages", "list", "three", "--json").stdout)
    assert [message["role"] for message in left] == ["user", "assistant"]
    assert left[0]["content"] == "Say the other thing."
    unknown = ozzie(gateway.home, "messages", "erase", "01M800000000000000000000ZY", "--yes")
    assert (unknown.returncode, unknown.stdout) == (1, "")
    assert "ozzie messages list SESSION" in unknown.stderr
