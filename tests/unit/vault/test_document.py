"""Whatever is changed in the vault's file is noticed, and the file is left as it is."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ozzie_server_ext.observability.clock import SystemClock
from ozzie_server_ext.protocol.jsontext import canonical_bytes
from ozzie_server_ext.vault.cipher import NotAuthentic
from ozzie_server_ext.vault.document import MAX_CHANGES, parse
from ozzie_server_ext.vault.errors import DamagedVault, NewerVault
from ozzie_server_ext.vault.scope import EVERYBODY, ProjectReader, Scope, Secret
from ozzie_server_ext.vault.slots import KeyGone
from ozzie_server_ext.vault.vault import Draft, Vault, opened
from tests.tiers import SOAK

NewVault = Callable[[], Vault]

OZZIE = ProjectReader(project="/w/shop")
PROJECT = Scope("project", "/w/shop")


@pytest.mark.sampled
def test_any_bit_that_is_flipped_is_noticed(vault: Vault, new_vault: NewVault) -> None:
    vault.set("A", EVERYBODY, Secret("x"), by="a")
    good = vault.path.read_bytes()
    passed: list[int] = []
    for bit in range(0, len(good) * 8, 1 if SOAK else 17):
        bad = bytearray(good)
        bad[bit // 8] ^= 1 << bit % 8
        vault.path.write_bytes(bad)
        try:
            new_vault().reveal("A", OZZIE)
        except (DamagedVault, NewerVault, KeyGone):  # another id of a slot names another key file
            continue
        passed.append(bit)
    vault.path.write_bytes(good)

    assert passed == []
    assert new_vault().reveal("A", OZZIE).reveal() == "x"


def test_a_process_that_has_it_open_notices_too_and_changes_nothing(vault: Vault) -> None:
    vault.set("A", EVERYBODY, Secret("x"), by="ann")
    bad = vault.path.read_bytes().replace(b'"by":"ann"', b'"by":"bob"')
    vault.path.write_bytes(bad)

    with pytest.raises(DamagedVault, match="something in it was changed"):
        vault.reveal("A", OZZIE)
    with pytest.raises(DamagedVault, match="something in it was changed"):
        vault.set("B", EVERYBODY, Secret("y"), by="ann")
    assert vault.path.read_bytes() == bad


def _written(vault: Vault, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the file as somebody does who has no key, in its right spelling."""
    document = json.loads(vault.path.read_text())
    change(document)
    vault.path.write_bytes(canonical_bytes(document) + b"\n")


def _swap_values(document: dict[str, Any]) -> None:
    one, other = document["records"]
    one["sealed"], other["sealed"] = other["sealed"], one["sealed"]


def _swap_names(document: dict[str, Any]) -> None:
    one, other = document["records"]
    one["name"], other["name"] = other["name"], one["name"]


def _give_to_everybody(document: dict[str, Any]) -> None:
    document["records"][1]["scope"] = {"kind": "everybody", "owner": ""}


def _remove_one(document: dict[str, Any]) -> None:
    del document["records"][0]


def _say_another_version(document: dict[str, Any]) -> None:
    document["records"][0]["version"] = 7


def _forget_a_change(document: dict[str, Any]) -> None:
    del document["changes"][0]


def _add_a_way_in(document: dict[str, Any]) -> None:
    document["slots"].append({**document["slots"][0], "id": "00" * 8})


@pytest.mark.parametrize(
    "change",
    [_swap_values, _swap_names, _give_to_everybody, _remove_one, _say_another_version, _forget_a_change, _add_a_way_in],
)
def test_what_is_rearranged_is_noticed(
    vault: Vault, new_vault: NewVault, change: Callable[[dict[str, Any]], None]
) -> None:
    vault.set("A", EVERYBODY, Secret("a"), by="ann")
    vault.set("B", PROJECT, Secret("b"), by="ann")
    _written(vault, change)

    with pytest.raises(DamagedVault, match="something in it was changed"):
        new_vault().reveal("A", OZZIE)


def test_a_record_that_was_put_back_to_an_older_version_is_noticed(vault: Vault, new_vault: NewVault) -> None:
    vault.set("A", EVERYBODY, Secret("old"), by="ann")
    (old,) = json.loads(vault.path.read_text())["records"]
    vault.set("A", EVERYBODY, Secret("new"), by="ann")
    _written(vault, lambda document: document.update(records=[old]))

    with pytest.raises(DamagedVault):
        new_vault().reveal("A", OZZIE)


