"""Programs of plugins where they can't be run, and what they are given."""

from pathlib import Path
from typing import Any

import pytest

from ozzie_server_ext.execution import box
from ozzie_server_ext.programs.native_plugins import MAX_VARIABLES, LoadedProgram
from ozzie_server_ext.programs.tool_output import Failure
from ozzie_server_ext.protocol.tool_host import Connect
from tests.native_rig import native_folder, program, shell


async def loaded(tmp_path: Path, **given: Any) -> None:
    """Load a program; it is nothing but that, as a tool host does it."""
    folder = native_folder(tmp_path / "p", shell("echo 1"), name="p")
    # A folder of its own that is hidden from it: so it gets a runner of its own.
    server = program(folder, project=str(tmp_path), private=(str(tmp_path),), **given)
    await LoadedProgram(Connect(id="1", server=server, within_s=20), lambda event: None).run()


async def test_without_bubblewrap_no_program_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(box, "_SEARCHED", "/nowhere")

    with pytest.raises(Failure, match=r"bubblewrap, is not installed\. On Debian and Ubuntu: apt-get") as failed:
        await loaded(tmp_path)
    assert failed.value.code == "sandbox.unavailable"


@pytest.mark.parametrize("given", [{"secrets": {"KEY": "x" * MAX_VARIABLES}}, {"config": {"a": "x" * MAX_VARIABLES}}])
async def test_what_the_system_would_not_take_as_variables_is_refused_in_words(tmp_path: Path, given: Any) -> None:
    with pytest.raises(Failure, match="have more than 120 KiB together"):
        await loaded(tmp_path, **given)
