"""A double of the kernels of a Jupyter Server: it runs nothing, and answers as it is told."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.jupyter.kernels import Ended, KernelChanged, KernelInfo, NoSuchKernel, Ran


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
