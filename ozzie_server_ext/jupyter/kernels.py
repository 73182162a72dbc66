"""The port to the kernels of the Jupyter Server that the gateway runs in."""

import keyword
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Any, Protocol

from ozzie_server_ext.domain.errors import Conflict, InputError, NotFound, OzzieError
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.jupyter.looking import MIME
from ozzie_server_ext.protocol.jsontext import canonical_bytes, loads_object
from ozzie_server_ext.render.text import quoted


class NoSuchKernel(NotFound):
    """No kernel of this id runs, or not any more."""

    code = "kernel.unknown"


class KernelBusy(Conflict):
    """The kernel runs something else. Nothing was sent that it would run later."""

    code = "kernel.busy"


class KernelChanged(Conflict):
    """The kernel is not as it was when it was looked at: it was restarted, or ended. Nothing was run."""

    code = "kernel.changed"


class KernelUnfit(Conflict):
    """What is asked can't be had of a kernel of that kind."""

    code = "kernel.unfit"


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelInfo:
    """`name` is its kernel spec's, `state` what Jupyter takes it to do ("idle", "busy", "starting"), `notebook` the
    path that it was started for, relative to the server's root, where there is one. `is_agent`: it is Ozzie's own,
    whose cells are turns."""

    kernel_id: str
    name: str
    language: str
    state: str
    notebook: str = ""
    last_activity: str = ""
    is_agent: bool = False

    @property
    def place(self) -> str:
        """By what people know it: the notebook's path, else its name."""
        return self.notebook or self.name

    @property
    def said(self) -> str:
        """Within a sentence: "the kernel of `analysis.ipynb`"."""
        return f"the kernel of {quoted(self.notebook)}" if self.notebook else f"the kernel {self.called}"

    @property
    def called(self) -> str:
        """By its name and the beginning of its id: "`python3` (1f0c9a27)"."""
        return f"{quoted(self.name)} ({self.kernel_id[:8]})"


class Ended(StrEnum):
    """How code that was sent to a kernel ended, as far as is known."""

    DONE = "done"
    FAILED = "failed"
    """It raised something: the last output tells what."""
    NOT_BEGUN = "not_begun"
    """The kernel gave back what stood in its queue."""
    TIMED_OUT = "timed_out"
    CUT = "cut"
    """It printed too much."""
    STOPPED = "stopped"
    """Whoever asked for it did not want it any more. As with the two before, the kernel was interrupted, and let go."""
    QUEUED = "queued"
    """It had not begun when the time was up: it may still run."""
    RUNS_ON = "runs_on"
    """The kernel was interrupted, and did not let go of it."""
    LOST = "lost"
    """The kernel ended, or was restarted, while it ran."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What became of code in a kernel. `outputs` are those of nbformat 4.5, inert (`jupyter.outputs`): they can stand
    in a notebook as they are. `left_out` are the media types of what is not among them; `is_cut`: some of it is
    missing."""

    ended: Ended
    outputs: tuple[JsonObject, ...] = ()
    execution_count: int | None = None
    left_out: tuple[str, ...] = ()
    is_cut: bool = False


def _to_nobody(text: str) -> None: ...


class Kernels(Protocol):
    """The kernels of one Jupyter Server."""

    async def list(self) -> Sequence[KernelInfo]:
        """Those that run, in the order of their notebooks."""
        ...

    async def process(self, kernel_id: str) -> str:
        """What a kernel calls its own process: another one after each restart, and the same in between. Raises
        NoSuchKernel, KernelBusy, KernelUnfit."""
        ...

    async def run(
        self,
        kernel_id: str,
        code: str,
        *,
        process: str,
        timeout_s: float,
        show: Callable[[str], None] = _to_nobody,
    ) -> Ran:
        """Run code as a cell of that process, which counts in its history. What it prints is given to `show` as it
        comes. Where the caller is cancelled, it still returns what became of the code, once that was sent.

        Only this code is ever interrupted, not what somebody else runs. Raises as `process`, and KernelChanged where
        another process is there by now; nothing was run then."""
        ...

    async def inspect(self, kernel_id: str, name: str = "") -> JsonObject:
        """The user's variables, or one of them in more detail. Nothing of the user's is run, changed or called for it.
        Raises as `process`, and NotFound where there is no such variable."""
        ...


