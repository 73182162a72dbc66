"""jupyter-collaboration, which `make setup` puts beside what is installed: it would be on in every server otherwise."""

import sys
from collections.abc import Mapping
from pathlib import Path

FOLDER = Path(sys.prefix) / "collaboration"


def with_collaboration(env: Mapping[str, str]) -> dict[str, str]:
    """The environment of a Jupyter Server that has it."""
    added = {
        "PYTHONPATH": FOLDER,
        "JUPYTER_PATH": FOLDER / "share" / "jupyter",
        "JUPYTER_CONFIG_PATH": FOLDER / "etc" / "jupyter",
    }
    return {**env, **{name: ":".join(filter(None, [str(path), env.get(name, "")])) for name, path in added.items()}}


def importable() -> None:
    """Let this process import it, too."""
    if str(FOLDER) not in sys.path:
        sys.path.append(str(FOLDER))
