"""`ozzie secrets` as a person meets it: typed or piped values, refusals in words, nothing shown."""

import json
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests import rig, terminal
from tests.rig import Gateway, GatewayHome
from tests.warm import WarmPopen

VALUE = "sk-typed-0123456789"
PASSPHRASE = "correct horse battery"


def ozzie(home: GatewayHome, *words: str, given: str | bytes = "") -> "subprocess.CompletedProcess[str]":
    """Run `ozzie secrets` without a terminal."""
    pipe = subprocess.PIPE
    command = [sys.executable, "-m", "ozzie_server_ext.cli.main", "secrets", *words]
    with WarmPopen(
        command, env=dict(home.env), cwd=home.project, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
    ) as process:
        out, err = process.communicate(given if isinstance(given, bytes) else given.encode(), 60)
    return subprocess.CompletedProcess(command, process.returncode, out.decode(), err.decode())


def typed(home: GatewayHome, *words: str, answers: Sequence[tuple[str, str]]) -> tuple[int, str]:
    """Run `ozzie secrets` at a terminal, and type a line at each prompt."""
    return terminal.typed(home, "secrets", *words, answers=[(prompt, f"{line}\n") for prompt, line in answers])


def listed(home: GatewayHome) -> list[dict[str, object]]:
    return json.loads(ozzie(home, "list", "--json").stdout)


def test_a_value_that_is_typed_is_not_shown(home: GatewayHome) -> None:
    status, seen = typed(home, "set", "KEY", answers=[("Value of KEY (it is not shown): ", VALUE)])
    (key,) = listed(home)

    assert status == 0, seen
    assert "KEY is stored, version 1." in seen
    assert VALUE not in seen
    assert set(key) == {"name", "scope", "version", "changed_at", "by"}
    assert (key["name"], key["scope"], key["version"]) == ("KEY", "everybody", 1)


def test_each_scope_has_its_own_value(home: GatewayHome) -> None:
    said = [
        ozzie(home, "set", "KEY", "--stdin", *scope, given="x").stdout
        for scope in ([], ["--project", "."], ["--plugin", "telegram"])
    ]
    removed = ozzie(home, "rm", "KEY", "--plugin", "telegram", "--yes")

    assert said == [
        "KEY is stored, version 1.\n",
        f"KEY (project:{home.project}) is stored, version 2.\n",
        "KEY (plugin:telegram) is stored, version 3.\n",
    ]
    assert removed.stdout == "KEY (plugin:telegram) is removed.\n"
    assert [key["scope"] for key in listed(home)] == ["everybody", f"project:{home.project}"]
    assert "KEY" in ozzie(home, "list").stdout


@pytest.mark.parametrize("given", ["sk-1\n", "sk-1\r\n", "sk-1"])
def test_one_line_break_at_the_end_does_not_belong_to_the_value(home: GatewayHome, given: str) -> None:
    done = ozzie(home, "set", "KEY", "--stdin", given=given)

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("words", "given", "says", "hint"),
    [
        (["set", "KEY", "--stdin"], "", "The value is empty.", "To remove a secret, use ozzie secrets rm."),
        (["set", "KEY", "--stdin"], "\n", "The value is empty.", "To remove a secret, use ozzie secrets rm."),
        (["set", "KEY", "--stdin"], "a\n\n", "The value contains a line break", "Copy it again, as one line of text."),
        (["set", "KEY", "--stdin"], "a\0b", "The value contains a line break", "Copy it again, as one line of text."),
        (["set", "KEY", "--stdin"], "x" * 65_537, "The value is longer than 65,536 bytes.", "Store it in a file"),
        (["set", "KEY", "--stdin"], "x" * 200_000, "The value is longer than 65,536 bytes.", "Store it in a file"),
        (["set", "KEY", "--stdin"], b"\xff\xfe", "Standard input is not UTF-8 text.", ""),
        (["set", "KEY"], "sk-1", "There is no terminal to type it at.", "Give it on standard input, with --stdin"),
        (["set", "sk-abc", "--stdin"], "x", "This is not a valid name for a secret.", "A name has at most 128 letters"),
        (["set", "KEY", "--stdin", "--plugin", "a b"], "x", "A secret belongs to everybody", "A folder's name"),
        (["rm", "KEY"], "", "There is no secret KEY.", "See ozzie secrets list"),
        (["rotate", "KEY", "--stdin"], "x", "There is no secret KEY.", "See ozzie secrets list"),
        (["rotate"], "", "There is no secret yet.", "Store one with ozzie secrets set NAME."),
        (["import", "nowhere", "--stdin"], "x", "There is no file", ""),
        (
            ["export", "file", "--stdin"],
            "short\n",
            "A passphrase has at least 8 characters.",
            "Use several words.",
        ),
        (
            ["export", "file", "--stdin"],
            "",
            "Standard input ended before the passphrase.",
            "Give one passphrase a line.",
        ),
        (["protect", "--with", "passphrase"], "", "There is no terminal to type it at.", "Give it on standard input"),
        (["lock"], "", "No gateway runs for", "Start one with ozzie gateway"),
    ],
)
def test_what_can_not_be_done_is_said_with_what_to_do(
    home: GatewayHome, words: list[str], given: str | bytes, says: str, hint: str
) -> None:
    done = ozzie(home, *words, given=given)
    error = json.loads(ozzie(home, *words, "--json", given=given).stderr)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"ozzie: {says}")
    assert error["message"].startswith(says)
    assert error["hint"].startswith(hint)
    assert "sk-" not in done.stderr
    assert not (home.home / "secrets" / "vault.json").exists()


