"""Who may write to a log: the gateway that opened it last, and from that moment no other (DESIGN §2.10, §2.11).

The lock of `OZZIE_PATH` elects the owner, but a lock file can be removed and a process can be stopped for an hour. So
the log itself keeps out who comes late: a number in it is raised by whoever opens it for writing, and is looked at
inside of every transaction, where nobody else can raise it.
"""

import sqlite3

from ozzie_server_ext.store.log import OwnerLost


def take_over(connection: sqlite3.Connection) -> int:
    """Become the owner; the number that stands for that."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        (epoch,) = connection.execute("UPDATE owner SET epoch = epoch + 1 RETURNING epoch").fetchone()
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return epoch


def begin(connection: sqlite3.Connection, epoch: int) -> None:
    """Begin to write. Raises OwnerLost, in the open transaction."""
    connection.execute("BEGIN IMMEDIATE")
    expect_owner(connection, epoch)


def write(connection: sqlite3.Connection) -> None:
    """Write the number again, in the open transaction: it has to reach the disk as any change has."""
    for step in (1, -1):  # SQLite writes nothing where nothing differs
        connection.execute("UPDATE owner SET epoch = epoch + ?", (step,))


def expect_owner(connection: sqlite3.Connection, epoch: int) -> None:
    """Raises OwnerLost where somebody has become the owner after `epoch`."""
    if connection.execute("SELECT epoch FROM owner").fetchone() != (epoch,):
        raise OwnerLost()
