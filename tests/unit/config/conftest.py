"""A home of the test's own, and files written into it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ozzie_server_ext.config.home import Home
from ozzie_server_ext.config.loader import Config, load

Load = Callable[..., Config]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.create()
    return home


@pytest.fixture
def load_text(home: Home, tmp_path: Path) -> Load:
    """What `load` makes of a user's `config.jsonc` with this text; variables are given by name."""

    def load_it(text: str, **env: str) -> Config:
        home.config_file.write_text(text)
        return load(home, env=env, system_file=tmp_path / "no-system-file")

    return load_it
