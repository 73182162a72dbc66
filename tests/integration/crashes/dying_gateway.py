"""The gateway's own program, which kills itself while it applies changes: when as many files are written as
`DIES_AFTER` says, before the next one or before the outcome is recorded. Run as a program, with the gateway's
arguments."""

import os
import signal
from typing import Any

from ozzie_server_ext.programs import gateway
from ozzie_server_ext.tools.builtin import applying

DIES_AFTER = "DIES_AFTER"
LAST = 3


def main() -> None:
    left = int(os.environ[DIES_AFTER])
    real, done = applying.carry_out, 0

    def dying(*args: Any) -> Any:
        nonlocal done
        if done == left:
            os.kill(os.getpid(), signal.SIGKILL)
        notes = real(*args)
        done += 1
        if done == left == LAST:
            os.kill(os.getpid(), signal.SIGKILL)
        return notes

    applying.carry_out = dying
    gateway.main()


if __name__ == "__main__":
    main()