class NoKernels:
    """Where there is no Jupyter Server that runs kernels."""

    async def list(self) -> Sequence[KernelInfo]:
        return ()

    async def process(self, kernel_id: str) -> str:
        raise NoSuchKernel("No kernel runs here.")

    async def run(
        self,
        kernel_id: str,
        code: str,
        *,
        process: str,
        timeout_s: float,
        show: Callable[[str], None] = _to_nobody,
    ) -> Ran:
        raise NoSuchKernel("No kernel runs here.")

    async def inspect(self, kernel_id: str, name: str = "") -> JsonObject:
        raise NoSuchKernel("No kernel runs here.")


LONGEST_NAME = 200
_MOST_BYTES = 1024 * 1024


def expression(name: str = "") -> str:
    """What is evaluated. Raises InputError for what is no plain name of a variable."""
    if name and not is_plain_name(name):
        raise InputError(f"{quoted(name[:LONGEST_NAME])} is no plain name of a variable.", code="kernel.name")
    # Functions know their globals and their built-ins without any name being looked up.
    return (
        "(lambda own: (lambda apart: "
        f"(own['exec']({_source()!a}, apart), apart['Told'](apart['tell']((lambda: 0).__globals__, {name!a})))[1]"
        ")({'__name__': 'ozzie', '__builtins__': own}))((lambda: 0).__builtins__)"
    )


def is_plain_name(name: str) -> bool:
    """Whether a variable can be called so."""
    return len(name) <= LONGEST_NAME and name.isidentifier() and not keyword.iskeyword(name)


def told(answer: Any, name: str = "") -> JsonObject:
    """What the kernel gave for the expression. Raises NotFound, and KernelUnfit where it is not what was asked for:
    code in a kernel can answer whatever it likes."""
    data = answer.get("data") if isinstance(answer, dict) else None
    found = data.get(MIME) if isinstance(data, dict) else None
    if not isinstance(found, dict):
        raise KernelUnfit("The kernel gave no answer about its variables. They can be looked at from Python 3.10 on.")
    if name and not found:
        raise NotFound(f"There is no variable {quoted(name)} in this kernel.", code="kernel.variable")
    return loads_object(canonical_bytes(found), max_bytes=_MOST_BYTES)


@cache
def _source() -> str:
    return files("ozzie_server_ext.jupyter").joinpath("looking.py").read_text()


@dataclass(kw_only=True)
class InMemoryKernels:
    """`ran` is what code comes to, `variables` what a look at them gives; with `refuses`, neither. `code` is what was
    run so far, with the kernel that it was run in. `restart` gives a kernel another process."""

    kernels: Sequence[KernelInfo] = ()
    ran: Ran = field(default_factory=lambda: Ran(ended=Ended.DONE))
    variables: JsonObject = field(default_factory=lambda: {})
    refuses: OzzieError | None = None
    code: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    restarts: int = 0

    async def list(self) -> Sequence[KernelInfo]:
        return self.kernels

    async def process(self, kernel_id: str) -> str:
        self._expect(kernel_id)
        return f"process-{self.restarts}"

    async def run(
        self,
        kernel_id: str,
        code: str,
        *,
        process: str,
        timeout_s: float,
        show: Callable[[str], None] = lambda text: None,
    ) -> Ran:
        if await self.process(kernel_id) != process:
            raise KernelChanged("The kernel was restarted meanwhile. Nothing was run in it.")
        self.code.append((kernel_id, code))
        return self.ran

    async def inspect(self, kernel_id: str, name: str = "") -> JsonObject:
        self._expect(kernel_id)
        return self.variables

    def restart(self) -> None:
        self.restarts += 1

    def _expect(self, kernel_id: str) -> None:
        if self.refuses is not None:
            raise self.refuses
        if all(each.kernel_id != kernel_id for each in self.kernels):
            raise NoSuchKernel("No kernel of that id runs here, or not any more.")
