"""A closed notebook is edited through a contents manager that does more than write its file."""

import asyncio
import json
import os
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import nbformat
import pytest
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager, LargeFileManager
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from tornado.web import HTTPError

from ozzie_server_ext.gateway.contents import ManagedNotebook, ManagedNotebooks
from ozzie_server_ext.jupyter.cells import CellChanged, CellKind, Edit, Insert, Replace
from ozzie_server_ext.jupyter.documents import DocumentBusy, DocumentSilent
from ozzie_server_ext.tools.base import ToolFailed
from ozzie_server_ext.tools.notebook.text import NotebookText
from ozzie_server_ext.tools.safe_open import OutsideProject

PATH = "plots.ipynb"
EDIT = Replace(cell_id="one", kind=CellKind.CODE, was="x = 1", source="x = 2")


def written(folder: Path) -> None:
    html = new_output("display_data", data={"text/html": "<b>1</b>"})
    cells = [new_markdown_cell("# Plots", id="top"), new_code_cell("x = 1", id="one", outputs=[html])]
    nbformat.write(new_notebook(cells=cells), folder / PATH)


def sources(folder: Path) -> list[str]:
    return [cell["source"] for cell in nbformat.read(folder / PATH, as_version=4)["cells"]]


def nothing(*, model: Any, os_path: str, contents_manager: Any) -> None:
    """A hook, because of which Jupyter's own manager writes the notebook."""


class Paired(AsyncLargeFileManager):
    """Keeps a script beside each notebook, as Jupytext does."""

    async def save(self, model: Any, path: str = "") -> Any:
        saved = await super().save(model, path)
        script = "\n".join("".join(cell["source"]) for cell in model["content"]["cells"])
        Path(self.root_dir, path).with_suffix(".py").write_text(script)
        return saved


async def managed(manager: Any, folder: Path) -> ManagedNotebook | None:
    written(folder)
    server = SimpleNamespace(contents_manager=manager, root_dir=str(folder))
    found = await ManagedNotebooks(server).opened(folder / PATH)
    assert found is None or isinstance(found, ManagedNotebook)
    return found


async def test_a_manager_that_keeps_a_script_beside_it_keeps_doing_so(tmp_path: Path) -> None:
    notebook = await managed(Paired(root_dir=str(tmp_path)), tmp_path)
    assert notebook is not None
    assert [cell.source for cell in (await notebook.read()).cells] == ["# Plots", "x = 1"]
    await notebook.edit(EDIT)

    assert sources(tmp_path) == ["# Plots", "x = 2"]
    assert (tmp_path / "plots.py").read_text() == "# Plots\nx = 2"


@pytest.mark.parametrize("kind", [AsyncLargeFileManager, LargeFileManager])
async def test_hooks_run(tmp_path: Path, kind: type[Any]) -> None:
    saved: list[str] = []
    manager = kind(root_dir=str(tmp_path))
    manager.register_post_save_hook(lambda *, model, os_path, contents_manager: saved.append(Path(os_path).name))
    notebook = await managed(manager, tmp_path)
    assert notebook is not None
    await notebook.edit(Insert(cell={"cell_type": "raw", "id": "new", "metadata": {}, "source": "end"}, after="one"))

    assert sources(tmp_path) == ["# Plots", "x = 1", "end"]
    assert saved == [PATH]


async def test_jupyters_own_without_hooks_is_left_to_the_file(tmp_path: Path) -> None:
    assert await managed(AsyncLargeFileManager(root_dir=str(tmp_path)), tmp_path) is None


async def test_a_notebook_outside_of_the_servers_root_is_left_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    server = SimpleNamespace(contents_manager=Paired(root_dir=str(tmp_path / "root")), root_dir=str(tmp_path / "root"))
    assert await ManagedNotebooks(server).opened(tmp_path / PATH) is None


async def test_a_cell_that_has_changed_is_not_touched(tmp_path: Path) -> None:
    notebook = await managed(Paired(root_dir=str(tmp_path)), tmp_path)
    assert notebook is not None
    other: Edit = Replace(cell_id="one", kind=CellKind.CODE, was="x = 0", source="x = 2")
    with pytest.raises(CellChanged):
        await notebook.edit(other)
    assert sources(tmp_path) == ["# Plots", "x = 1"]


