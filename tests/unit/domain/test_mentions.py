"""`@path` in a message: what is being typed, what stands there, and how a path is written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ozzie_server_ext.domain.messages import Mention, mention_at, typed_mention, write_mention


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("@", Mention(0, 1, "")),
        ("read @da", Mention(5, 8, "da")),
        ("read @data/sa", Mention(5, 13, "data/sa")),
        ('read @"my fi', Mention(5, 12, "my fi")),
        ('read @"', Mention(5, 7, "")),
        ("(@data", Mention(1, 6, "data")),
        ("@a and @b", Mention(7, 9, "b")),
        ("é😀 @da", Mention(3, 6, "da")),
        ("one\n@two", Mention(4, 8, "two")),
        ("ana@example", None),
        ("@@x", None),
        ("@data ", None),
        ('@"my file" ', None),
        ("nothing", None),
        ("", None),
    ],
)
def test_what_is_being_typed(text: str, found: Mention | None) -> None:
    assert typed_mention(text, len(text)) == found


def test_a_quote_that_stands_behind_the_cursor_is_part_of_what_is_replaced() -> None:
    assert typed_mention('read @"my fi" now', 12) == Mention(5, 13, "my fi")


@pytest.mark.parametrize(
    ("text", "cursor", "found"),
    [
        ("read @data/sales.csv now", 5, Mention(5, 20, "data/sales.csv")),
        ("read @data/sales.csv now", 20, Mention(5, 20, "data/sales.csv")),
        ("read @data/sales.csv now", 21, None),
        ("what is in @a.csv?", 14, Mention(11, 18, "a.csv")),
        ('is @"my file.csv" it?', 9, Mention(3, 17, "my file.csv")),
        ("@a @b", 4, Mention(3, 5, "b")),
        ("@?", 1, None),
        ("a\n@b\nc", 3, Mention(2, 4, "b")),
    ],
)
def test_what_stands_at_the_cursor(text: str, cursor: int, found: Mention | None) -> None:
    assert mention_at(text, cursor) == found


@pytest.mark.parametrize(
    ("path", "written"),
    [
        ("data/sales.csv", "@data/sales.csv"),
        ("data/", "@data/"),
        ("my file.csv", '@"my file.csv"'),
        ("my folder/", '@"my folder/'),
        ("what.", '@"what."'),
        ("notes (old)", '@"notes (old)"'),
        ("@x", '@"@x"'),
        ("größe.txt", "@größe.txt"),
        ('say "hi" x', None),
        ("two\nlines", None),
        ("", None),
    ],
)
def test_how_a_path_is_written(path: str, written: str | None) -> None:
    assert write_mention(path) == written


@given(st.text(alphabet="ab @/.\"?é😀'", min_size=1, max_size=12))
def test_what_is_written_is_read_as_the_same_path(path: str) -> None:
    written = write_mention(path)
    if written is None or path.endswith("/") or not path.strip():
        return
    found = mention_at(f"see {written} there", 5)
    assert found is not None
    assert found.path == path
