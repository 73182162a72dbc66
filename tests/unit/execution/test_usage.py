"""What is counted of a job, and what is not."""

import os
import sys

import pytest

from ozzie_server_ext.execution.sandbox_init import usage


@pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc")
def test_files_of_the_machine_do_not_count_while_a_sandbox_is_set_up() -> None:
    assert usage(os.getpid(), sys.maxsize, ("/tmp",)).files == 0
