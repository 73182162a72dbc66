"""Starting a gateway if none runs, and finding out why it did not start."""

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ozzie_server_ext.domain.disk import hint_for
from ozzie_server_ext.domain.errors import Unavailable
from ozzie_server_ext.render.text import cut_end, visible_label

IDLE_EXIT_S = 600
TEMPORARY = ("--port", "0", "--temporary", "--idle-exit", str(IDLE_EXIT_S))
"""Arguments for a gateway that nobody asked for explicitly."""
_MAX_OUTPUT = 4000
_children: "list[subprocess.Popen[bytes]]" = []
_PREFIX = re.compile(r"^(?:\[[EC] [^\]]*\] |ozzie gateway: (?:error: )?)")
_MESSAGE = re.compile(r"^ozzie gateway: (?!error: )")
_NO_REASON = re.compile(r"\[[DIW] |usage: |\s+\[-")


@dataclass(frozen=True, slots=True)
class Launched:
    """A started gateway; the file `log` contains its output from `begin` on."""

    process: "subprocess.Popen[bytes]"
    log: Path
    begin: int

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None

    @property
    def killed(self) -> bool:
        """Whether a signal ended it: no reason against starting another."""
        return (self.process.poll() or 0) < 0

    def end(self) -> None:
        """Tell it to stop, if it runs, without waiting."""
        if not self.ended:
            with contextlib.suppress(OSError):
                self.process.terminate()

    def reason(self) -> tuple[str, str]:
        """Return its last error and the hint, each of which may be empty."""
        try:
            with self.log.open("rb") as file:
                file.seek(self.begin)
                output = file.read(_MAX_OUTPUT).decode("utf-8", "replace")
        except OSError:
            return "", ""
        if "Traceback" in output:
            return "", ""  # a traceback is for the log only
        raw = [line for line in output.splitlines() if line.strip() and not _NO_REASON.match(line)]
        lines = [_PREFIX.sub("", line).strip() for line in raw]
        # The last lines: an error and a hint (programs/gateway), or lines of argparse or of Jupyter's log.
        starts = [index for index, line in enumerate(raw) if _MESSAGE.match(line)]
        sentence, hint = (lines[starts[-1]], lines[starts[-1] + 1 :]) if starts else (" ".join(lines[-2:]), [])
        return _shown(sentence), _shown(" ".join(hint))


def _shown(words: str) -> str:
    return cut_end(visible_label(words), 400)


def launch_gateway(home: Path, arguments: Sequence[str] = TEMPORARY) -> Launched:
    """Start a gateway in its own process session, so that neither an interrupt nor the end of its starter reaches it.

    Raises Unavailable if its folder can't be written, or no process can be started.
    """
    logs = home / "logs" / "app"
    path = logs / "gateway-start.log"
    try:
        logs.mkdir(mode=0o700, parents=True, exist_ok=True)
        output = open(path, "ab", opener=partial(os.open, mode=0o600))  # noqa: SIM115 closed below; errors have their own text
    except OSError as error:
        raise Unavailable(
            f"Ozzie's folder {home} can't be used: {error.strerror}.",
            hint=hint_for(path, error=error),
            code="home.unusable",
        ) from None
    with output:
        begin = output.tell()
        try:
            process = subprocess.Popen(
                # `-P`: a `json.py` in the notebook's folder must not shadow the library's.
                [sys.executable, "-P", "-m", "ozzie_server_ext.programs.gateway", "--verbose", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        except OSError as error:
            raise Unavailable(
                f"Ozzie's gateway could not be started: {error.strerror}.",
                hint="This account may have reached its limit of processes; end some and try again.",
                code="gateway.start",
            ) from None
    _children.append(process)
    return Launched(process, path, begin)


def reap_ended() -> None:
    """Reap our gateways that have ended: until then, they look alive to others."""
    _children[:] = [process for process in _children if process.poll() is None]
