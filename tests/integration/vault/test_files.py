"""The vault's files under kills, under two writers, and for an account without rights."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from ozzie_server_ext.observability.clock import SystemClock
from ozzie_server_ext.vault.scope import EVERYBODY, ProjectReader, Secret
from ozzie_server_ext.vault.vault import Vault
from tests.other_account import ROOT, OtherAccount

OZZIE = ProjectReader(project="/w/shop")
MAX_MOMENTS = 40

CHILD = """
import os, signal, sys
from pathlib import Path
from ozzie_server_ext.observability.clock import SystemClock
from ozzie_server_ext.vault.scope import EVERYBODY
from ozzie_server_ext.vault.scope import Secret
from ozzie_server_ext.vault.vault import Vault

folder = Path(sys.argv[1])
vault = Vault(folder / "secrets", lambda: folder / "keys", SystemClock())
"""
DYING = (
    CHILD
    + """
left = int(sys.argv[2])

def dying(call):
    def at_a_moment(*args, **more):
        global left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*args, **more)
    return at_a_moment

os.fsync, os.replace, os.unlink = dying(os.fsync), dying(os.replace), dying(os.unlink)
"""
)
WRITING = (
    CHILD
    + """
sys.stdin.readline()
for number in range(25):
    vault.set(f"{sys.argv[2]}_{number}", EVERYBODY, Secret(f"{sys.argv[2]}-{number}"), by=sys.argv[2])
    vault.set("BOTH", EVERYBODY, Secret(f"{sys.argv[2]}-{number}"), by=sys.argv[2])
"""
)

# All that a command needs is loaded first, by use: the account may have no way to this Python and its packages.
AS_ANOTHER = (
    CHILD
    + """
