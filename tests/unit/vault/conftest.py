"""A vault in a folder of the test's own."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ozzie_server_ext.observability.clock import SystemClock
from ozzie_server_ext.vault.vault import Vault


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """Where key files lie."""
    return tmp_path / "keys"


@pytest.fixture
def new_vault(tmp_path: Path, keys: Path) -> Callable[[], Vault]:
    """The vault as another process would have it: of what was opened before, each knows nothing."""
    return lambda: Vault(tmp_path / "secrets", lambda: keys, SystemClock())


@pytest.fixture
def vault(new_vault: Callable[[], Vault]) -> Vault:
    return new_vault()
