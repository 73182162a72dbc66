"""`ozzie config trust`: trust a project's own configuration."""

import argparse
import os
from pathlib import Path

from ozzie_server_ext.cli.terminal import print_result
from ozzie_server_ext.config.home import find_home
from ozzie_server_ext.config.loader import PROJECT_FILE, trust_file
from ozzie_server_ext.domain.errors import NotFound


def trust_project(options: argparse.Namespace) -> int:
    """Trust the current content of a project's configuration. Raises NotFound, or ConfigError if it is invalid."""
    home = find_home(os.environ)
    file = Path(options.folder).absolute() / PROJECT_FILE
    if not file.is_file():
        raise NotFound(f"There is no {file}.", hint="Name the folder that has it: ozzie config trust FOLDER.")
    home.create()
    trust_file(home, file)
    line = f"{file} is now trusted in its present version. If it changes, trust it again."
    return print_result({"trusted": str(file)}, line, as_json=options.json)