import getpass, importlib.metadata
import ozzie_server_ext.cli.main, ozzie_server_ext.cli.secrets
vault.set("LOADED", EVERYBODY, Secret("sk-0"), by="root")
uid, gid, *words = sys.argv[2:]
os.setgroups([])
os.setgid(int(gid))
os.setuid(int(uid))
ozzie_server_ext.cli.main.main(words)
"""
)


def vault_in(folder: Path) -> Vault:
    return Vault(folder / "secrets", lambda: folder / "keys", SystemClock())


def python(code: str, *arguments: object) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=50)


@pytest.mark.parametrize(
    "step",
    [
        'vault.set("KEY", EVERYBODY, Secret("sk-new"), by="ann")',
        'vault.rekey(by="ann")',
        'vault.protect(["keyfile"], by="ann")',
    ],
    ids=["a new value", "a new data key", "a new key file"],
)
def test_a_kill_at_any_moment_leaves_the_vault_of_before_or_of_after(tmp_path: Path, step: str) -> None:
    values: list[str] = []
    for moment in range(1, MAX_MOMENTS):
        folder = tmp_path / str(moment)
        vault_in(folder).set("KEY", EVERYBODY, Secret("sk-old"), by="ann")

        died = python(f"{DYING}\n{step}", folder, moment)
        values.append(vault_in(folder).reveal("KEY", OZZIE).reveal())
        leftovers = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
        vault_in(folder).set("AFTER", EVERYBODY, Secret("it goes on"), by="ann")

        assert not any(b"sk-" in content for content in leftovers)
        assert sorted(path.name for path in (folder / "secrets").iterdir()) == ["vault.json", "vault.lock"]
        assert vault_in(folder).reveal("AFTER", OZZIE).reveal() == "it goes on"
        if died.returncode == 0:
            break
        assert died.returncode == -signal.SIGKILL, died.stderr
    else:
        raise AssertionError("It never came to its end.")

    assert len(values) >= 4, "it died before and after the renaming"
    assert set(values) == ({"sk-old", "sk-new"} if "sk-new" in step else {"sk-old"})


def test_a_kill_while_the_first_secret_is_kept_leaves_none_or_that_one(tmp_path: Path) -> None:
    for moment in range(1, MAX_MOMENTS):
        folder = tmp_path / str(moment)
        died = python(f'{DYING}\nvault.set("KEY", EVERYBODY, Secret("sk-1"), by="ann")', folder, moment)
        found = {entry.value.reveal() for entry in vault_in(folder).entries()}
        vault_in(folder).set("AFTER", EVERYBODY, Secret("it goes on"), by="ann")

        assert found in (set(), {"sk-1"})
        if died.returncode == 0:
            return
        assert died.returncode == -signal.SIGKILL, died.stderr
    raise AssertionError("It never came to its end.")


def test_two_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITING, str(tmp_path)]
    writers = [
        subprocess.Popen([*command, name], cwd=ROOT, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for name in ("ANN", "BOB")
    ]
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        _, errors = writer.communicate(timeout=50)
        assert writer.returncode == 0, errors

    found = {entry.name: entry.value.reveal() for entry in vault_in(tmp_path).entries()}
    _, changes = vault_in(tmp_path).changes()
    (both,) = [one for one in vault_in(tmp_path).listing() if one.name == "BOTH"]

    assert {name: value for name, value in found.items() if name != "BOTH"} == {
        f"{who}_{number}": f"{who}-{number}" for who in ("ANN", "BOB") for number in range(25)
    }
    assert [change.number for change in changes] == list(range(1, 101))
    assert both.version == 100, "the last change was one of it"


@dataclass(frozen=True, slots=True)
class Stranger:
    """An account without rights, the folder that is its home, and another one to which it has no way."""

    account: OtherAccount
    folder: Path
    closed: Path

    def run(self, *words: str, value: str = "") -> "subprocess.CompletedProcess[str]":
        """The command line, without a terminal."""
        env = {
            "HOME": str(self.folder),
            "OZZIE_PATH": str(self.folder / "home"),
            "JUPYTER_RUNTIME_DIR": str(self.folder / "runtime"),
            "PYTHONPATH": str(self.account.packages),
        }
        account = (str(self.account.uid), str(self.account.gid))
        return subprocess.run(
            [sys.executable, "-B", "-c", AS_ANOTHER, str(self.closed), *account, *words],
            cwd=self.folder,
            env=env,
            input=value,
            capture_output=True,
            text=True,
            timeout=50,
            start_new_session=True,
        )


@pytest.fixture
def stranger(nobody: OtherAccount, open_folder: Path, tmp_path: Path) -> Stranger:
    os.chown(open_folder, nobody.uid, nobody.gid)
    return Stranger(nobody, open_folder, closed=tmp_path)


def test_an_account_without_rights_keeps_secrets_and_is_told_what_it_may_not(stranger: Stranger) -> None:
    kept = stranger.run("secrets", "set", "KEY", "--stdin", value="sk-1\n")
    vault, (key,) = stranger.folder / "home/secrets/vault.json", (stranger.folder / ".config/ozzie").iterdir()
    good = vault.read_bytes()
    modes = {path.name: path.stat().st_mode & 0o777 for path in (vault, vault.parent, key, key.parent)}

    def said(*words: str, value: str = "") -> str:
        done = stranger.run("secrets", *words, value=value)
        assert done.returncode == 1, done.stdout
        assert "Traceback" not in done.stderr
        return done.stderr

    assert kept.stdout == "KEY is stored, version 1.\n", kept.stderr
    assert modes == {"vault.json": 0o600, "secrets": 0o700, key.name: 0o600, "ozzie": 0o700}

    key.chmod(0o640)
    assert "can be read or changed by others, so it is not used" in said("list")
    key.chmod(0o600)
    os.chown(key, 0, 0)
    assert f"{key} can't be used: Permission denied." in said("list")
    key.chmod(0o604)
    assert f"{key} is not a file of yours, so it is not used." in said("list")
    os.chown(key, stranger.account.uid, -1)
    key.chmod(0o600)

    os.chown(vault, 0, 0)
    assert f"{vault} can't be used: Permission denied." in said("list")
    os.chown(vault, stranger.account.uid, -1)
    os.chown(vault.parent, 0, 0)
    vault.parent.chmod(0o755)
    assert f"{vault.parent} is not a folder of yours" in said("set", "OTHER", "--stdin", value="sk-2")
    assert vault.read_bytes() == good
    assert [secret["name"] for secret in json.loads(stranger.run("secrets", "list", "--json").stdout)] == ["KEY"]
