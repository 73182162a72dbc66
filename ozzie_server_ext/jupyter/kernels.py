"""The port to the kernels of the Jupyter Server that the gateway runs in."""

import keyword
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Protocol

import msgspec
from msgspec.structs import replace

from ozzie_server_ext.domain.errors import Conflict, InputError, NotFound
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.jupyter.looking import MIME
from ozzie_server_ext.protocol.jsontext import canonical_bytes, loads_object
from ozzie_server_ext.render.text import quoted


class NoSuchKernel(NotFound):
    """No kernel of this id runs, or not any more."""

    code = "kernel.unknown"


class KernelBusy(Conflict):
    """The kernel is running something else. Nothing was sent to it."""

    code = "kernel.busy"


class KernelChanged(Conflict):
    """The kernel was restarted or has ended since it was looked at. Nothing was run."""

    code = "kernel.changed"


class KernelUnfit(Conflict):
    """A kernel of this kind can't do what was requested."""

    code = "kernel.unfit"


class KernelInfo(msgspec.Struct, frozen=True, kw_only=True):
    """`name` is that of the kernel spec, `state` what Jupyter says it does ("idle", "busy", "starting"), `notebook` the
    path that it was started for, relative to the server's root, if any. `is_agent`: it is Ozzie's own, whose cells are
    turns."""

    kernel_id: str
    name: str
    language: str
    state: str
    notebook: str = ""
    last_activity: str = ""
    is_agent: bool = False

    @property
    def place(self) -> str:
        """What people know it by: the notebook's path, else its name."""
        return self.notebook or self.name

    @property
    def phrase(self) -> str:
        """The kernel within a sentence: "the kernel of `analysis.ipynb`"."""
        return f"the kernel of {quoted(self.notebook)}" if self.notebook else f"the kernel {self.called}"

    @property
    def called(self) -> str:
        """Its name and the beginning of its id: "`python3` (1f0c9a27)"."""
        return f"{quoted(self.name)} ({self.kernel_id[:8]})"


class Ended(StrEnum):
    """How code that was sent to a kernel ended, as far as is known."""

    DONE = "done"
    FAILED = "failed"
    """It raised an error, which is the last output."""
    NOT_BEGUN = "not_begun"
    """The kernel dropped what was queued."""
    TIMED_OUT = "timed_out"
    CUT = "cut"
    """It printed too much."""
    STOPPED = "stopped"
    """The caller gave up. As with the two before, the kernel was interrupted, and stopped."""
    QUEUED = "queued"
    """It had not begun when the time was up, and may still run."""
    RUNS_ON = "runs_on"
    """The kernel was interrupted, and did not stop."""
    LOST = "lost"
    """The kernel ended, or was restarted, while it ran."""


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    """The result of code in a kernel. `outputs` are those of nbformat 4.5, inert (`jupyter.outputs`), so that they can
    be put into a notebook. `left_out` are the media types of others; `is_cut`: some output is missing."""

    ended: Ended
    outputs: tuple[JsonObject, ...] = ()
    execution_count: int | None = None
    left_out: tuple[str, ...] = ()
    is_cut: bool = False


def _ignore(text: str) -> None: ...


class Kernels(Protocol):
    """The kernels of one Jupyter Server."""

    async def list(self) -> Sequence[KernelInfo]:
        """Return the running kernels, in the order of their notebooks."""
        ...

    async def process(self, kernel_id: str) -> str:
        """Return an id of the kernel's process, which changes with each restart. Raises NoSuchKernel, KernelBusy,
        KernelUnfit."""
        ...

    async def run(
        self, kernel_id: str, code: str, *, process: str, timeout_s: float, show: Callable[[str], None] = _ignore
    ) -> Ran:
        """Run code as a cell of that process, which counts in its history. `show` gets what it prints, as it comes. If
        the caller is cancelled once the code was sent, still return its result.

        Only this code is ever interrupted, not that of others. Raises like `process`, and KernelChanged if another
        process is there by now; nothing was run then.
        """
        ...

    async def inspect(self, kernel_id: str, name: str = "") -> JsonObject:
        """Return the user's variables, or one of them in more detail, without running, changing or calling anything of
        the user's. Raises like `process`, and NotFound if there is no such variable."""
        ...


