"""Comparing two search indexes, of both modules: what the deep check rests on."""

import sqlite3
from contextlib import closing

import pytest

from ozzie_server_ext.store import search

ROWS = [(number, f"alpha beta word{number % 7}", "0kindmessage") for number in range(1, 50)]


def index(fts5: bool, rows: list[tuple[int, str, str]]) -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    search.create(connection, fts5=fts5)
    for row in rows:  # each in a part of its own, as a log appends them
        connection.execute("INSERT INTO search (rowid, terms, scope) VALUES (?, ?, ?)", row)
    return connection


@pytest.fixture(params=[True, False], ids=["fts5", "fts4"])
def fts5(request: pytest.FixtureRequest) -> bool:
    return request.param


def test_an_index_is_the_same_as_one_made_at_once(fts5: bool) -> None:
    with closing(index(fts5, ROWS)) as grown, closing(index(fts5, [])) as made:
        made.execute("BEGIN")
        made.executemany("INSERT INTO search (rowid, terms, scope) VALUES (?, ?, ?)", ROWS)
        made.execute("COMMIT")

        assert search.is_same(grown, made)


@pytest.mark.parametrize("count", [1, 10, len(ROWS)])
def test_an_index_from_which_texts_were_removed_is_the_same_as_one_without_them(count: int) -> None:
    with closing(index(True, ROWS)) as removed, closing(index(True, ROWS[count:])) as without:
        delete = "INSERT INTO search (search, rowid, terms, scope) VALUES ('delete', ?, ?, ?)"
        removed.executemany(delete, ROWS[:count])

        assert search.is_same(removed, without)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(ROWS[:-1], id="one less"),
        pytest.param([*ROWS, (50, "alpha", "0kindmessage")], id="one more"),
        pytest.param([*ROWS[:-1], (49, "alpha beta gamma", "0kindmessage")], id="another term"),
        pytest.param([*ROWS[:-1], (49, ROWS[-1][1], "0kindreply")], id="another kind"),
    ],
)
def test_it_is_told_from_others(fts5: bool, other: list[tuple[int, str, str]]) -> None:
    with closing(index(fts5, ROWS)) as one, closing(index(fts5, other)) as another:
        assert not search.is_same(one, another)


def test_terms_in_another_order_are_found_with_fts5() -> None:
    turned = [(number, " ".join(reversed(terms.split())), scope) for number, terms, scope in ROWS]
    with closing(index(True, ROWS)) as one, closing(index(True, turned)) as another:
        assert not search.is_same(one, another)


def test_an_index_like_another_uses_the_same_module(fts5: bool) -> None:
    with closing(index(fts5, [])) as one, closing(sqlite3.connect(":memory:")) as like:
        search.create_like(like, one)

        assert search.is_same(like, one)
