"""`ozzie artifacts`: what was made is found, shown and saved."""

import asyncio
import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pexpect
import pytest

from tests.integration.gateway import asked
from tests.integration.gateway.test_rest import get
from tests.integration.made_artifacts import MADE, TASK, make_artifacts
from tests.rig import Gateway, new_home, ozzie, start_gateway
from tests.warm import WarmPopen


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Gateway, list[str]]]:
    home = new_home(tmp_path_factory.mktemp("artifacts"))
    artifact_ids = asyncio.run(make_artifacts(home))
    with start_gateway(home) as gateway:
        yield gateway, artifact_ids


def test_they_are_listed_with_kind_size_and_version(made: tuple[Gateway, list[str]]) -> None:
    gateway, ids = made

    shown = ozzie(gateway.home, "artifacts", "list").stdout.splitlines()
    found = json.loads(ozzie(gateway.home, "artifacts", "list", "--kind", "log", "--task", TASK, "--json").stdout)

    assert [line.split()[0] for line in shown] == ids[::-1]
    assert shown[0].split() == [ids[5], "log", "3", "bytes", "v2", "out.txt"]
    assert max(map(len, shown)) <= 80
    assert [item["artifact_id"] for item in found] == [ids[5], ids[0]]


def test_a_search_finds_what_is_in_them_and_how_to_show_it(made: tuple[Gateway, list[str]]) -> None:
    gateway, ids = made

    shown = ozzie(gateway.home, "search", "größe").stdout.splitlines()

    assert shown[1:] == ["    out.txt *größe*", f"    show it with: ozzie artifacts show {ids[0]}", "1 found."]


def test_one_is_shown_with_where_it_came_from(made: tuple[Gateway, list[str]]) -> None:
    gateway, ids = made

    shown = ozzie(gateway.home, "artifacts", "show", ids[0])

    assert shown.returncode == 0
    assert "log, text/plain, 8 bytes" in shown.stdout
    assert f"1, the next is {ids[5]}" in shown.stdout
    assert TASK in shown.stdout
    assert json.loads(ozzie(gateway.home, "artifacts", "show", ids[0], "--json").stdout)["version"] == 1


def test_its_content_is_printed_or_written_into_a_new_file(made: tuple[Gateway, list[str]]) -> None:
    gateway, ids = made
    target = gateway.home.project / "picture.png"

    printed = ozzie(gateway.home, "artifacts", "get", ids[0])
    written = ozzie(gateway.home, "artifacts", "get", ids[4], "--output", "picture.png")
    again = ozzie(gateway.home, "artifacts", "get", ids[0], "--output", "picture.png", "--json")

    assert printed.stdout == "größe\n"
    assert written.stdout == f"8 bytes written to {target}.\n"
    assert target.read_bytes() == MADE[4][0], "it is not written over"
    assert again.returncode == 1
    assert "exists already" in again.stderr


@pytest.mark.parametrize("name", ["nonesuch", "01M800000000000000000000ZZ", "../tasks"])
def test_one_that_there_is_not_is_told(made: tuple[Gateway, list[str]], name: str) -> None:
    for verb in ("show", "get", "rm"):
        refused = ozzie(made[0].home, "artifacts", verb, name)

        assert refused.returncode == 1
        assert f"There is no artifact {name}" in refused.stderr


def test_one_is_erased_by_who_says_so_and_every_verb_tells_it(made: tuple[Gateway, list[str]]) -> None:
    gateway, ids = made
    one = ids[3]

    unasked = ozzie(gateway.home, "artifacts", "rm", one)
    assert (unasked.returncode, unasked.stdout) == (2, "")
    assert "--yes" in unasked.stderr
    assert ozzie(gateway.home, "artifacts", "get", one).returncode == 0

    erased = ozzie(gateway.home, "artifacts", "rm", one, "--yes")
    assert (erased.returncode, erased.stdout) == (0, "evil.svg is erased.\n")

    listed = ozzie(gateway.home, "artifacts", "list").stdout.splitlines()
    assert listed[2].split() == [one, "image", "erased", "v1", "evil.svg"]
    told = f"It was erased on {datetime.now(UTC):%Y-%m-%d} by "
    assert told in ozzie(gateway.home, "artifacts", "show", one).stdout
    for verb in (["get"], ["rm", "--yes"]):
        refused = ozzie(gateway.home, "artifacts", *verb, one)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert f"evil.svg has no content any more. {told}" in refused.stderr


