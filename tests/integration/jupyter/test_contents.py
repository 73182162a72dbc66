"""A closed notebook is edited through a contents manager that does more than write its file."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager, LargeFileManager
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from tornado.web import HTTPError

from ozzie_server_ext.gateway.contents import ManagedNotebook, ManagedNotebooks
from ozzie_server_ext.jupyter.cells import CellChanged, CellKind, Edit, Insert, Replace
from ozzie_server_ext.jupyter.documents import DocumentBusy, DocumentSilent
from ozzie_server_ext.tools.base import ToolFailed

PATH = "plots.ipynb"
EDIT = Replace(cell_id="one", kind=CellKind.CODE, was="x = 1", source="x = 2")


def written(folder: Path) -> None:
    html = new_output("display_data", data={"text/html": "<b>1</b>"})
    cells = [new_markdown_cell("# Plots", id="top"), new_code_cell("x = 1", id="one", outputs=[html])]
    nbformat.write(new_notebook(cells=cells), folder / PATH)


def sources(folder: Path) -> list[str]:
    return [cell["source"] for cell in nbformat.read(folder / PATH, as_version=4)["cells"]]


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
