"""Declarations of tables, and that the folds keep to them."""

import pytest
from msgspec.structs import fields

from ozzie_server_ext.domain.events import EVENT_CLASSES
from ozzie_server_ext.domain.tasks import Task
from ozzie_server_ext.observability.clock import CountingIds, FakeClock
from ozzie_server_ext.store import projector
from ozzie_server_ext.store.memory import InMemoryEventLog
from ozzie_server_ext.store.projections.tasks import task_from
from ozzie_server_ext.store.projector import FOLDED_TYPES, TABLES, fingerprint
from ozzie_server_ext.store.tables import Column, MemoryRows, Row, Table
from tests.replay.histories import TASK, Histories, task_created, task_draft

_NOTES = Table("notes", (Column("id"), Column("text", nullable=True)), key=("id",))


@pytest.mark.parametrize("name", ["", "a b", "a;", "A", '"a"', "a--"])
def test_names_that_could_be_more_than_names_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="can't name"):
        Column(name)
    with pytest.raises(ValueError, match="can't name"):
        Table(name, (Column("id"),), key=("id",))


def test_keys_and_indexes_need_columns() -> None:
    with pytest.raises(ValueError, match="no column"):
        Table("notes", (Column("id"),), key=("other",))
    with pytest.raises(ValueError, match="no column"):
        Table("notes", (Column("id"),), key=("id",), indexes=(("other",),))


def test_what_was_put_is_seen_before_it_is_kept_and_gone_when_it_is_not() -> None:
    rows = MemoryRows()
    rows.put(_NOTES, {"id": "a", "text": "1"})
    assert rows.get(_NOTES, ("a",)) == {"id": "a", "text": "1"}
    rows.commit()
    rows.put(_NOTES, {"id": "a", "text": "2"})
    rows.discard()
    assert rows.get(_NOTES, ("a",)) == {"id": "a", "text": "1"}
    assert rows.get(_NOTES, ("b",)) is None


def test_every_folded_type_is_in_the_catalogue() -> None:
    assert {cls.type for cls in EVENT_CLASSES} >= FOLDED_TYPES


def test_a_change_of_tables_or_folds_changes_the_fingerprint(monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint()
    assert fingerprint() == before
    monkeypatch.setitem(projector.TABLES, "notes", _NOTES)
    assert fingerprint() != before


async def test_a_row_of_tasks_gives_the_task_back() -> None:
    log = InMemoryEventLog(FakeClock(), CountingIds())
    await log.append("t", [task_draft(task_created("Plot"))])
    (row,) = await log.rows("tasks")
    task = task_from(row)
    assert (task.task_id, task.title, task.limits) == (TASK, "Plot", task_created().limits)
    assert {field.name for field in fields(Task)} <= set(row)


async def test_folds_leave_rows_with_exactly_the_declared_columns() -> None:
    log = InMemoryEventLog(FakeClock(), CountingIds())
    for stream, drafts in Histories(7).take(400):
        await log.append(stream, drafts)
    kinds = {"TEXT": str, "INTEGER": int, "REAL": float}
    for table in TABLES.values():
        rows: list[Row] = await log.rows(table.name)
        assert rows, table.name
        for row in rows:
            assert tuple(sorted(row)) == tuple(sorted(table.names))
            for column in table.columns:
                value = row[column.name]
                assert isinstance(value, kinds[column.kind]) or (value is None and column.nullable), column
