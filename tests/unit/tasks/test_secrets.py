"""What commands change in the vault comes to the log once, and never with a value."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ozzie_server_ext.domain.events import SecretChanged
from ozzie_server_ext.observability.clock import SystemClock, UlidSource
from ozzie_server_ext.store.memory import InMemoryEventLog
from ozzie_server_ext.tasks.configuration import SECRETS_STREAM, SecretChanges
from ozzie_server_ext.vault.errors import BadSecret, WrongPassphrase
from ozzie_server_ext.vault.scope import EVERYBODY, ProjectReader, Scope, Secret
from ozzie_server_ext.vault.vault import Vault, VaultState

PASSPHRASE = "correct horse battery"
OZZIE = ProjectReader(project="/w/shop")


class Gateway:
    """A gateway's part in it; `forgotten` counts how often the worker was told to forget."""

    def __init__(self, vault: Vault, log: InMemoryEventLog) -> None:
        self.forgotten = 0
        self.vault = vault
        self.log = log
        self.secrets = SecretChanges(vault, log, self._forget)

    async def _forget(self) -> None:
        self.forgotten += 1

    async def told(self) -> list[tuple[int, str, str, int, str]]:
        bodies = [event.body for event in await self.log.read_stream(SECRETS_STREAM)]
        facts = [body for body in bodies if isinstance(body, SecretChanged)]
        return [(fact.number, fact.action, fact.name, fact.version, fact.by) for fact in facts]


@pytest.fixture
def new_vault(tmp_path: Path) -> Callable[[], Vault]:
    return lambda: Vault(tmp_path / "secrets", lambda: tmp_path / "keys", SystemClock())


@pytest.fixture
def command(new_vault: Callable[[], Vault]) -> Vault:
    """The vault as a command has it, in another process."""
    return new_vault()


@pytest.fixture
def log() -> InMemoryEventLog:
    clock = SystemClock()
    return InMemoryEventLog(clock, UlidSource(clock))


@pytest.fixture
def gateway(new_vault: Callable[[], Vault], log: InMemoryEventLog) -> Gateway:
    return Gateway(new_vault(), log)


async def test_where_there_is_no_vault_nothing_is_told(gateway: Gateway) -> None:
    await gateway.secrets.refresh(patiently=True)

    assert await gateway.told() == []
    assert gateway.secrets.warning == ""


async def test_each_change_is_told_once_also_by_a_later_gateway(
    gateway: Gateway, command: Vault, new_vault: Callable[[], Vault], log: InMemoryEventLog
) -> None:
    command.set("KEY", EVERYBODY, Secret("sk-1"), by="ann")
    await gateway.secrets.refresh()
    await gateway.secrets.refresh()
    command.replace("KEY", EVERYBODY, Secret("sk-2"), by="bob")
    command.set("KEY", Scope("plugin", "telegram"), Secret("sk-3"), by="ann")
    later = Gateway(new_vault(), log)
    await later.secrets.refresh()
    await gateway.secrets.refresh()
    command.remove("KEY", EVERYBODY, by="ann")
    await later.secrets.refresh()

    assert await gateway.told() == [
        (1, "set", "KEY", 1, "ann"),
        (2, "replaced", "KEY", 2, "bob"),
        (3, "set", "KEY", 3, "ann"),
        (4, "removed", "KEY", 2, "ann"),
    ]
    assert "sk-" not in repr(await log.read_stream(SECRETS_STREAM))


async def test_the_worker_forgets_when_a_secret_changes_and_only_then(gateway: Gateway, command: Vault) -> None:
    command.set("KEY", EVERYBODY, Secret("sk-1"), by="ann")
    await gateway.secrets.refresh()
    at_first = gateway.forgotten
    await gateway.secrets.refresh()
    unchanged = gateway.forgotten
    command.remove("KEY", EVERYBODY, by="ann")
    await gateway.secrets.refresh()

    assert (at_first, unchanged, gateway.forgotten) == (0, 0, 1)


