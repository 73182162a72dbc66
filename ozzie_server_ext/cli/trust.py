"""`ozzie config trust`: a person lets a project's own configuration count."""

import argparse
import os
from pathlib import Path

from ozzie_server_ext.cli.terminal import print_json
from ozzie_server_ext.config.home import find_home
from ozzie_server_ext.config.loader import PROJECT_FILE, trust_file
from ozzie_server_ext.domain.errors import NotFound


def trust_project(options: argparse.Namespace) -> int:
    """Trust the present content of the folder's configuration. Raises NotFound, or ConfigError for a broken one."""
    home = find_home(os.environ)
    file = Path(options.folder).absolute() / PROJECT_FILE
    if not file.is_file():
        raise NotFound(f"There is no {file}.", hint="Name the folder that has it: ozzie config trust FOLDER.")
    home.create()
    trust_file(home, file)
    if options.json:
        print_json({"trusted": str(file)})
    else:
        print(f"{file} counts from now on, as it is. If it changes, it has to be trusted again.")
    return 0