@pytest.mark.parametrize("words", ["set KEY --stdin", "protect --with passphrase --stdin", "import file --stdin"])
def test_a_standard_input_that_is_closed_is_said(home: GatewayHome, words: str) -> None:
    command = f"{shlex.quote(sys.executable)} -m ozzie_server_ext.cli.main secrets {words} <&-"

    done = subprocess.run(["bash", "-c", command], env=dict(home.env), capture_output=True, text=True, timeout=60)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [
        "ozzie: Standard input is closed.",
        "Pipe the value into it, or leave out --stdin to type it.",
    ]


@pytest.mark.parametrize(
    "words",
    [
        ["set", "KEY", VALUE],
        ["set", "KEY", f"--value={VALUE}"],
        ["set", VALUE],
        ["set", f"KEY={VALUE}"],
        ["set", "KEY", "--json", VALUE],
        ["rotate", "KEY", VALUE],
        ["rm", "KEY", VALUE],
        ["unlock", VALUE],
        ["export", "file", VALUE],
        ["import", "file", "--passphrase", VALUE],
        ["protect", "--with", VALUE],
        ["protect", "--with", "passphrase", VALUE],
    ],
)
def test_a_value_that_is_given_as_an_argument_is_refused_and_not_repeated(home: GatewayHome, words: list[str]) -> None:
    done = ozzie(home, *words)

    assert done.returncode in (1, 2)
    assert done.stdout == ""
    assert VALUE not in done.stderr
    assert not (home.home / "secrets" / "vault.json").exists()


def test_one_is_removed_after_a_yes_of_a_person_or_with_one_in_the_command(home: GatewayHome) -> None:
    for name in ("FIRST", "SECOND"):
        ozzie(home, "set", name, "--stdin", given="x")
    question = "Remove FIRST? It can't be undone. [y/N] "
    nobody = ozzie(home, "rm", "FIRST")
    no = typed(home, "rm", "FIRST", answers=[(question, "n")])
    yes = typed(home, "rm", "FIRST", answers=[(question, "y")])
    at_once = ozzie(home, "rm", "SECOND", "--yes")

    assert (nobody.returncode, nobody.stderr) == (
        2,
        "ozzie: Nobody can be asked here whether to remove it.\nSay so with --yes.\n",
    )
    assert (no[0], "Nothing was removed." in no[1]) == (1, True)
    assert (yes[0], "FIRST is removed." in yes[1]) == (0, True)
    assert (at_once.returncode, at_once.stdout) == (0, "SECOND is removed.\n")
    assert listed(home) == []


def test_the_refusal_of_an_argument_says_why(home: GatewayHome) -> None:
    assert ozzie(home, "set", "KEY", VALUE).stderr == (
        "ozzie: A value is never an argument: the process list and the shell's history show those. It was not stored, "
        "and is not repeated here; if it was a secret, replace it at its provider.\nSee ozzie secrets set --help.\n"
    )
    assert ozzie(home, "protect", "--with", VALUE).stderr == (
        "ozzie: --with takes one of keyfile, passphrase, keyring.\nSee ozzie secrets protect --help.\n"
    )


def test_a_secret_of_both_a_project_and_a_plugin_is_none(home: GatewayHome) -> None:
    done = ozzie(home, "set", "KEY", "--stdin", "--project", ".", "--plugin", "telegram", given="x")

    assert done.returncode == 2
    assert "A secret belongs to a project or to a plugin, not to both." in done.stderr


def test_sealing_all_anew_takes_no_value(home: GatewayHome) -> None:
    ozzie(home, "set", "KEY", "--stdin", given="x")
    refused, done = ozzie(home, "rotate", "--stdin", given="y"), ozzie(home, "rotate", "--json")

    assert "Without a name, all secrets are encrypted with a new key; that takes no value." in refused.stderr
    assert json.loads(done.stdout) == {"rekeyed": 1}


