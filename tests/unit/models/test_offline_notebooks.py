"""What the offline script does with notebooks: it reads them first, and names cells as they were told to it."""

from functools import partial

import pytest

from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.models.offline_moves import Ask
from ozzie_server_ext.tools.builtin import builtin_tools
from tests.unit.models import test_offline
from tests.unit.models.test_offline import gave, user

TOOLS = frozenset(tool.meta.name for tool in builtin_tools())
asked, said = partial(test_offline.asked, tools=TOOLS), partial(test_offline.said, tools=TOOLS)
READ: JsonObject = {
    "path": "a.ipynb",
    "cells": [
        {"number": 1, "id": "one", "version": "v1", "kind": "markdown", "source": "\n# Title\ntext"},
        {"number": 2, "id": "two", "version": "v2", "kind": "code", "source": ""},
    ],
}


@pytest.mark.parametrize(
    "question", ["Which cells has a.ipynb?", "Show the cells of @a.ipynb.", "List cells in a.ipynb"]
)
def test_cells_are_listed_with_their_first_lines(question: str) -> None:
    assert asked(user(question)) == Ask("read_notebook", {"path": "a.ipynb"})
    answer = said(user(question), *gave("read_notebook", READ))
    assert "1. markdown: `# Title`\n2. code: `(empty)`" in answer


def test_a_cell_is_added_without_reading() -> None:
    question = "Add a Markdown cell to work/a.ipynb: Checked by Ozzie."
    args: JsonObject = {"path": "work/a.ipynb", "kind": "markdown", "source": "Checked by Ozzie."}

    assert asked(user(question)) == Ask("insert_cell", args)
    assert "The cell stands in `work/a.ipynb`." in said(user(question), *gave("insert_cell", {"notes": []}))


@pytest.mark.parametrize(
    ("question", "tool", "args"),
    [
        ("Change cell 2 of a.ipynb to: `x = 1`", "edit_cell", {"cell": "two", "version": "v2", "source": "x = 1"}),
        ("Delete cell 1 of a.ipynb.", "delete_cell", {"cell": "one", "version": "v1"}),
        ("Move cell 2 of a.ipynb to the top.", "move_cell", {"cell": "two", "version": "v2", "after": "top"}),
    ],
)
def test_a_cell_is_named_as_it_was_read(question: str, tool: str, args: JsonObject) -> None:
    assert asked(user(question)) == Ask("read_notebook", {"path": "a.ipynb"})
    assert asked(user(question), *gave("read_notebook", READ)) == Ask(tool, {"path": "a.ipynb", **args})
    notes: Json = {"notes": ["It is not saved yet."]}
    assert "Done in `a.ipynb`. It is not saved yet." in said(
        user(question), *gave("read_notebook", READ), *gave(tool, notes)
    )


def test_a_cell_that_is_not_there_is_not_changed() -> None:
    assert "`a.ipynb` has no cell 7." in said(user("Delete cell 7 of a.ipynb"), *gave("read_notebook", READ))
    assert "has no cells" in said(user("Which cells has a.ipynb?"), *gave("read_notebook", {"cells": "?"}))


def test_the_last_edit_is_taken_back() -> None:
    edits = (*gave("insert_cell", {"path": "a.ipynb", "undo": "cells/1.json"}), *gave("edit_cell", {"undo": None}))
    question = user("Take the last edit back.")

    assert asked(user("Add …"), *edits, question) == Ask("undo_cell_edit", {"path": "a.ipynb", "undo": "cells/1.json"})
    assert "taken back" in said(user("Add …"), *edits, question, *gave("undo_cell_edit", {"path": "a.ipynb"}))
    assert "There is no edit" in said(question)
