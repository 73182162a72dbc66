"""Tables of projections: how they are declared, and the rows that folds read and write."""

import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Literal, Protocol, TypeAlias, TypedDict, Unpack

import msgspec

from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.events import ModelCallCompleted
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.protocol.jsontext import dumps

Value: TypeAlias = str | int | float | None
"""The value of a column: JSON as its canonical text, a boolean as 0 or 1."""

Row: TypeAlias = dict[str, Value]
Key: TypeAlias = tuple[Value, ...]

_TYPES: dict[str, tuple[type, ...]] = {"TEXT": (str,), "INTEGER": (int,), "REAL": (int, float)}
_NAME = re.compile(r"[a-z][a-z_]*")


class Column(msgspec.Struct, frozen=True):
    name: str
    kind: Literal["TEXT", "INTEGER", "REAL"] = "TEXT"
    nullable: bool = False

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"{self.name!r} can't name a column")


def text(*names: str, nullable: bool = False) -> tuple[Column, ...]:
    return tuple(Column(name, "TEXT", nullable) for name in names)


def integer(*names: str, nullable: bool = False) -> tuple[Column, ...]:
    return tuple(Column(name, "INTEGER", nullable) for name in names)


def real(*names: str, nullable: bool = False) -> tuple[Column, ...]:
    return tuple(Column(name, "REAL", nullable) for name in names)


class Table(msgspec.Struct, frozen=True, dict=True):
    """A projection's table. `indexes` name the columns that readers look rows up by."""

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    indexes: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"{self.name!r} can't name a table")
        for name in (*self.key, *(name for index in self.indexes for name in index)):
            if name not in self.names:
                raise ValueError(f"{self.name} has no column {name!r}")

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @cached_property
    def _empty(self) -> "Row":
        return {c.name: None if c.nullable else "" if c.kind == "TEXT" else 0 for c in self.columns}

    def row(self, **values: Value) -> "Row":
        """Return a new row; columns that are not given are NULL if nullable, else "" or 0."""
        return {**self._empty, **values}

    def key_of(self, row: Mapping[str, Value]) -> Key:
        return tuple([row[name] for name in self.key])

    def column(self, name: str) -> Column:
        """Return the column. Raises InputError if it is not declared."""
        for column in self.columns:
            if column.name == name:
                return column
        raise InputError(f"The table {self.name} has no column {name[:80]!r}.")


class Rows(Protocol):
    """Where folds read and write rows. Never change a row from `get`: put a new one."""

    def get(self, table: Table, key: Key) -> Row | None: ...

    def put(self, table: Table, row: Row) -> None: ...


class MemoryRows:
    """Rows in memory: `get` sees what was `put`, which `commit` keeps or `discard` drops."""

    def __init__(self) -> None:
        self._kept: dict[str, dict[Key, Row]] = {}
        self._pending: dict[str, dict[Key, Row]] = {}

    def get(self, table: Table, key: Key) -> Row | None:
        for layer in (self._pending, self._kept):
            row = layer.get(table.name, {}).get(key)
            if row is not None:
                return row
        return None

    def put(self, table: Table, row: Row) -> None:
        self._pending.setdefault(table.name, {})[table.key_of(row)] = row

    def commit(self) -> None:
        for name, rows in self._pending.items():
            self._kept.setdefault(name, {}).update(rows)
        self._pending.clear()

    def discard(self) -> None:
        self._pending.clear()

    def clear(self) -> None:
        self._pending.clear()
        self._kept.clear()

    def select(self, table: Table, query: "Query") -> list[Row]:
        """Return copies of the kept rows that match `query`."""
        found = [
            dict(row)
            for row in self._kept.get(table.name, {}).values()
            if query.follows(row) and all(row[column] in values for column, values in query.where.items())
        ]
        found.sort(key=lambda row: [_sortable(row[name]) for name in query.order], reverse=query.descending)
        return found[query.offset : None if query.limit is None else query.offset + query.limit]


class Query(msgspec.Struct, frozen=True):
    """A checked query: accepted values by column, the columns that order the result, and the value of the first of
    these after which it begins (None: at its start)."""

    where: dict[str, list[Value]]
    order: tuple[str, ...]
    descending: bool
    after: Value
    limit: int | None
    offset: int

    def follows(self, row: Row) -> bool:
        """Whether `row` comes after `after`."""
        value = row[self.order[0]]
        if self.after is None or value is None:
            return self.after is None
        before, behind = _sortable(self.after), _sortable(value)
        return behind < before if self.descending else behind > before


class RowFilter(TypedDict, total=False):
    """Which rows of a table `EventLog.rows` returns, and in which order."""

    where: Mapping[str, Json] | None
    order_by: str | None
    descending: bool
    after: Json
    limit: int | None
    offset: int


def query(table: Table, **which: Unpack[RowFilter]) -> Query:
    """Check a query. Raises InputError for what the table does not have or could never hold."""
    order_by, limit, offset = which.get("order_by"), which.get("limit"), which.get("offset", 0)
    wanted: dict[str, list[Value]] = {}
    for name, value in (which.get("where") or {}).items():
        column = table.column(name)
        values = value if isinstance(value, list) else [value]
        wanted[name] = [_checked(column, each) for each in values]
    if (limit is not None and limit < 0) or offset < 0:
        raise InputError("limit and offset can't be negative.")
    key = table.key
    order = key if order_by is None else (table.column(order_by).name, *(name for name in key if name != order_by))
    start = _checked(table.column(order[0]), which.get("after"))
    return Query(wanted, order, which.get("descending", False), start, limit, offset)


def _checked(column: Column, value: Json) -> Value:
    if value is None or (not isinstance(value, list | dict) and isinstance(value, _TYPES[column.kind])):
        return value
    raise InputError(f"The column {column.name} holds {column.kind}: it can't be compared to {value!r:.80}.")


def _sortable(value: Value) -> tuple[bool, str | float]:
    return (value is not None, "" if value is None else value)  # NULL comes first, as in SQL


def table_named(tables: Mapping[str, Table], name: str) -> Table:
    """Return the declared table. Raises InputError if there is none of this name."""
    try:
        return tables[name]
    except KeyError:
        raise InputError(f"There is no table {name[:80]!r}.") from None


def dump_lines(table: Table, rows: Iterable[tuple[Value, ...]]) -> Iterable[str]:
    """Yield the canonical dump of one table; `rows` hold its columns in declared order, sorted by key."""
    yield f"# {table.name}"
    for row in rows:
        yield dumps(dict(zip(table.names, row, strict=True)))


_MOST = (1 << 63) - 1


def plus(value: Value, more: int) -> int:
    """Return the counter `value` raised by `more`. Raises InputError if no column can hold the sum: a figure that large
    comes from a broken or hostile provider."""
    if not isinstance(value, int):
        raise TypeError(f"{value!r} is no counter")
    if more < 0 or value + more > _MOST:
        raise InputError(f"A counter at {value} can't be raised by {more}.")
    return value + more


def usage_changes(row: Row, fact: ModelCallCompleted) -> Row:
    """Return what a completed call changes in a row that sums up usage."""
    return {
        "input_tokens": plus(row["input_tokens"], fact.usage.input_tokens),
        "output_tokens": plus(row["output_tokens"], fact.usage.output_tokens),
        "cost": plus(row["cost"], fact.cost or 0),
        "cost_known": 0 if fact.cost is None else row["cost_known"],
    }
