"""Checks a home once, as `ozzie events verify --deep` does, while its gateway keeps running.

`python -m ozzie_server_ext.programs.deep_check` reads `{"home": …, "key": …, "parent": …}` (two paths and the id of the
process that started it) and writes `{"faults": […]}`, a list of sentences. `store.checks` starts it.
"""

import sys
from pathlib import Path

from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.planes.child import limit_child, tie_to
from ozzie_server_ext.protocol.jsontext import canonical_bytes, loads_object
from ozzie_server_ext.store.anchor import AnchorFiles
from ozzie_server_ext.store.checks import check_deeply

NICE = 19
MAX_CPU_S = 3600
MAX_MEMORY = 4 << 30


def main() -> None:
    task = loads_object(sys.stdin.buffer.read())
    tie_to(int(str(task["parent"])))
    limit_child(cpu_s=MAX_CPU_S, memory=MAX_MEMORY, nice=NICE)
    home = Home(Path(str(task["home"])))
    sys.stdout.buffer.write(canonical_bytes({"faults": _faults(home, Path(str(task["key"])))}))


def _faults(home: Home, key: Path) -> list[str]:
    try:
        found = check_deeply(AnchorFiles.of(home, key), home.blobs)
    except OzzieError as error:
        return [f"{error} {error.hint}".strip()]
    verdict = [] if found.verdict.ok else [found.verdict.sentence]
    return verdict + [str(fault) for fault in found.faults]


if __name__ == "__main__":
    main()
