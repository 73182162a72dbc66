"""docs/documents.md names tests that there are."""

import ast

import pytest

from tests.docs.documents_page import PAGE, ROOT, ROWS, Bound, with_table


def test_the_page_has_the_table_of_its_rows() -> None:
    page = PAGE.read_text()
    assert page == with_table(page), "run: python -m tests.docs.documents_page"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.does[:40])
def test_each_test_that_is_named_is_there(row: Bound) -> None:
    for file, names in row.tests:
        tree = ast.parse((ROOT / "tests" / file).read_text())
        there = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        assert set(names) <= there, file
