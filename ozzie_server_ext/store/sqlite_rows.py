"""Rows of projections in SQLite: statements generated from the declared tables, and a write-back cache for folds.

Names come only from declarations in this package, which check them; values are always bound.
"""

import sqlite3
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, TypeAlias

from ozzie_server_ext.protocol.jsontext import dumps
from ozzie_server_ext.store.tables import Key, Query, Row, Table, Value, dump_lines

_MOST_KNOWN = 100_000
"""About how many rows are cached. Beyond it all are dropped; they can be read again."""


Written: TypeAlias = Mapping[str, Mapping[Key, Row]]
"""Rows by table and key."""


class SqliteRows:
    """A cache in which `get` sees what was `put`; `keep` makes that part of the transaction, or `discard` drops it.

    `flush` writes what was kept. It stays cached, as nobody else writes these tables. After a rollback, call `forget`.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._pending: dict[str, dict[Key, Row]] = {}
        self._unwritten: dict[str, dict[Key, Row]] = {}
        self._known: dict[str, dict[Key, Row | None]] = {}
        self._size = 0
        self._complete = False

    def get(self, table: Table, key: Key) -> Row | None:
        for layer in (self._pending, self._known):
            rows = layer.get(table.name)
            if rows is not None and key in rows:
                return rows[key]
        if self._complete:
            return None
        row = one(self._connection, table, key)
        self._known.setdefault(table.name, {})[key] = row  # also that there is none
        self._size += 1
        return row

    def put(self, table: Table, row: Row) -> None:
        self._pending.setdefault(table.name, {})[table.key_of(row)] = row

    def keep(self) -> None:
        for name, rows in self._pending.items():
            self._known.setdefault(name, {}).update(rows)
            self._unwritten.setdefault(name, {}).update(rows)
            self._size += len(rows)
        self._pending.clear()

    def discard(self) -> None:
        """Drop what was put and not kept."""
        self._pending.clear()

    def flush(self, tables: Mapping[str, Table]) -> Written:
        """Write what was kept, and return it."""
        written, self._unwritten = self._unwritten, {}
        for name, rows in written.items():
            statements = _statements(tables[name])
            insert_many(self._connection, statements.upsert, [statements.values(row) for row in rows.values()])
        if self._size > _MOST_KNOWN:
            self.forget()
        return written

    def forget(self) -> None:
        """Drop all that is cached."""
        for layer in (self._pending, self._unwritten, self._known):
            layer.clear()
        self._size = 0
        self._complete = False

    def begin_empty(self) -> None:
        """Treat the tables as empty: until the cache drops rows, a row that is not cached does not exist."""
        self.forget()
        self._complete = True


class RecentRows:
    """The rows of some tables that were written last, as listeners know them: those of what is in use are asked for all
    the time, and a look at the database takes another thread."""

    def __init__(self, tables: Sequence[str], most: int = 10_000) -> None:
        """`most`: rows of each table."""
        self._most = most
        self._rows: dict[str, OrderedDict[Key, Row]] = {table: OrderedDict() for table in tables}

    def get(self, table: str, key: Key) -> Row | None:
        rows = self._rows.get(table)
        return None if rows is None else rows.get(key)

    def note(self, written: Written | None) -> None:
        """Take up what was written; None if that may have been anything."""
        for table, recent in self._rows.items():
            if written is None:
                recent.clear()
                continue
            for key, row in written.get(table, {}).items():
                recent[key] = row
                recent.move_to_end(key)
            while len(recent) > self._most:
                recent.popitem(last=False)


class ManyRows:
    """The statements that insert rows of so many columns, each several of them."""

    def __init__(self, insert: str, width: int, then: str = "") -> None:
        self._insert = insert
        self._row = f"({', '.join('?' * width)})"
        self._then = then
        self._sql: dict[int, str] = {}

    def sql(self, count: int) -> str:
        """Return the statement for so many rows."""
        if count not in self._sql:
            self._sql[count] = f"{self._insert} VALUES {', '.join([self._row] * count)} {self._then}"
        return self._sql[count]


_COUNTS = (1, 2, 3, 4, 5, 6, 8, 12, 16, 32, 64)
_AT_ONCE = tuple(_COUNTS[bisect_right(_COUNTS, left) - 1] for left in range(1, _COUNTS[-1] + 1))
"""Rows in the next statement, by how many are left: few statements insert any number, and few have to be prepared.
Python's sqlite3 gives up the interpreter's lock in each step of a statement, and waits up to 5 ms to get it back while
another thread computes."""


def insert_many(
    connection: sqlite3.Connection, statements: ManyRows, rows: Sequence[tuple[Any, ...]]
) -> list[tuple[Any, ...]]:
    """Insert rows in as few steps as possible; return what the statements return."""
    at, returned = 0, list[tuple[Any, ...]]()
    while left := len(rows) - at:
        count = _AT_ONCE[min(left, len(_AT_ONCE)) - 1]
        values = list(chain.from_iterable(rows[at : at + count]))
        returned += connection.execute(statements.sql(count), values)
        at += count
    return returned


class _Statements:
    """The SQL for one table."""

    def __init__(self, table: Table) -> None:
        columns = ", ".join(table.names)
        key = ", ".join(table.key)
        others = [name for name in table.names if name not in table.key]
        changes = ", ".join(f"{name} = excluded.{name}" for name in others)
        on_conflict = f"DO UPDATE SET {changes}" if others else "DO NOTHING"
        self.select = f"SELECT {columns} FROM {table.name}"
        self.one = f"{self.select} WHERE {' AND '.join(f'{name} = ?' for name in table.key)}"
        self.all = f"{self.select} ORDER BY {key}"
        upsert = f"INSERT INTO {table.name} ({columns})"
        self.upsert = ManyRows(upsert, len(table.names), f"ON CONFLICT ({key}) {on_conflict}")
        self.values: Callable[[Row], tuple[Value, ...]] = itemgetter(*table.names)
        kinds = ", ".join(f"{c.name} {c.kind}{'' if c.nullable else ' NOT NULL'}" for c in table.columns)
        self.create = [f"CREATE TABLE {table.name} ({kinds}, PRIMARY KEY ({key})) STRICT"]
        for index in table.indexes:
            name = f"{table.name}_by_{'_'.join(index)}"
            self.create.append(f"CREATE INDEX {name} ON {table.name} ({', '.join(index)})")


def _statements(table: Table) -> _Statements:
    try:
        return _known[table.name]
    except KeyError:
        return _known.setdefault(table.name, _Statements(table))


_known: dict[str, _Statements] = {}


def create(connection: sqlite3.Connection, table: Table) -> None:
    """Create the table, empty; replaces an existing one."""
    connection.execute(f"DROP TABLE IF EXISTS {table.name}")
    for statement in _statements(table).create:
        connection.execute(statement)


def select(connection: sqlite3.Connection, table: Table, query: Query) -> list[Row]:
    """Return the rows that match `query`."""
    conditions: list[str] = []
    values: list[Any] = []
    for column, wanted in query.where.items():
        # A list as one bound value; IN never finds NULL.
        found = f"{column} IN (SELECT value FROM json_each(?))"
        conditions.append(f"({found} OR {column} IS NULL)" if None in wanted else found)
        values.append(dumps([value for value in wanted if value is not None]))
    if query.after is not None:
        conditions.append(f"{query.order[0]} {'<' if query.descending else '>'} ?")
        values.append(query.after)
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    direction = " DESC" if query.descending else ""
    order = ", ".join(name + direction for name in query.order)
    values += [-1 if query.limit is None else query.limit, query.offset]
    sql = f"{_statements(table).select}{where} ORDER BY {order} LIMIT ? OFFSET ?"
    return [dict(zip(table.names, row, strict=True)) for row in connection.execute(sql, values)]


def one(connection: sqlite3.Connection, table: Table, key: Key) -> Row | None:
    """Return the row with this key."""
    found = connection.execute(_statements(table).one, key).fetchone()
    return None if found is None else dict(zip(table.names, found, strict=True))


def all_rows(connection: sqlite3.Connection, table: Table) -> Iterator[tuple[Value, ...]]:
    """Yield the rows of a table, ordered by its key."""
    yield from connection.execute(_statements(table).all)


def dump(connection: sqlite3.Connection, tables: Mapping[str, Table]) -> str:
    """Return the canonical dump, as of one moment."""

    def lines() -> Iterator[str]:
        for table in tables.values():
            yield from dump_lines(table, all_rows(connection, table))

    begun = not connection.in_transaction
    if begun:
        connection.execute("BEGIN")
    try:
        return "\n".join(lines()) + "\n"
    finally:
        if begun:
            connection.execute("ROLLBACK")