def test_a_passphrase_is_asked_for_where_it_is_needed(home: GatewayHome) -> None:
    ozzie(home, "set", "KEY", "--stdin", given=VALUE)
    new, again = "New passphrase of the vault: ", "The same once more: "
    differing = typed(home, "protect", "--with", "passphrase", answers=[(new, PASSPHRASE), (again, "another one")])
    protected = typed(home, "protect", "--with", "passphrase", answers=[(new, PASSPHRASE), (again, PASSPHRASE)])
    listing = ozzie(home, "list")
    nobody = ozzie(home, "rm", "KEY", "--yes")
    wrong = typed(home, "rm", "KEY", "--yes", answers=[("Passphrase of the vault: ", "something else")])
    right = typed(home, "rm", "KEY", "--yes", answers=[("Passphrase of the vault: ", PASSPHRASE)])

    assert differing[0] == 1
    assert "The two passphrases differ. Nothing was changed." in differing[1]
    assert protected[0] == 0, protected[1]
    assert "If that is lost, the values are lost." in protected[1]
    assert "KEY" in listing.stdout
    assert "The vault is locked, so these names could not be verified." in listing.stdout
    assert "The vault asks for its passphrase, and there is no terminal to type it at." in nobody.stderr
    assert wrong[0] == 1
    assert "This passphrase does not open the vault." in wrong[1]
    assert right == (0, right[1])
    assert "KEY is removed." in right[1]
    assert PASSPHRASE not in protected[1] + right[1]


def test_what_was_exported_can_be_imported_elsewhere(home: GatewayHome, tmp_path: Path) -> None:
    file, line = str(tmp_path / "export"), f"{PASSPHRASE}\n"
    ozzie(home, "set", "KEY", "--stdin", given=VALUE)
    ozzie(home, "set", "KEY", "--plugin", "telegram", "--stdin", given="bot")
    exported = ozzie(home, "export", file, "--stdin", given=line)
    ozzie(home, "rm", "KEY", "--yes")
    imported = ozzie(home, "import", file, "--stdin", given=line)
    ozzie(home, "rotate", "KEY", "--stdin", given="another value")
    refused = ozzie(home, "import", file, "--stdin", given=line)
    replaced = ozzie(home, "import", file, "--replace", "--stdin", "--json", given=line)
    wrong = ozzie(home, "import", file, "--stdin", given="another passphrase\n")

    assert exported.stdout == f"2 secrets exported to {file}. Only its passphrase opens it.\n"
    assert imported.stdout == "1 secret imported. Already here: 1.\n"
    assert refused.returncode == 1
    assert "1 secret of the file would replace other values, such as KEY. Nothing was imported." in refused.stderr
    assert "Give --replace to use the values of the file." in refused.stderr
    assert json.loads(replaced.stdout) == {"imported": 1, "unchanged": 1}
    assert "or the file was changed." in wrong.stderr


def test_status_tells_how_the_vault_is_and_no_name(gateway: Gateway) -> None:
    home = gateway.home

    def status(*words: str) -> str:
        return rig.ozzie(home, "status", *words).stdout

    assert "  vault    none\n" in status()
    ozzie(home, "set", "MY_KEY", "--stdin", given=VALUE)
    ozzie(home, "set", "MY_KEY", "--plugin", "telegram", "--stdin", given="bot")
    assert "  vault    2 secrets, open, protected by a key file that only you can read\n" in status()
    passphrase = f"{PASSPHRASE}\n"
    ozzie(home, "protect", "--with", "passphrase", "--with", "keyfile", "--stdin", given=passphrase)
    assert "2 secrets, open, protected by a passphrase or a key file that only you can read\n" in status()
    ozzie(home, "protect", "--with", "passphrase", "--stdin", given=passphrase)
    ozzie(home, "lock")
    locked, as_json = status(), json.loads(status("--json"))
    ozzie(home, "unlock", "--stdin", given=passphrase)
    unlocked = json.loads(status("--json"))["vault"]
    (home.home / "secrets" / "vault.json").write_text("{}")
    damaged = status()

    assert "  vault    2 secrets, locked (ozzie secrets unlock), protected by a passphrase\n" in locked
    assert as_json["vault"] == {"opens_with": ["passphrase"], "locked": True, "secrets": 2}
    assert unlocked == {"opens_with": ["passphrase"], "locked": False, "secrets": 2}
    assert "  vault    can't be used\n" in damaged
    assert "vault.json is not what Ozzie wrote there: it does not begin like a vault." in damaged
    assert not [text for text in (locked, json.dumps(as_json), damaged) if "MY_KEY" in text or VALUE in text]


def test_a_gateway_that_runs_is_told_of_each_change_at_once(gateway: Gateway) -> None:
    home = gateway.home
    first = ozzie(home, "set", "KEY", "--stdin", given=VALUE)
    nothing = ozzie(home, "unlock")
    refused = ozzie(home, "lock")
    done = rig.ozzie(home, "events", "tail", "--json", "--type", "secret.changed")

    (event,) = json.loads(done.stdout)
    assert (first.returncode, first.stderr) == (0, "")
    assert {name: event["payload"][name] for name in ("name", "scope", "version", "action")} == {
        "name": "KEY",
        "scope": "everybody",
        "version": 1,
        "action": "set",
    }
    assert VALUE not in done.stdout
    assert nothing.stdout == "The vault has no passphrase, so there is nothing to unlock.\n"
    assert "The vault opens without a person, so it would not stay locked." in refused.stderr
