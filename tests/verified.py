"""Verify a log's database by itself, without its anchor."""

from pathlib import Path

from ozzie_server_ext.store.database import FAILURES, open_readable, unusable
from ozzie_server_ext.store.log import Verification
from ozzie_server_ext.store.sqlite_events import verify


def verify_file(path: Path) -> Verification:
    """Verify a log that may be closed or in use, without changing it; raises as `open_readable`."""
    connection = open_readable(path)
    try:
        return verify(connection)
    except FAILURES as error:
        raise unusable(error, path) from error
    finally:
        connection.close()
