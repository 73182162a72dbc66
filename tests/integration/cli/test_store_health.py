"""A store that can't be written, or was damaged: what health, `ozzie status` and the commands say of it."""

import json
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.integration.cli.test_verify import health
from tests.integration.store.test_full_disk import SMALL, may_mount, mount
from tests.rig import Gateway, GatewayHome, new_home, ozzie, start_gateway
from tests.tiers import rows

MEGABYTE = 1 << 20


def said(home: GatewayHome) -> str:
    """What `ozzie status` prints, in one line."""
    return " ".join(ozzie(home, "status").stdout.split())


@contextmanager
def limited(gateway: Gateway, most: int) -> Iterator[None]:
    """No file of the gateway may grow beyond that."""
    before = resource.prlimit(gateway.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(gateway.process.pid, resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        yield
    finally:
        resource.prlimit(gateway.process.pid, resource.RLIMIT_FSIZE, before)


def test_a_store_that_can_not_be_written_shows_until_it_can(gateway: Gateway) -> None:
    home = gateway.home
    assert health(home)["store"]["warnings"] == []
    with limited(gateway, 4096):
        assert ozzie(home, "ask", "hello").returncode != 0
        found = health(home)
        assert (found["status"], len(found["store"]["warnings"])) == ("degraded", 1)
        assert "The event log can't be used" in found["store"]["warnings"][0]
        assert "may not make files any larger: raise the limit (ulimit -f)" in found["store"]["warnings"][0]
        assert "raise the limit (ulimit -f)" in said(home)

    assert (health(home)["status"], health(home)["store"]["warnings"]) == ("ok", [])
    assert ozzie(home, "ask", "hello").returncode == 0


@pytest.mark.skipif(not may_mount(), reason="file systems can't be mounted here")
def test_a_full_disk_shows_until_there_is_room(tmp_path: Path) -> None:
    home = new_home(tmp_path)
    mount("-t", "tmpfs", "-o", f"size={SMALL}", "ozzie-test", str(home.home))
    try:
        with start_gateway(home):
            (home.home / "ballast").write_bytes(b"")
            _fill(home.home / "ballast")
            assert ozzie(home, "ask", "hello").returncode != 0
            full = health(home)["store"]["warnings"]
            assert len(full) >= 1
            assert all("is full: free some disk space" in warning for warning in full)
            assert "is full: free some disk space" in said(home)

            mount("-o", f"remount,size={64 * MEGABYTE}", str(home.home))

            assert health(home)["store"]["warnings"] == []
            assert ozzie(home, "ask", "hello").returncode == 0
    finally:
        subprocess.run(["umount", "-l", str(home.home)], check=True, capture_output=True, timeout=20)


def _fill(path: Path) -> None:
    """Write until nothing more goes onto the disk."""
    with open(path, "ab", buffering=0) as file:
        for _ in range(64 * MEGABYTE // 4096):
            try:
                file.write(bytes(4096))
            except OSError:
                return
    raise AssertionError("the disk does not fill")


@pytest.mark.skipif(not may_mount(), reason="file systems can't be mounted here")
def test_little_room_is_told_before_there_is_none(tmp_path: Path) -> None:
    home = new_home(tmp_path)
    mount("-t", "tmpfs", "-o", f"size={8 * MEGABYTE}", "ozzie-test", str(home.home))
    try:
        with start_gateway(home):
            (warning,) = health(home)["store"]["warnings"]
            assert "MB left: free some disk space." in warning
            assert ozzie(home, "ask", "hello").returncode == 0
    finally:
        subprocess.run(["umount", "-l", str(home.home)], check=True, capture_output=True, timeout=20)


# --- deep ---------------------------------------------------------------------------------------------


def a_blob(home: GatewayHome) -> Path:
    return next(path for path in sorted((home.home / "data" / "blobs").glob("??/*")) if path.stat().st_size)


def test_verify_deep_looks_at_everything_and_tells_how_to_mend_a_table(used: GatewayHome) -> None:
    good = ozzie(used, "events", "verify", "--deep")
    assert (good.returncode, "and the tables match the log." in good.stdout) == (0, True)
    with closing(sqlite3.connect(used.home / "data" / "ozzie.db", isolation_level=None)) as database:
        database.execute("UPDATE tasks SET status = 'FAILED'")

    assert ozzie(used, "events", "verify").returncode == 0
    bad = ozzie(used, "events", "verify", "--deep")
    assert bad.returncode == 1
    assert "The table tasks is not what the log says" in bad.stdout
    assert "ozzie events rebuild" in bad.stdout
    assert ozzie(used, "events", "rebuild").returncode == 0
    with start_gateway(used):
        assert ozzie(used, "events", "verify", "--deep").returncode == 0


def test_verify_deep_as_json_lists_the_faults(used: GatewayHome) -> None:
    blob = a_blob(used)
    blob.write_bytes(b"something else")

    done = ozzie(used, "events", "verify", "--deep", "--json")

    found = json.loads(done.stdout)
    assert (done.returncode, found["ok"], found["bad_position"]) == (1, False, None)
    (fault,) = found["faults"]
    assert f"The content of the blob {blob} was changed" in fault["what"]
    assert fault["hint"] == f"Put {blob} back from a backup."


def test_what_the_daily_check_found_shows(used: GatewayHome) -> None:
    checked = {"at": "2026-01-02T03:04:05Z", "findings": ["The blob x was changed."]}
    (used.home / "data" / "check.json").write_text(json.dumps(checked))
    with start_gateway(used):
        found = health(used)
        assert found["status"] == "degraded"
        assert found["store"]["checked_at"].startswith("2026-01-02T03:04:05")
        assert found["store"]["findings"] == ["The blob x was changed."]
        assert "The blob x was changed." in said(used)
        assert "checked 2026-01-0" in said(used)


# --- read-only ----------------------------------------------------------------------------------------


def as_an_ordinary_account(home: GatewayHome, *words: str) -> "subprocess.CompletedProcess[str]":
    """The command line, as somebody for whom the modes of files count."""
    command = [sys.executable, "-m", "ozzie_server_ext.cli.main", *words]
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("root can't step back here")
        dropped = "-dac_override,-dac_read_search,-fowner,-chown"
        command = ["setpriv", f"--bounding-set={dropped}", f"--inh-caps={dropped}", *command]
    return subprocess.run(command, env=dict(home.env), cwd=home.project, capture_output=True, text=True, timeout=60)


READ_ONLY: dict[str, tuple[str, int, str]] = {
    "the folder": ("data", 0o500, "The folder {path} is read-only: make it writable with chmod u+wx."),
    "the database": ("data/ozzie.db", 0o400, "The file {path} is read-only: make it writable with chmod u+w."),
    "the blobs": ("data/blobs", 0o500, "The folder {path} is read-only: make it writable with chmod u+wx."),
}


@pytest.mark.parametrize("what", rows(READ_ONLY, "the database"))
def test_a_read_only_home_is_told_by_what_is_read_only(used: GatewayHome, what: str) -> None:
    name, mode, hint = READ_ONLY[what]
    path = used.home / name
    before = path.stat().st_mode
    used.configure({"budgets": {"task": {"max_tokens": 1_000_000}}})  # it is recorded as a blob
    path.chmod(mode)
    try:
        asked = as_an_ordinary_account(used, "ask", "hello")
        verified = as_an_ordinary_account(used, "events", "verify")
    finally:
        path.chmod(before)
        used.stop_gateways()

    assert asked.returncode != 0
    assert " ".join(hint.format(path=path).split()) in " ".join((asked.stdout + asked.stderr).split())
    assert "Traceback" not in asked.stderr
    assert verified.returncode == 0, "what can be read can be verified"
    with start_gateway(used):
        assert ozzie(used, "ask", "once it can be written").returncode == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_home_of_another_account_is_told_so(used: GatewayHome) -> None:
    database = used.home / "data" / "ozzie.db"
    os.chown(database, 65534, -1)
    try:
        asked = as_an_ordinary_account(used, "ask", "hello")
    finally:
        os.chown(database, 0, -1)
    assert f"{database} belongs to another account" in " ".join(asked.stderr.split())


@pytest.mark.skipif(not may_mount(), reason="file systems can't be mounted here")
def test_a_disk_that_is_mounted_read_only_is_told_so(used: GatewayHome) -> None:
    mount("--bind", str(used.home), str(used.home))
    try:
        mount("-o", "remount,bind,ro", str(used.home))
        asked = ozzie(used, "ask", "hello")
        verified = ozzie(used, "events", "verify", "--deep")
    finally:
        subprocess.run(["umount", "-l", str(used.home)], check=True, capture_output=True, timeout=20)
    assert asked.returncode != 0
    assert "is on a disk that is mounted read-only" in " ".join(asked.stderr.split())
    assert verified.returncode == 0