@pytest.mark.parametrize(("answer", "erased"), [("y", True), ("yes", True), ("", False), ("n", False)])
def test_a_person_at_a_terminal_is_asked_with_name_and_size(
    made: tuple[Gateway, list[str]], answer: str, erased: bool
) -> None:
    gateway, ids = made
    one = ids[4] if erased and answer == "y" else ids[2] if erased else ids[1]

    here, there = pty.openpty()
    command = [sys.executable, "-m", "ozzie_server_ext.cli.main", "artifacts", "rm", one]
    with os.fdopen(here, "wb", buffering=0) as keyboard:
        running = WarmPopen(
            command,
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

    name, size = MADE[ids.index(one)][2], len(MADE[ids.index(one)][0])
    assert f"\nErase {name}, version 1, {size} bytes? It can't be undone. [y/N] " in said
    shown = ozzie(gateway.home, "artifacts", "show", one).stdout
    assert all(fact in shown for fact in said.split("\nErase ")[0].splitlines())
    assert running.returncode == (0 if erased else 1)
    assert printed == (f"{name} is erased.\n" if erased else "")
    assert ("Nothing was erased." in said) is not erased
    shown = json.loads(ozzie(gateway.home, "artifacts", "show", one, "--json").stdout)
    assert (shown["erased"] is not None) is erased


@pytest.mark.parametrize("key", ["c", "d"])
def test_before_one_is_erased_it_is_told_where_it_came_from_and_an_interrupt_erases_nothing(
    tmp_path: Path, key: str
) -> None:
    with start_gateway(new_home(tmp_path)) as gateway:
        (gateway.home.project / "notes").mkdir()
        (gateway.home.project / "notes" / "a.md").write_text("")
        approval = asked.asked(gateway, asked.write("a.md"))
        ozzie(gateway.home, "approvals", "approve", approval["approval_id"])
        task = asked.ended(gateway, approval["task_id"])
        (kept,) = get(gateway, "artifacts")["items"]
        terminal = pexpect.spawn(
            sys.executable,
            ["-m", "ozzie_server_ext.cli.main", "artifacts", "rm", kept["artifact_id"]],
            env=dict(gateway.home.env),
            cwd=str(gateway.home.project),
            encoding="utf-8",
            timeout=60,
        )
        terminal.expect_exact("[y/N] ")
        told = terminal.before
        for _ in range(10):  # what comes before readline listens is lost, and a person presses it again
            terminal.sendcontrol(key)
            if terminal.expect([pexpect.EOF, pexpect.TIMEOUT], timeout=5) == 0:
                break
        terminal.close()
        shown = ozzie(gateway.home, "artifacts", "show", kept["artifact_id"]).stdout
        left = get(gateway, f"artifacts/{kept['artifact_id']}")["erased"]

    made = datetime.fromisoformat(kept["ts"]).astimezone()
    for fact in (
        "  kind      file, text/plain, 0 bytes",
        f"  made      {made:%Y-%m-%d %H:%M:%S}",
        f"  task      {task['task_id']}, {task['title'][:20]}",
        f"  call      {kept['call_id']}, write_file",
    ):
        assert told is not None
        assert fact in told
        assert fact in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert terminal.before is not None
    assert terminal.before.splitlines()[-1] == "Nothing was erased."
    assert (terminal.exitstatus, left) == (1, None)
