"""What the vault keeps and who sees it; opened by its key file."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ozzie_server_ext.domain.errors import Conflict
from ozzie_server_ext.observability.clock import SystemClock
from ozzie_server_ext.vault import vault as vault_module
from ozzie_server_ext.vault.errors import BadSecret, NoSecret, SecretDenied
from ozzie_server_ext.vault.scope import EVERYBODY, PluginReader, ProjectReader, Scope, Secret
from ozzie_server_ext.vault.vault import Entry, Vault, VaultState

NewVault = Callable[[], Vault]

PROJECT, OTHER = Scope("project", "/w/shop"), Scope("project", "/w/other")
PLUGIN = Scope("plugin", "telegram")
OZZIE = ProjectReader(project="/w/shop")


def test_a_value_comes_back_in_another_process(vault: Vault, new_vault: NewVault) -> None:
    vault.set("KEY", EVERYBODY, Secret("sk-1"), by="ann")

    assert new_vault().reveal("KEY", OZZIE).reveal() == "sk-1"


def test_a_process_that_has_it_open_sees_what_another_changes(vault: Vault, new_vault: NewVault) -> None:
    other = new_vault()
    vault.set("KEY", EVERYBODY, Secret("sk-1"), by="ann")
    first = other.reveal("KEY", OZZIE).reveal()
    vault.set("KEY", EVERYBODY, Secret("sk-2"), by="ann")
    second = other.reveal("KEY", OZZIE).reveal()
    vault.rekey(by="ann")
    third = other.reveal("KEY", OZZIE).reveal()
    vault.remove("KEY", EVERYBODY, by="ann")

    assert (first, second, third) == ("sk-1", "sk-2", "sk-2")
    assert not other.holds("KEY", OZZIE)


def test_the_most_specific_value_counts(vault: Vault) -> None:
    vault.set("KEY", EVERYBODY, Secret("everybody's"), by="ann")
    vault.set("KEY", OTHER, Secret("another project's"), by="ann")
    for_all = vault.reveal("KEY", OZZIE).reveal()
    vault.set("KEY", PROJECT, Secret("the project's"), by="ann")
    plugin = PluginReader(plugin="telegram", project="/w/shop", granted=frozenset({"KEY"}))

    assert for_all == "everybody's"
    assert vault.reveal("KEY", OZZIE).reveal() == "the project's"
    assert vault.reveal("KEY", plugin).reveal() == "the project's"

    vault.set("KEY", PLUGIN, Secret("the plugin's"), by="ann")
    assert vault.reveal("KEY", plugin).reveal() == "the plugin's"
    assert vault.reveal("KEY", OZZIE).reveal() == "the project's", "a plugin's secret is not Ozzie's"


@pytest.mark.parametrize("name", ["KEY", "NOT_THERE"])
def test_a_plugin_is_denied_what_it_was_not_granted_whether_or_not_it_is_there(vault: Vault, name: str) -> None:
    vault.set("KEY", EVERYBODY, Secret("sk-1"), by="ann")
    vault.set("KEY", PROJECT, Secret("sk-2"), by="ann")
    vault.set("KEY", Scope("plugin", "mail"), Secret("sk-3"), by="ann")

    with pytest.raises(SecretDenied, match=f'The plugin "telegram" was not granted the secret {name}.'):
        vault.reveal(name, PluginReader(plugin="telegram", project="/w/shop", granted=frozenset({"OTHER"})))


def test_a_plugin_that_was_granted_what_is_not_there_is_told_so(vault: Vault) -> None:
    with pytest.raises(NoSecret, match=r"There is no secret KEY\."):
        vault.reveal("KEY", PluginReader(plugin="telegram", project="/w/shop", granted=frozenset({"KEY"})))


def test_a_list_says_who_changed_what_and_nothing_of_a_value(vault: Vault) -> None:
    vault.set("KEY", EVERYBODY, Secret("sk-1"), by="ann")
    vault.set("KEY", EVERYBODY, Secret("sk-2"), by="bob")
    vault.set("BOT", PLUGIN, Secret("sk-3"), by="ann")

    listed = vault.listing()

    assert [(one.name, str(one.scope), one.version, one.by) for one in listed] == [
        ("BOT", "plugin:telegram", 3, "ann"),
        ("KEY", "everybody", 2, "bob"),
    ]
    assert "sk-" not in repr(listed)


def test_the_file_does_not_tell_how_long_a_value_is(vault: Vault) -> None:
    vault.set("A", EVERYBODY, Secret("x"), by="ann")
    vault.set("B", EVERYBODY, Secret("x" * 200), by="ann")

    short, long = (len(part.split('"')[0]) for part in vault.path.read_text().split('"sealed":"')[1:])

    assert short == long


def test_removing_and_replacing_what_is_not_there_is_refused(vault: Vault) -> None:
    with pytest.raises(NoSecret, match=r"There is no secret yet\."):
        vault.remove("KEY", EVERYBODY, by="ann")
    vault.set("KEY", PROJECT, Secret("x"), by="ann")
    with pytest.raises(NoSecret, match=r"There is no secret KEY\."):
        vault.remove("KEY", EVERYBODY, by="ann")
    with pytest.raises(NoSecret, match=r"There is no secret KEY in the scope project:/w/other\."):
        vault.replace("KEY", OTHER, Secret("y"), by="ann")

    assert vault.replace("KEY", PROJECT, Secret("y"), by="ann").version == 2


def test_a_bad_name_makes_no_vault(vault: Vault, keys: Path) -> None:
    with pytest.raises(BadSecret):
        vault.set("sk-abc", EVERYBODY, Secret("x"), by="ann")

    assert not vault.exists()
    assert not keys.exists()


def test_a_new_data_key_leaves_nothing_that_the_old_one_opens(vault: Vault, new_vault: NewVault) -> None:
    vault.set("KEY", EVERYBODY, Secret("sk-1"), by="ann")
    before = vault.path.read_text()
    count = vault.rekey(by="ann")
    after = vault.path.read_text()

    def sealed(text: str) -> str:
        return text.split('"sealed":"')[1].split('"')[0]

    assert count == 1
    assert sealed(before) != sealed(after)
    assert new_vault().reveal("KEY", OZZIE).reveal() == "sk-1"


def test_every_change_has_a_number_and_no_value(vault: Vault) -> None:
    vault.set("KEY", EVERYBODY, Secret("sk-1"), by="ann")
    vault.set("KEY", EVERYBODY, Secret("sk-2"), by="bob")
    vault.rekey(by="ann")
    vault.import_entries([Entry(name="BOT", scope=PLUGIN, value=Secret("sk-3"))], by="ann")
    vault.remove("KEY", EVERYBODY, by="ann")

    identity, changes = vault.changes()

    assert len(identity) == 32
    assert [(one.number, one.action, one.name, one.scope, one.version) for one in changes] == [
        (1, "set", "KEY", "everybody", 1),
        (2, "replaced", "KEY", "everybody", 2),
        (3, "rekeyed", "", "", 0),
        (4, "imported", "BOT", "plugin:telegram", 4),
        (5, "removed", "KEY", "everybody", 2),
    ]
    assert "sk-" not in vault.path.read_text()


def test_many_are_taken_all_or_none(vault: Vault) -> None:
    vault.set("A", EVERYBODY, Secret("mine"), by="ann")
    vault.set("B", EVERYBODY, Secret("same"), by="ann")
    entries = [Entry(name=name, scope=EVERYBODY, value=Secret(value)) for name, value in (("C", "c"), ("B", "same"))]
    other = Entry(name="A", scope=EVERYBODY, value=Secret("theirs"))

    def refuse(replaced: object) -> None:
        if replaced:
            raise Conflict("It is there.")

    with pytest.raises(Conflict):
        vault.import_entries([*entries, other], by="ann", allow=refuse)
    unchanged = [one.name for one in vault.listing()]
    taken = vault.import_entries(entries, by="ann", allow=refuse)
    replaced = vault.import_entries([*entries, other], by="ann")

    assert unchanged == ["A", "B"]
    assert (taken, replaced) == (1, 1)
    assert {entry.name: entry.value.reveal() for entry in vault.entries()} == {"A": "theirs", "B": "same", "C": "c"}


def test_a_version_comes_never_again_whatever_was_removed_or_imported_and_by_whom(
    vault: Vault, new_vault: NewVault
) -> None:
    first = vault.set("KEY", EVERYBODY, Secret("sk-1"), by="ann").version
    vault.remove("KEY", EVERYBODY, by="ann")
    second = new_vault().set("KEY", EVERYBODY, Secret("sk-2"), by="bob").version
    vault.remove("KEY", EVERYBODY, by="ann")
    new_vault().import_entries([Entry(name="KEY", scope=EVERYBODY, value=Secret("sk-3"))], by="ann")
    (imported,) = vault.listing()
    vault.remove("KEY", EVERYBODY, by="ann")
    vault.rekey(by="ann")
    last = vault.set("KEY", EVERYBODY, Secret("sk-4"), by="ann").version

    assert first < second < imported.version < last


def test_a_version_comes_not_again_when_the_change_that_had_it_is_no_longer_kept(
    vault: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vault_module, "MAX_CHANGES", 1)
    versions: list[int] = []
    for _ in range(4):
        versions.append(vault.set("KEY", EVERYBODY, Secret("sk-1"), by="ann").version)
        vault.remove("KEY", EVERYBODY, by="ann")

    assert versions == sorted({*versions})
    assert len(vault.changes()[1]) == 1


def test_how_it_is_says_what_opens_it_and_how_many_there_are(vault: Vault, new_vault: NewVault) -> None:
    assert vault.state() is None
    vault.set("KEY", EVERYBODY, Secret("sk-1"), by="ann")
    vault.set("KEY", PROJECT, Secret("sk-2"), by="ann")
    assert new_vault().state() == VaultState(ways=("keyfile",), locked=False, secrets=2)

    vault.protect(["passphrase"], by="ann", passphrase="correct horse battery")

    assert new_vault().state() == VaultState(ways=("passphrase",), locked=True, secrets=2)
    assert vault.state() == VaultState(ways=("passphrase",), locked=False, secrets=2)


NAMES = st.sampled_from(["A", "B", "LONG_NAME_9"])
SCOPES = st.sampled_from([EVERYBODY, PROJECT, PLUGIN])
VALUES = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1, max_size=600)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), NAMES, SCOPES, VALUES),
        st.tuples(st.just("remove"), NAMES, SCOPES, st.just("")),
        st.tuples(st.just("rekey"), st.just(""), st.just(EVERYBODY), st.just("")),
    ),
    max_size=8,
)


@given(STEPS)
def test_whatever_is_done_the_vault_holds_what_a_dictionary_would(steps: list[tuple[str, str, Scope, str]]) -> None:
    with TemporaryDirectory() as folder:

        def look() -> Vault:
            return Vault(Path(folder) / "secrets", lambda: Path(folder) / "keys", SystemClock())

        plain: dict[tuple[str, Scope], str] = {}
        versions: set[int] = set()
        for what, name, scope, value in steps:
            if what == "set":
                version = look().set(name, scope, Secret(value), by="ann").version
                assert version not in versions
                versions.add(version)
                plain[name, scope] = value
            elif what == "remove" and plain.pop((name, scope), None) is not None:
                look().remove(name, scope, by="ann")
            elif what == "rekey" and look().exists():
                look().rekey(by="ann")
            assert {(one.name, one.scope): one.value.reveal() for one in look().entries()} == plain