async def test_what_others_save_meanwhile_stays(tmp_path: Path) -> None:
    """Between the look and the save, the user saves another cell."""

    class Interrupted(Paired):
        looks = 0

        async def get(self, path: str, content: bool = True, *how: Any, **more: Any) -> Any:
            found = await super().get(path, content, *how, **more)
            self.looks += 1
            if self.looks == 1:
                text = (tmp_path / PATH).read_text().replace("# Plots", "# My plots")
                (tmp_path / PATH).write_text(text)
            return found

    notebook = await managed(Interrupted(root_dir=str(tmp_path)), tmp_path)
    assert notebook is not None
    await notebook.edit(EDIT)

    assert sources(tmp_path) == ["# My plots", "x = 2"]


async def test_a_notebook_that_changes_all_the_time_is_left_alone(tmp_path: Path) -> None:
    class Restless(Paired):
        looks = 0

        async def get(self, path: str, content: bool = True, *how: Any, **more: Any) -> Any:
            found = await super().get(path, content, *how, **more)
            self.looks += 1
            return {**found, "last_modified": self.looks}

    notebook = await managed(Restless(root_dir=str(tmp_path)), tmp_path)
    assert notebook is not None
    with pytest.raises(DocumentBusy, match="nothing was done"):
        await notebook.edit(EDIT)
    assert sources(tmp_path) == ["# Plots", "x = 1"]


async def test_no_mark_of_trust_comes_along(tmp_path: Path) -> None:
    manager = Paired(root_dir=str(tmp_path))
    notebook = await managed(manager, tmp_path)
    assert notebook is not None
    await manager.trust_notebook(PATH)
    await notebook.edit(EDIT)

    model = await manager.get(PATH, type="notebook")
    assert not model["content"]["cells"][1]["metadata"].get("trusted"), "its output could act"


async def test_a_refusal_is_said_and_nothing_is_written(tmp_path: Path) -> None:
    def refuse(*, model: Any, path: str, contents_manager: Any) -> None:
        raise HTTPError(400, "No edits on Fridays.")

    manager = AsyncLargeFileManager(root_dir=str(tmp_path))
    manager.register_pre_save_hook(refuse)
    notebook = await managed(manager, tmp_path)
    assert notebook is not None
    with pytest.raises(ToolFailed, match=r"plots\.ipynb was not saved: No edits on Fridays\."):
        await notebook.edit(EDIT)
    assert sources(tmp_path) == ["# Plots", "x = 1"]


async def test_a_refusal_after_the_file_was_written_is_no_refusal(tmp_path: Path) -> None:
    """Jupyter's own manager answers 403 if it can't make the first checkpoint, which it does after the save."""

    def no_checkpoint(path: str) -> None:
        raise HTTPError(403, "Permission denied: .ipynb_checkpoints")

    manager = LargeFileManager(root_dir=str(tmp_path))
    manager.register_post_save_hook(nothing)
    manager.create_checkpoint = no_checkpoint
    notebook = await managed(manager, tmp_path)
    assert notebook is not None
    with pytest.raises(DocumentSilent, match="may or may not have been saved: Permission denied"):
        await notebook.edit(EDIT)
    assert sources(tmp_path) == ["# Plots", "x = 2"]


async def test_a_refusal_after_the_script_was_written_is_no_refusal(tmp_path: Path) -> None:
    """A manager that reads the sources from the script has made the edit, whatever it refused afterwards."""

    class ScriptFirst(AsyncLargeFileManager):
        source = "x = 1"

        async def get(self, path: str, content: bool = True, *how: Any, **more: Any) -> Any:
            found = await super().get(path, content, *how, **more)
            if content:
                found["content"]["cells"][1]["source"] = self.source
            return found

        async def save(self, model: Any, path: str = "") -> Any:
            self.source = "x = 2"
            raise HTTPError(400, "The notebook is read-only.")

    notebook = await managed(ScriptFirst(root_dir=str(tmp_path)), tmp_path)
    assert notebook is not None
    with pytest.raises(DocumentSilent, match="may or may not"):
        await notebook.edit(EDIT)


async def test_any_other_error_of_a_manager_leaves_it_open_whether_it_was_saved(tmp_path: Path) -> None:
    class Broken(Paired):
        async def save(self, model: Any, path: str = "") -> Any:
            await super().save(model, path)
            raise OSError("no network")

    notebook = await managed(Broken(root_dir=str(tmp_path)), tmp_path)
    assert notebook is not None
    with pytest.raises(DocumentSilent, match="may or may not have been saved: no network"):
        await notebook.edit(EDIT)


