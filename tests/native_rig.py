"""Plugins for tests that are programs."""

import json
from pathlib import Path
from typing import Any

from ozzie_server_ext.plugins.program_files import digest_of_files, program_files
from ozzie_server_ext.protocol.tool_host import Program

PYTHON = "#!/usr/bin/env python3\nimport json, os, sys\ntool, given = sys.argv[1], json.load(sys.stdin)\n"


def python(code: str) -> str:
    """A script that has its tool's name and arguments, and `answer`."""
    return f"{PYTHON}def answer(value): print(json.dumps(value))\n{code}\n"


def shell(code: str) -> str:
    return f"#!/bin/sh\n{code}\n"


def native_folder(folder: Path, script: str, files: dict[str, str] | None = None, **manifest: Any) -> Path:
    """Make a program in a new folder; `manifest` has at least its name."""
    folder.mkdir(parents=True)
    whole = {"provider": "native", "program": "main"} | manifest
    (folder / "manifest.jsonc").write_text(json.dumps(whole, indent=1))
    (folder / "main").write_text(script)
    for name, content in (files or {}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return folder


def program(folder: Path, **given: Any) -> Program:
    """Return what a tool host is given of a folder with a program."""
    digest = digest_of_files(program_files(folder))
    whole: dict[str, Any] = {"name": "bad", "folder": str(folder), "program": "main", "digest": digest} | given
    return Program(**whole)
