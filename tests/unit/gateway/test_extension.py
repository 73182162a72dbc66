"""The extension's place in a Jupyter Server, in moments that a real one seldom comes to."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from ozzie_server_ext.extension import OzzieExtension


@dataclass
class Around:
    """What the extension asks of its server before it begins."""

    root_dir: str
    sock: str = ""
    certfile: str = ""
    ip: str = "127.0.0.1"
    port: int = 1
    base_url: str = "/"


async def test_a_server_that_was_told_to_stop_while_others_started_starts_no_ozzie(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jupyter starts extensions one after the other, and a signal may come in between."""
    monkeypatch.setenv("OZZIE_PATH", str(tmp_path / "home"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    extension = OzzieExtension()
    extension.initialize_settings()

    await extension.stop_extension()
    await extension._start_jupyter_server_extension(Around(str(tmp_path)))

    assert (extension.ozzie, extension.state.failure) == (None, None)
    assert not (tmp_path / "home").exists()