class KernelsBelow:
    """Those of a server's kernels whose notebooks lie below the folder `below`, and those without a notebook only if
    that is the server's `root`. Every method is limited to these; a kernel of another project counts as missing.

    The sessions of the gateway's own project are not limited by it: its folder is the server's root, so they use all
    kernels of the server, also those of the notebooks of projects further down.
    """

    def __init__(self, kernels: Kernels, root: Path, below: Path) -> None:
        self._kernels = kernels
        self._root = root
        self._below = below

    async def list(self) -> Sequence[KernelInfo]:
        """See `Kernels`. Paths are relative to `below`."""
        found: list[KernelInfo] = []
        for each in await self._kernels.list():
            path = self._root / each.notebook
            if each.notebook and path.is_relative_to(self._below):
                found.append(replace(each, notebook=path.relative_to(self._below).as_posix()))
            elif not each.notebook and self._root == self._below:
                found.append(each)
        return found

    async def process(self, kernel_id: str) -> str:
        """See `Kernels`."""
        await self._expect_below(kernel_id)
        return await self._kernels.process(kernel_id)

    async def run(
        self, kernel_id: str, code: str, *, process: str, timeout_s: float, show: Callable[[str], None] = _ignore
    ) -> Ran:
        """See `Kernels`."""
        await self._expect_below(kernel_id)
        return await self._kernels.run(kernel_id, code, process=process, timeout_s=timeout_s, show=show)

    async def inspect(self, kernel_id: str, name: str = "") -> JsonObject:
        """See `Kernels`."""
        await self._expect_below(kernel_id)
        return await self._kernels.inspect(kernel_id, name)

    async def _expect_below(self, kernel_id: str) -> None:
        if kernel_id not in [each.kernel_id for each in await self.list()]:
            raise NoSuchKernel("No kernel of that id runs here, or not any more.")


class NoKernels:
    """No Jupyter Server, so no kernels."""

    async def list(self) -> Sequence[KernelInfo]:
        return ()

    async def process(self, kernel_id: str) -> str:
        raise NoSuchKernel("No kernel runs here.")

    async def run(
        self, kernel_id: str, code: str, *, process: str, timeout_s: float, show: Callable[[str], None] = _ignore
    ) -> Ran:
        raise NoSuchKernel("No kernel runs here.")

    async def inspect(self, kernel_id: str, name: str = "") -> JsonObject:
        raise NoSuchKernel("No kernel runs here.")


LONGEST_NAME = 200
_MOST_BYTES = 1024 * 1024


def expression(name: str = "") -> str:
    """Return the expression that describes the variables. Raises InputError for an invalid variable name."""
    if name and not is_plain_name(name):
        raise InputError(f"{quoted(name[:LONGEST_NAME])} is no plain name of a variable.", code="kernel.name")
    # Functions know their globals and their built-ins without any lookup of a name.
    return (
        "(lambda own: (lambda apart: "
        f"(own['exec']({_source()!a}, apart), apart['Answer'](apart['describe']((lambda: 0).__globals__, {name!a})))[1]"
        ")({'__name__': 'ozzie', '__builtins__': own}))((lambda: 0).__builtins__)"
    )


def is_plain_name(name: str) -> bool:
    """Whether a variable can have this name."""
    return len(name) <= LONGEST_NAME and name.isidentifier() and not keyword.iskeyword(name)


def inspection_of(answer: Any, name: str = "") -> JsonObject:
    """Return the variables in the kernel's answer to `expression`. Raises NotFound, and KernelUnfit for any other
    answer: code in a kernel can answer whatever it likes."""
    data = answer.get("data") if isinstance(answer, dict) else None
    found = data.get(MIME) if isinstance(data, dict) else None
    if not isinstance(found, dict):
        raise KernelUnfit("The kernel did not describe its variables. That needs Python 3.10 or newer.")
    if name and not found:
        raise NotFound(f"There is no variable {quoted(name)} in this kernel.", code="kernel.variable")
    return loads_object(canonical_bytes(found), max_bytes=_MOST_BYTES)


@cache
def _source() -> str:
    return files("ozzie_server_ext.jupyter").joinpath("looking.py").read_text()
