"""`ozzie sessions export`, `verify` and `key`: from a session to a file, and back to whether it is as recorded."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rig import Gateway, GatewayHome, new_home, ozzie, start_gateway


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with start_gateway(new_home(tmp_path_factory.mktemp("export"))) as running:
        for text in ("What is 17.5 % of 2,480? Use the calculator.", "Say hello."):
            ozzie(running.home, "ask", text, "--session", "sums")
        yield running


def other_home(folder: Path) -> GatewayHome:
    """A home in which no Ozzie has run yet."""
    (folder / "other").mkdir()
    return new_home(folder / "other")


def exported(gateway: Gateway, folder: Path, form: str = "ipynb") -> Path:
    path = folder / f"sums.{form}"
    done = ozzie(gateway.home, "sessions", "export", "sums", "--to", str(path))
    assert (done.returncode, done.stdout) == (0, f"{done.stdout.split(' written')[0]} written to {path}.\n")
    return path


@pytest.mark.parametrize(
    ("form", "begins"), [("md", "# sums\n"), ("html", "<!DOCTYPE html>\n"), ("jsonl", '{"position"')]
)
def test_a_session_is_written_in_the_form_of_the_files_name(
    gateway: Gateway, tmp_path: Path, form: str, begins: str
) -> None:
    text = exported(gateway, tmp_path, form).read_text()

    assert text.startswith(begins)
    assert "17.5 %" in text
    assert "434" in text


def test_a_notebook_is_checked_with_the_key_of_this_home(gateway: Gateway, tmp_path: Path) -> None:
    path = exported(gateway, tmp_path)

    checked = ozzie(gateway.home, "sessions", "verify", str(path))

    session, when, signed, cells, summary = checked.stdout.splitlines()
    assert checked.returncode == 0
    assert session.startswith("sums.ipynb: the session sess_")
    assert when.startswith("exported on 20")
    assert signed == "It is signed with the key of this home."
    assert cells == "  cell       1-3  as recorded"
    assert summary == "3 of 3 cells are as exported."


def test_what_was_changed_is_named(gateway: Gateway, tmp_path: Path) -> None:
    path = exported(gateway, tmp_path)
    notebook = json.loads(path.read_text())
    notebook["cells"][1]["source"] = "What is 17.5 % of 2,481?"
    del notebook["cells"][2]
    path.write_text(json.dumps(notebook))

    checked = ozzie(gateway.home, "sessions", "verify", str(path))
    told = json.loads(ozzie(gateway.home, "sessions", "verify", str(path), "--json").stdout)

    assert checked.returncode == 1
    assert checked.stdout.splitlines()[3:] == [
        "  cell         1  as recorded",
        "  cell         2  changed since: its text",
        "  cell         -  missing: number 3, which stood after what is number 2 now",
        "1 of 2 cells are as exported, and 1 cell is missing.",
    ]
    assert (told["ok"], told["signature"], told["log_at_hand"]) == (False, "trusted", "same")
    assert [(cell["number"], cell["was"], cell["verdict"]) for cell in told["cells"]] == [
        (1, 1, "as recorded"),
        (2, 2, "changed since"),
        (None, 3, "missing"),
    ]


def test_somebody_else_checks_it_with_the_key_that_they_were_given(gateway: Gateway, tmp_path: Path) -> None:
    path, other = exported(gateway, tmp_path), other_home(tmp_path)
    key = ozzie(gateway.home, "sessions", "key").stdout.strip()
    (tmp_path / "key.txt").write_text(f"{key}\n")

    for given in (key, str(tmp_path / "key.txt")):
        checked = ozzie(other, "sessions", "verify", str(path), "--key", given)
        assert (checked.returncode, "signed with the key that you named" in checked.stdout) == (0, True)
    (other.project / key).write_text("ozzie-ed25519:" + "A" * 43)  # a file that is named like the key is not the key
    assert ozzie(other, "sessions", "verify", str(path), "--key", key).returncode == 0
    alone = ozzie(other, "sessions", "verify", str(path))
    empty = ozzie(other, "sessions", "verify", str(path), "--key", "")
    long = ozzie(other, "sessions", "verify", str(path), "--key", "a" * 5000)
    padded = ozzie(other, "sessions", "verify", str(path), "--key", f"{key}=")
    wrong = ozzie(other, "sessions", "verify", str(path), "--key", "nonesuch")
    none = ozzie(other, "sessions", "key")

    assert alone.returncode == 1
    assert "a key that you have not named" in alone.stdout
    assert alone.stdout.endswith("3 of 3 cells are as exported. By whom is not proven.\n")
    for refused in (wrong, empty, long, padded):
        assert (refused.returncode, "not the public key" in refused.stderr) == (1, True)
    assert (none.returncode, "There is no key yet" in none.stderr) == (1, True)


def test_nothing_is_written_over_and_a_wrong_name_is_refused_in_words(gateway: Gateway, tmp_path: Path) -> None:
    path = exported(gateway, tmp_path)
    before = path.read_bytes()

    again = ozzie(gateway.home, "sessions", "export", "sums", "--to", str(path))
    wrong = ozzie(gateway.home, "sessions", "export", "sums", "--to", str(tmp_path / "sums.pdf"))
    nowhere = ozzie(gateway.home, "sessions", "export", "sums", "--to", str(tmp_path / "no" / "sums.md"))
    unknown = ozzie(gateway.home, "sessions", "export", "nonesuch", "--to", str(tmp_path / "x.md"))
    foreign = ozzie(gateway.home, "sessions", "verify", __file__)
    missing = ozzie(gateway.home, "sessions", "verify", str(tmp_path / "nonesuch.ipynb"))

    assert path.read_bytes() == before
    assert "exists already" in again.stderr
    assert "Let its name end with .ipynb, .md, .html, .jsonl" in wrong.stderr
    assert "can't be written: No such file or directory" in nowhere.stderr
    assert 'There is no session "nonesuch"' in unknown.stderr
    assert "neither a notebook nor lines" in foreign.stderr
    assert "can't be read: No such file or directory" in missing.stderr
    assert {each.returncode for each in (again, wrong, nowhere, unknown, foreign, missing)} == {1}
    assert not list(tmp_path.glob("x*"))
