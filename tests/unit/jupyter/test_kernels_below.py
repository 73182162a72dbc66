"""The kernels that a session of a project sees."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from ozzie_server_ext.jupyter.kernels import KernelInfo, KernelsBelow, NoKernels

ROOT = Path("/w")


class Running(NoKernels):
    """Those of a server whose root is ROOT."""

    async def list(self) -> Sequence[KernelInfo]:
        paths = ("a/deep/x.ipynb", "a/x.ipynb", "ab/x.ipynb", "x.ipynb", "")
        return [
            KernelInfo(kernel_id=path, name="python3", language="python", state="idle", notebook=path) for path in paths
        ]


@pytest.mark.parametrize(
    ("project", "seen"),
    [
        ("/w", ["a/deep/x.ipynb", "a/x.ipynb", "ab/x.ipynb", "x.ipynb", ""]),
        ("/w/a", ["deep/x.ipynb", "x.ipynb"]),
        ("/", ["w/a/deep/x.ipynb", "w/a/x.ipynb", "w/ab/x.ipynb", "w/x.ipynb"]),
        ("/elsewhere", []),
    ],
)
async def test_those_of_its_notebooks_by_their_paths_in_it(project: str, seen: list[str]) -> None:
    found = await KernelsBelow(Running(), ROOT, Path(project)).list()

    assert [kernel.notebook for kernel in found] == seen


async def test_a_notebook_of_the_same_name_in_another_folder_is_not_taken_for_it() -> None:
    (of_the_folder, *_) = [
        each for each in await KernelsBelow(Running(), ROOT, ROOT / "a").list() if each.notebook == "x.ipynb"
    ]

    assert of_the_folder.kernel_id == "a/x.ipynb"