async def test_a_hook_that_breaks_leaves_it_open_whether_it_was_saved(tmp_path: Path) -> None:
    def breaks(*, model: Any, os_path: str, contents_manager: Any) -> None:
        raise RuntimeError("no disk")

    manager = AsyncLargeFileManager(root_dir=str(tmp_path))
    manager.register_post_save_hook(breaks)
    notebook = await managed(manager, tmp_path)
    assert notebook is not None
    with pytest.raises(DocumentSilent, match="may or may not have been saved"):
        await notebook.edit(EDIT)
    assert json.loads((tmp_path / PATH).read_text())["cells"][1]["source"] == ["x = 2"]


def hooked(folder: Path) -> AsyncLargeFileManager:
    manager = AsyncLargeFileManager(root_dir=str(folder))
    manager.register_post_save_hook(nothing)
    return manager


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The server's root, with a folder beside it."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


def server_of(manager: Any, root: Path) -> SimpleNamespace:
    return SimpleNamespace(contents_manager=manager, root_dir=str(root))


async def test_a_file_with_a_second_name_is_refused(root: Path) -> None:
    written(root.parent / "outside")
    outside = root.parent / "outside" / PATH
    before = outside.read_bytes()
    os.link(outside, root / PATH)
    with pytest.raises(ToolFailed, match="second name"):
        await ManagedNotebooks(server_of(hooked(root), root)).opened(root / PATH)
    assert outside.read_bytes() == before


@pytest.mark.parametrize("where", ["file", "folder"])
async def test_a_symbolic_link_is_refused(root: Path, where: str) -> None:
    outside = root.parent / "outside"
    written(outside)
    if where == "file":
        path = root / PATH
        path.symlink_to(outside / PATH)
    else:
        (root / "deep").symlink_to(outside)
        path = root / "deep" / PATH
    with pytest.raises(OutsideProject):
        await ManagedNotebooks(server_of(hooked(root), root)).opened(path)


async def test_the_root_that_counts_is_the_managers(root: Path) -> None:
    """It would write another file of that name."""
    written(root)
    manager = hooked(root.parent / "outside")
    assert await ManagedNotebooks(server_of(manager, root)).opened(root / PATH) is None


@pytest.mark.parametrize("kind", ["symbolic link", "hard link"])
@pytest.mark.parametrize("moment", ["after it was opened", "after it was read"])
async def test_a_swap_for_a_link_is_not_followed(root: Path, kind: str, moment: str) -> None:
    outside = root.parent / "outside" / PATH
    written(outside.parent)
    before = outside.read_bytes()

    def swap() -> None:
        (root / PATH).unlink()
        if kind == "hard link":
            os.link(outside, root / PATH)
        else:
            (root / PATH).symlink_to(outside)

    class Swapped(Paired):
        looks = 0

        async def get(self, path: str, content: bool = True, *how: Any, **more: Any) -> Any:
            found = await super().get(path, content, *how, **more)
            self.looks += 1
            if moment == "after it was read" and self.looks == 2:
                swap()
            return found

    notebook = await managed(Swapped(root_dir=str(root)), root)
    assert notebook is not None
    if moment == "after it was opened":
        swap()
        with pytest.raises(ToolFailed, match="symbolic link" if kind == "symbolic link" else "second name"):
            await notebook.read()
    with pytest.raises(ToolFailed, match="symbolic link" if kind == "symbolic link" else "second name"):
        await notebook.edit(EDIT)
    assert outside.read_bytes() == before


async def test_another_file_with_the_same_time_is_noticed(tmp_path: Path) -> None:
    """`last_modified` alone does not tell: a file that was moved here keeps its time."""

    class Replaced(Paired):
        looks = 0

        async def get(self, path: str, content: bool = True, *how: Any, **more: Any) -> Any:
            found = await super().get(path, content, *how, **more)
            self.looks += 1
            if self.looks == 1:
                file, other = tmp_path / PATH, tmp_path / "other"
                other.write_text(file.read_text().replace("# Plots", "# My plots"))
                was = file.stat()
                os.utime(other, ns=(was.st_atime_ns, was.st_mtime_ns))
                other.rename(file)
            return found

    notebook = await managed(Replaced(root_dir=str(tmp_path)), tmp_path)
    assert notebook is not None
    await notebook.edit(EDIT)

    assert sources(tmp_path) == ["# My plots", "x = 2"]


async def test_the_limit_of_size_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = await managed(hooked(tmp_path), tmp_path)
    assert notebook is not None
    size = (tmp_path / PATH).stat().st_size
    monkeypatch.setattr("ozzie_server_ext.gateway.contents.MAX_NOTEBOOK_BYTES", size + 10)
    longer = Replace(cell_id="one", kind=CellKind.CODE, was="x = 1", source=f"x = {'1' * size}")
    with pytest.raises(ToolFailed, match="would be larger than"):
        await notebook.edit(longer)
    monkeypatch.setattr("ozzie_server_ext.gateway.contents.MAX_NOTEBOOK_BYTES", size - 10)
    with pytest.raises(ToolFailed, match="is larger than"):
        await notebook.read()
    with pytest.raises(ToolFailed, match="is larger than"):
        await ManagedNotebooks(server_of(hooked(tmp_path), tmp_path)).opened(tmp_path / PATH)
    assert sources(tmp_path) == ["# Plots", "x = 1"]


