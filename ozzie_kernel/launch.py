"""Starting a gateway of one's own where none runs, and saying why where it did not start."""

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ozzie_server_ext.domain.disk import hint_for
from ozzie_server_ext.domain.errors import Unavailable
from ozzie_server_ext.render.text import cut_end, visible_label

IDLE_EXIT_S = 600
FOR_A_WHILE = ("--port", "0", "--temporary", "--idle-exit", str(IDLE_EXIT_S))
"""What a gateway is started with that nobody asked for by name."""
_SAID_BYTES = 4000
_children: "list[subprocess.Popen[bytes]]" = []
_BEFORE = re.compile(r"^(?:\[[EC] [^\]]*\] |ozzie gateway: (?:error: )?)")
_TOLD = re.compile(r"^ozzie gateway: (?!error: )")
_NO_REASON = re.compile(r"\[[DIW] |usage: |\s+\[-")


@dataclass(frozen=True, slots=True)
class Launched:
    """A gateway that was started, and the file that holds what it says from `begin` on."""

    process: "subprocess.Popen[bytes]"
    log: Path
    begin: int

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None

    @property
    def killed(self) -> bool:
        """Whether a signal ended it, so that nothing is known against starting another."""
        return (self.process.poll() or 0) < 0

    def end(self) -> None:
        """Have it stop, if it runs; nobody waits for that."""
        if not self.ended:
            with contextlib.suppress(OSError):
                self.process.terminate()

    def reason(self) -> tuple[str, str]:
        """The sentence with which it ended, and what to do next; each may be empty."""
        try:
            with self.log.open("rb") as file:
                file.seek(self.begin)
                said = file.read(_SAID_BYTES).decode("utf-8", "replace")
        except OSError:
            return "", ""
        if "Traceback" in said:
            return "", ""  # that is for the file
        raw = [line for line in said.splitlines() if line.strip() and not _NO_REASON.match(line)]
        lines = [_BEFORE.sub("", line).strip() for line in raw]
        # Its last words: a sentence and what to do (programs/gateway), or else lines of argparse or of Jupyter's log.
        told = [index for index, line in enumerate(raw) if _TOLD.match(line)]
        sentence, hint = (lines[told[-1]], lines[told[-1] + 1 :]) if told else (" ".join(lines[-2:]), [])
        return _shown(sentence), _shown(" ".join(hint))


def _shown(words: str) -> str:
    return cut_end(visible_label(words), 400)


def launch_gateway(home: Path, arguments: Sequence[str] = FOR_A_WHILE) -> Launched:
    """A gateway of its own process session, so that neither the interrupt nor the end of who starts it reaches it.

    Raises Unavailable where its folder can't be written, or no process can be started.
    """
    logs = home / "logs" / "app"
    path = logs / "gateway-start.log"
    try:
        logs.mkdir(mode=0o700, parents=True, exist_ok=True)
        output = open(path, "ab", opener=_private)  # noqa: SIM115 closed below; opening may fail in words
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
                # `-P`: a `json.py` in the notebook's folder must not take the place of the library's.
                [sys.executable, "-P", "-m", "ozzie_server_ext.programs.gateway", "--verbose", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        except OSError as error:
            raise Unavailable(
                f"Ozzie's gateway could not be started: {error.strerror}.",
                hint="This account may have as many processes as it is allowed; end some and try again.",
                code="gateway.start",
            ) from None
    _children.append(process)
    return Launched(process, path, begin)


def reap_ended() -> None:
    """Let go of gateways of ours that have ended: until then, each looks alive to who asks for its process."""
    _children[:] = [process for process in _children if process.poll() is None]


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
