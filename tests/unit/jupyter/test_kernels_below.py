"""The kernels that a session of a project sees."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.jupyter.kernels import Ended, KernelInfo, KernelsBelow, NoKernels, NoSuchKernel, Ran

ROOT = Path("/w")


class Running(NoKernels):
    """Those of a server whose root is ROOT."""

    async def list(self) -> Sequence[KernelInfo]:
        paths = ("a/deep/x.ipynb", "a/x.ipynb", "ab/x.ipynb", "x.ipynb", "")
        return [
            KernelInfo(kernel_id=path, name="python3", language="python", state="idle", notebook=path) for path in paths
        ]

    async def process(self, kernel_id: str) -> str:
        return f"process of {kernel_id}"

    async def run(
        self, kernel_id: str, code: str, *, process: str, timeout_s: float, show: Callable[[str], None] = print
    ) -> Ran:
        return Ran(ended=Ended.DONE)

    async def inspect(self, kernel_id: str, name: str = "") -> JsonObject:
        return {"variables": []}


@pytest.mark.parametrize(
    ("project", "seen"),
    [
        ("/w", ["a/deep/x.ipynb", "a/x.ipynb", "ab/x.ipynb", "x.ipynb", ""]),
        ("/w/a", ["deep/x.ipynb", "x.ipynb"]),
        ("/", ["w/a/deep/x.ipynb", "w/a/x.ipynb", "w/ab/x.ipynb", "w/x.ipynb"]),
        ("/elsewhere", []),
    ],
)
async def test_a_project_lists_the_kernels_of_its_notebooks_by_paths_below_it(project: str, seen: list[str]) -> None:
    found = await KernelsBelow(Running(), ROOT, Path(project)).list()

    assert [kernel.notebook for kernel in found] == seen


async def test_a_notebook_of_the_same_name_in_another_folder_is_not_taken_for_it() -> None:
    (of_the_folder, *_) = [
        each for each in await KernelsBelow(Running(), ROOT, ROOT / "a").list() if each.notebook == "x.ipynb"
    ]

    assert of_the_folder.kernel_id == "a/x.ipynb"


async def test_no_call_reaches_a_kernel_of_another_project() -> None:
    kernels = KernelsBelow(Running(), ROOT, ROOT / "a")

    assert await kernels.process("a/x.ipynb") == "process of a/x.ipynb"
    assert (await kernels.run("a/x.ipynb", "1", process="", timeout_s=1)).ended is Ended.DONE
    assert await kernels.inspect("a/x.ipynb") == {"variables": []}
    for another in ("ab/x.ipynb", ""):
        with pytest.raises(NoSuchKernel):
            await kernels.process(another)
        with pytest.raises(NoSuchKernel):
            await kernels.run(another, "1", process="", timeout_s=1)
        with pytest.raises(NoSuchKernel):
            await kernels.inspect(another)
