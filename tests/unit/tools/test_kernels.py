"""What the tools for kernels say of them, without a Jupyter Server."""

from collections.abc import Sequence
from typing import Any, cast

import msgspec

from ozzie_server_ext.jupyter.documents import Jupyter
from ozzie_server_ext.jupyter.kernels import KernelInfo, NoKernels
from ozzie_server_ext.tools.base import ToolContext
from ozzie_server_ext.tools.builtin.kernels import list_kernels


class Two(NoKernels):
    """The user's and Ozzie's own."""

    async def list(self) -> Sequence[KernelInfo]:
        return [
            KernelInfo(kernel_id="k-1", name="python3", language="python", state="idle"),
            KernelInfo(kernel_id="k-2", name="ozzie", language="text", state="busy", is_agent=True),
        ]


async def test_its_own_kernel_can_be_inspected_and_takes_no_code(context: ToolContext) -> None:
    context = msgspec.structs.replace(context, jupyter=Jupyter(kernels=Two()))
    listed = cast("dict[str, Any]", (await list_kernels(context)).data)
    users, own = listed["kernels"]

    assert "note" not in users
    assert "inspect_kernel shows its variables" in own["note"]
    assert "no code can be run in it" in own["note"]
    assert "looked at" not in own["note"]