async def test_the_worker_forgets_when_the_vault_is_gone(gateway: Gateway, command: Vault) -> None:
    command.set("KEY", EVERYBODY, Secret("sk-1"), by="ann")
    await gateway.secrets.refresh()
    command.path.unlink()
    await gateway.secrets.refresh()

    assert gateway.forgotten == 1


async def test_a_vault_that_was_put_back_is_noticed_and_what_follows_is_told(gateway: Gateway, command: Vault) -> None:
    command.set("KEY", EVERYBODY, Secret("old"), by="ann")
    old = command.path.read_bytes()
    command.set("KEY", EVERYBODY, Secret("new"), by="ann")
    command.set("KEY", EVERYBODY, Secret("newer"), by="ann")
    await gateway.secrets.refresh()
    command.path.write_bytes(old)
    await gateway.secrets.refresh()
    warning = gateway.secrets.warning
    command.set("OTHER", EVERYBODY, Secret("x"), by="bob")
    await gateway.secrets.refresh()

    assert warning == (
        "The vault was put back to an earlier state: its last change is 1, and 3 was recorded. "
        "What was set, replaced or removed since is as it was before."
    )
    assert gateway.forgotten >= 2
    assert (await gateway.told())[-1] == (2, "set", "OTHER", 2, "bob")


async def test_a_vault_that_can_not_be_used_is_said_and_stops_nothing(gateway: Gateway, command: Vault) -> None:
    command.set("KEY", EVERYBODY, Secret("sk-1"), by="ann")
    good = command.path.read_bytes()
    command.path.write_bytes(b"{}")
    await gateway.secrets.refresh(patiently=True)
    warning = gateway.secrets.warning
    command.path.write_bytes(good)
    await gateway.secrets.refresh()

    assert "vault.json is not what Ozzie wrote there" in warning
    assert gateway.secrets.warning == ""
    assert await gateway.told() == [(1, "set", "KEY", 1, "ann")]


async def test_its_state_is_told_as_it_is_and_what_is_wrong_until_it_is_mended(
    gateway: Gateway, command: Vault
) -> None:
    nothing = await gateway.secrets.state()
    command.set("KEY", EVERYBODY, Secret("sk-1"), by="ann")
    one, _ = await gateway.secrets.state()
    good = command.path.read_bytes()
    command.path.write_bytes(b"{}")
    damaged, warning = await gateway.secrets.state()
    await gateway.secrets.refresh()
    command.path.write_bytes(good)
    mended = await gateway.secrets.state()

    assert nothing == (None, "")
    assert one == VaultState(ways=("keyfile",), locked=False, secrets=1)
    assert damaged is None
    assert "vault.json is not what Ozzie wrote there" in warning
    assert mended == (one, "")


async def test_a_locked_vault_tells_its_changes_and_opens_with_its_passphrase(gateway: Gateway, command: Vault) -> None:
    command.set("KEY", EVERYBODY, Secret("sk-1"), by="ann")
    command.protect(["passphrase"], by="ann", passphrase=PASSPHRASE)
    await gateway.secrets.refresh(patiently=True)
    locked = gateway.vault.locked
    with pytest.raises(WrongPassphrase):
        await gateway.secrets.unlock("something else")
    await gateway.secrets.unlock(PASSPHRASE)
    opened = gateway.vault.reveal("KEY", OZZIE).reveal()
    before = gateway.forgotten
    await gateway.secrets.lock()

    assert locked
    assert opened == "sk-1"
    assert gateway.vault.locked
    assert gateway.forgotten == before + 1
    assert [told[1] for told in await gateway.told()] == ["set", "protected"]


async def test_a_vault_that_opens_by_itself_is_not_locked(gateway: Gateway, command: Vault) -> None:
    command.set("KEY", EVERYBODY, Secret("sk-1"), by="ann")
    with pytest.raises(BadSecret, match="opens without a person"):
        await gateway.secrets.lock()

    assert gateway.forgotten == 0