@pytest.mark.parametrize(
    "changed",
    [{"name": "B"}, {"scope": PROJECT}, {"version": 1}],
    ids=["another name", "another scope", "another version"],
)
def test_a_record_opens_only_as_what_it_was_sealed(vault: Vault, changed: dict[str, Any]) -> None:
    vault.set("A", EVERYBODY, Secret("a"), by="ann")
    document = parse(vault.path.read_bytes(), vault.path)
    key = b"k" * 32
    draft = Draft(document, key, "2026-01-01T00:00:00+00:00", "ann")
    record = draft.put("C", EVERYBODY, Secret("c"))

    assert opened(record, key, document.id).reveal() == "c"
    with pytest.raises(NotAuthentic):
        opened(replace(record, **changed), key, document.id)
    with pytest.raises(NotAuthentic):
        opened(record, key, "00" * 16)
    with pytest.raises(NotAuthentic):
        opened(record, b"K" * 32, document.id)


def test_the_records_of_another_vault_do_not_count_here(vault: Vault, tmp_path: Path, keys: Path) -> None:
    other = Vault(tmp_path / "other", lambda: keys, SystemClock())
    vault.set("A", EVERYBODY, Secret("mine"), by="ann")
    other.set("A", EVERYBODY, Secret("theirs"), by="ann")
    records = json.loads(other.path.read_text())["records"]
    _written(vault, lambda document: document.update(records=records))

    with pytest.raises(DamagedVault):
        vault.reveal("A", OZZIE)


def test_the_whole_file_put_back_is_a_vault_as_the_documents_say(vault: Vault, new_vault: NewVault) -> None:
    """By itself the file can't show this; the gateway does (tests/unit/tasks/test_secrets.py)."""
    vault.set("A", EVERYBODY, Secret("old"), by="ann")
    old = vault.path.read_bytes()
    vault.set("A", EVERYBODY, Secret("new"), by="ann")
    vault.path.write_bytes(old)

    assert new_vault().reveal("A", OZZIE).reveal() == "old"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "it can't be read as a vault"),
        (b"{}\n", "it does not begin like a vault"),
        (b'{"format":"ozzie vault","version":true}\n', "it does not begin like a vault"),
        (b'{"format":"ozzie vault","version":1}\n', "it can't be read as a vault"),
        (b"\xff\xfe", "it can't be read as a vault"),
        (b"[" * 100_000, "it can't be read as a vault"),
    ],
)
def test_what_is_no_vault_is_said_to_be_none(vault: Vault, content: bytes, says: str) -> None:
    vault.path.parent.mkdir(mode=0o700)
    vault.path.touch(mode=0o600)
    vault.path.write_bytes(content)

    with pytest.raises(DamagedVault, match=says) as caught:
        vault.set("A", EVERYBODY, Secret("a"), by="ann")
    assert str(vault.path) in str(caught.value)
    assert "backup" in caught.value.hint
    assert vault.path.read_bytes() == content


def test_another_spelling_of_the_same_is_refused(vault: Vault, new_vault: NewVault) -> None:
    vault.set("A", EVERYBODY, Secret("a"), by="ann")
    vault.path.write_text(json.dumps(json.loads(vault.path.read_text()), indent=1))

    with pytest.raises(DamagedVault, match="its spelling was changed"):
        new_vault().listing()


def test_a_vault_of_a_later_format_is_left_to_a_later_ozzie(vault: Vault, new_vault: NewVault) -> None:
    vault.set("A", EVERYBODY, Secret("a"), by="ann")
    _written(vault, lambda document: document.update(version=2))

    with pytest.raises(NewerVault, match=r"has a newer format \(2\) than this Ozzie knows"):
        new_vault().listing()


@pytest.mark.parametrize("identity", ["../../../etc/passwd", "", "0" * 64, "ABCDEF0123456789"])
def test_the_id_of_a_slot_leads_to_no_other_file(vault: Vault, new_vault: NewVault, identity: str) -> None:
    vault.set("A", EVERYBODY, Secret("a"), by="ann")
    _written(vault, lambda document: document["slots"][0].update(id=identity))

    with pytest.raises(DamagedVault, match="it contains an invalid id"):
        new_vault().listing()


def test_no_file_makes_anybody_pay_an_unheard_of_cost(vault: Vault, new_vault: NewVault) -> None:
    vault.set("A", EVERYBODY, Secret("a"), by="ann")
    cost = {"passes": 6, "lanes": 4, "memory_kib": 1 << 30}
    _written(vault, lambda document: document["slots"][0].update(kind="passphrase", cost=cost))

    with pytest.raises(DamagedVault, match="it requests a cost that Ozzie never uses"):
        new_vault().unlock(lambda: "passphrase")


def test_the_file_keeps_the_newest_changes_only(vault: Vault) -> None:
    vault.set("A", EVERYBODY, Secret("a"), by="ann")
    draft = Draft(parse(vault.path.read_bytes(), vault.path), b"k" * 32, "2026-01-01T00:00:00+00:00", "ann")
    for _ in range(MAX_CHANGES + 5):
        draft.note("rekeyed")

    assert len(draft.document.changes) == MAX_CHANGES
    assert draft.document.last_change == MAX_CHANGES + 6