async def test_of_two_edits_at_once_none_is_lost(tmp_path: Path) -> None:
    goes_on = asyncio.Event()

    class Lock(asyncio.Lock):
        async def acquire(self) -> Literal[True]:
            if self.locked():
                goes_on.set()
            return await super().acquire()

    class Slow(Paired):
        """The first save takes until the second edit waits for the lock, or, without one, until it saves too."""

        saves = 0

        async def save(self, model: Any, path: str = "") -> Any:
            self.saves += 1
            if self.saves > 1:
                goes_on.set()
            await asyncio.wait_for(goes_on.wait(), 10)
            return await super().save(model, path)

    written(tmp_path)
    manager, lock = Slow(root_dir=str(tmp_path)), Lock()
    notebooks = ManagedNotebooks(server_of(manager, tmp_path))
    notebooks.locks[id(manager), PATH] = lock
    first, second = await notebooks.opened(tmp_path / PATH), await notebooks.opened(tmp_path / PATH)
    assert first is not None
    assert second is not None
    title = Replace(cell_id="top", kind=CellKind.MARKDOWN, was="# Plots", source="# My plots")
    await asyncio.gather(first.edit(EDIT), second.edit(title))

    assert sources(tmp_path) == ["# My plots", "x = 2"]
    del first, second, lock
    assert len(notebooks.locks) == 0


@pytest.mark.parametrize("raises", [False, True])
@pytest.mark.parametrize("kind", [Paired, AsyncLargeFileManager])
async def test_what_a_tool_wrote_is_not_signed(tmp_path: Path, kind: type[Any], raises: bool) -> None:
    """Jupyter signs a notebook without outputs as trusted; its next output of HTML would act."""

    def hook(*, model: Any, os_path: str, contents_manager: Any) -> None:
        if raises:
            raise RuntimeError("no disk")

    manager = kind(root_dir=str(tmp_path))
    manager.register_post_save_hook(hook)
    nbformat.write(new_notebook(cells=[new_code_cell("x = 1", id="one")]), tmp_path / PATH)
    notebook = await ManagedNotebooks(server_of(manager, tmp_path)).opened(tmp_path / PATH)
    assert notebook is not None
    if raises:
        with pytest.raises(DocumentSilent):
            await notebook.edit(EDIT)
    else:
        await notebook.edit(EDIT)

    assert sources(tmp_path) == ["x = 2"]
    assert not manager.notary.check_signature(nbformat.read(tmp_path / PATH, as_version=4))


async def test_what_the_manager_made_of_it_is_not_signed_either(tmp_path: Path) -> None:
    """Jupytext writes other metadata than it gets, and has Jupyter sign what it writes."""

    class Changing(AsyncLargeFileManager):
        async def save(self, model: Any, path: str = "") -> Any:
            content = {**model["content"], "metadata": {"jupytext": {"formats": "ipynb,py"}}}
            return await super().save({**model, "content": content}, path)

    manager = Changing(root_dir=str(tmp_path))
    nbformat.write(new_notebook(cells=[new_code_cell("x = 1", id="one")]), tmp_path / PATH)
    notebook = await ManagedNotebooks(server_of(manager, tmp_path)).opened(tmp_path / PATH)
    assert notebook is not None
    await notebook.edit(EDIT)

    assert not manager.notary.check_signature(nbformat.read(tmp_path / PATH, as_version=4))


async def test_a_notebook_is_parsed_off_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: set[int] = set()

    notebook = await managed(hooked(tmp_path), tmp_path)
    assert notebook is not None
    monkeypatch.setattr(
        "ozzie_server_ext.gateway.contents.json",
        SimpleNamespace(dumps=off_loop(json.dumps, threads), loads=off_loop(json.loads, threads)),
    )
    monkeypatch.setattr(NotebookText, "of", off_loop(NotebookText.of, threads))
    await notebook.edit(EDIT)

    assert threads
    assert threading.get_ident() not in threads


def off_loop(work: Any, threads: set[int]) -> Any:
    def watched(*args: Any, **how: Any) -> Any:
        threads.add(threading.get_ident())
        return work(*args, **how)

    return watched
