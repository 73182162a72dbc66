"""The gateway that will be needed is started before the kernel loads itself, and the two starts overlap.

Where one runs, which is nearly always, a kernel loses no time with this: only then the rest is imported.
"""

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.domain.paths import home_folder
from ozzie_server_ext.protocol.handshake import owner_alive

if TYPE_CHECKING:
    from ozzie_kernel.launch import Launched

_ahead: "dict[Path, Launched]" = {}


def launch_ahead(env: Mapping[str, str] = os.environ) -> None:
    """Begin to start a gateway, where none runs. What keeps it from starting is told to whoever connects."""
    with contextlib.suppress(OzzieError):
        home = home_folder(env, Path.home)
        if not owner_alive(home):
            _launch(home)


def launched_ahead(home: Path) -> "Launched | None":
    """The gateway of this home that `launch_ahead` began to start, once; None where it has ended since."""
    launched = _ahead.pop(home, None)
    return None if launched is None or launched.ended else launched


def _launch(home: Path) -> None:
    from jupyter_core.paths import jupyter_runtime_dir

    from ozzie_kernel.launch import launch_gateway
    from ozzie_server_ext.protocol.attached import owner_expected
    from ozzie_server_ext.protocol.handshake import find_handshakes

    if not owner_expected(home) and next(find_handshakes(Path(jupyter_runtime_dir()), home), None) is None:
        _ahead[home] = launch_gateway(home)
