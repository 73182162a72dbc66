"""Starts the gateway before the kernel loads itself, so that the two starts overlap.

Usually a gateway is running: then this costs nothing, because the rest is imported only if needed.
"""

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.domain.paths import home_folder
from ozzie_server_ext.protocol.owner import owner_alive

if TYPE_CHECKING:
    from ozzie_kernel.launch import Launched

_ahead: "dict[Path, Launched]" = {}


def launch_ahead(env: Mapping[str, str] = os.environ) -> None:
    """Start a gateway if none runs. Errors are reported on connecting."""
    with contextlib.suppress(OzzieError):
        home = home_folder(env, Path.home)
        if not owner_alive(home):
            _launch(home)


def launched_ahead(home: Path) -> "Launched | None":
    """Return, once, the gateway of this home that `launch_ahead` started; None if it has ended since."""
    launched = _ahead.pop(home, None)
    return None if launched is None or launched.ended else launched


def _launch(home: Path) -> None:
    from jupyter_core.paths import jupyter_runtime_dir

    from ozzie_kernel.launch import launch_gateway
    from ozzie_server_ext.protocol.attached import owner_expected
    from ozzie_server_ext.protocol.handshake import find_handshakes

    if not owner_expected(home) and next(find_handshakes(Path(jupyter_runtime_dir()), home), None) is None:
        _ahead[home] = launch_gateway(home)
