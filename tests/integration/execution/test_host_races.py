"""Between a look at a program and its run, somebody puts another one in its place as fast as they can: what runs is
what was looked at, or nothing."""

import os
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.observability.clock import FakeClock
from ozzie_server_ext.tools.base import ToolContext
from ozzie_server_ext.tools.builtin.host import plan_command, run_command
from ozzie_server_ext.tools.changes.held import swap
from ozzie_server_ext.tools.safe_open import closing
from tests.tiers import SOAK

ATTEMPTS = 1000 if SOAK else 20
AT_CWD = -100
OURS = "#!/bin/sh\n"
THEIRS = "#!/bin/sh\ntouch ../owned-$1\n"


@contextmanager
def swapping(swaps: Callable[[], None]) -> Iterator[None]:
    over = threading.Event()

    def go_on() -> None:
        while not over.is_set():
            swaps()

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def lay_out(base: Path) -> ToolContext:
    """Two folders of the same names, and in each a binary: ours does nothing, theirs makes a file."""
    for folder, binary in (("project/sub", "true"), ("other", "touch")):
        (base / folder).mkdir(parents=True)
        shutil.copy(str(shutil.which(binary)), base / folder / "binary")
    return ToolContext(base / "project", FakeClock())


@pytest.mark.sampled
@pytest.mark.parametrize("swapped", ["binary", "."], ids=["the program", "its folder"])
async def test_a_swapped_program_never_runs_in_the_place_of_another(tmp_path: Path, swapped: str) -> None:
    context = lay_out(tmp_path)
    pair = (str(tmp_path / "project/sub" / swapped), str(tmp_path / "other" / swapped))
    ours = (tmp_path / "project/sub/binary").stat().st_ino
    came = Counter[str]()

    with ExitStack() as held:
        places = (tmp_path / "project/sub", tmp_path / "other")
        folders = [held.enter_context(closing(os.open(place, os.O_RDONLY))) for place in places]
        held.enter_context(swapping(lambda: swap(AT_CWD, *pair)))
        for number in range(ATTEMPTS):
            made = f"owned-{number}"
            try:
                plan = await plan_command(context, argv=["./binary", made], folder="sub", timeout_s=20)
                assert plan.effect is not None
                looked_at = plan.work.program.file.inode
                await run_command(context, plan)
            except OzzieError as error:
                came[error.code] += 1
                looked_at = ours  # nothing was to run
            else:
                came["ran"] += 1
            # By what is open: their names go to and fro.
            was_theirs = any(made in os.listdir(folder) for folder in folders)
            assert was_theirs is (looked_at != ours), f"attempt {number}"

    assert came.total() == ATTEMPTS
    assert set(came) <= {"ran", "tool.changed", "host.not_started", "host.no_program", "tool.failed"}, came


async def test_what_was_swapped_after_the_plan_is_refused_before_anything_runs(tmp_path: Path) -> None:
    context = lay_out(tmp_path)
    plan = await plan_command(context, argv=["./binary", "owned"], folder="sub")
    (tmp_path / "other/binary").rename(tmp_path / "project/sub/binary")

    with pytest.raises(OzzieError, match=r'^The program "\./binary" has just changed') as refused:
        await run_command(context, plan)

    assert refused.value.code == "tool.changed"
    assert not (tmp_path / "project/sub/owned").exists()


@pytest.mark.parametrize("what", ["The folder sub", "A file that the command names"])
async def test_so_is_what_became_of_its_folder_and_of_a_file_that_it_names(tmp_path: Path, what: str) -> None:
    context = lay_out(tmp_path)
    sub = tmp_path / "project/sub"
    (sub / "script").write_text(OURS)
    plan = await plan_command(context, argv=["sh", "script", "1"], folder="sub")
    if what == "The folder sub":
        sub.rename(tmp_path / "moved")
        (tmp_path / "moved").rename(tmp_path / "project/kept")
        sub.mkdir()
        os.link(tmp_path / "project/kept/script", sub / "script")
    else:
        (sub / "script").write_text(THEIRS)

    with pytest.raises(OzzieError, match=f"^{what} has just changed, so nothing was run"):
        await run_command(context, plan)

    assert not (tmp_path / "project/owned-1").exists()
