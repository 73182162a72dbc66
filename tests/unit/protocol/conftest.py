"""What the tests of files between processes share."""

import subprocess
import sys

import pytest


@pytest.fixture
def dead_pid() -> int:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait(20)
    return child.pid
