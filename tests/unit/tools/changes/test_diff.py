"""The diff that a person approves: it is exactly the change, and it comes soon, whatever the texts."""

import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ozzie_server_ext.tools.changes.diff import CONTEXT, lines_of, unified

_HEAD = re.compile(r"@@ -(\d+),(\d+) \+(\d+),(\d+) @@")
_NO_END = "\\ No newline at end of file"


def applied(old: str, diff: str) -> str:
    """`old` with the diff's changes, by what POSIX says a unified diff means. Fails where it does not fit."""
    before, after, at = lines_of(old), list[str](), 0
    wanted = (0, 0)
    counted = (0, 0)
    begin = 0
    shown = diff.split("\n") if diff else []
    for number, line in enumerate(shown):
        if head := _HEAD.fullmatch(line):
            assert counted == wanted, "a hunk is as long as it says"
            first, gone, there, come = map(int, head.groups())
            begin = first - 1 if gone else first
            after += before[at:begin]
            assert len(after) == (there - 1 if come else there), "a hunk stands where it says"
            at, wanted, counted = begin, (gone, come), (0, 0)
            continue
        if line == _NO_END:
            continue
        sign, text = line[:1], line[1:] + "\n"
        if shown[number + 1 : number + 2] == [_NO_END]:
            text = text.removesuffix("\n")
        if sign in " -":
            assert before[at] == text, "what goes or stays was there"
            at += 1
        if sign in " +":
            after.append(text)
        counted = counted[0] + (sign != "+"), counted[1] + (sign != "-")
        assert sign in (" ", "-", "+")
    assert counted == wanted, "a hunk is as long as it says"
    return "".join([*after, *before[at:]])


LINES = st.lists(st.sampled_from(["", "a", "b", "a b", "-", "+x", " y", "@@ -1,1 +1,1 @@", _NO_END, "größe"]))
TEXTS = st.builds(lambda lines, end: "\n".join(lines) + end, LINES, st.sampled_from(["", "\n", "\n\n"]))


@given(TEXTS, TEXTS)
def test_with_the_diff_the_old_text_becomes_the_new_one(old: str, new: str) -> None:
    assert applied(old, unified(old, new)) == new


@given(LINES, LINES, LINES, LINES, LINES)
def test_what_differs_in_two_places_is_shown_as_that(
    begin: list[str], old: list[str], middle: list[str], new: list[str], end: list[str]
) -> None:
    one, other = ("\n".join([*begin, *each, *middle, *reversed(each), *end]) for each in (old, new))

    assert applied(one, unified(one, other)) == other


@given(TEXTS)
def test_the_same_text_has_no_diff(text: str) -> None:
    assert unified(text, text) == ""


@given(st.text(alphabet="ab\n", max_size=200), st.text(alphabet="ab\n", max_size=200))
def test_a_text_that_would_take_too_long_is_still_shown_rightly(old: str, new: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ozzie_server_ext.tools.changes.diff.MOST_STEPS", 20)
        assert applied(old, unified(old, new)) == new


def test_lines_around_a_change_are_shown_and_no_others() -> None:
    old = "".join(f"{number}\n" for number in range(1, 30))
    new = old.replace("15\n", "fifteen\n").replace("29\n", "")

    assert unified(old, new).split("\n") == [
        "@@ -12,7 +12,7 @@",
        *(" 12", " 13", " 14", "-15", "+fifteen", " 16", " 17", " 18"),
        "@@ -26,4 +26,3 @@",
        *(" 26", " 27", " 28", "-29"),
    ]
    assert CONTEXT == 3


def test_where_the_search_for_what_is_the_same_ends_early_the_lines_around_are_not_shown_as_changed() -> None:
    long = "same\n" * 2000

    shown = unified(f"1\n2\n3\n4\nold\n{long}5\n6\n7\n8\n", f"1\n2\n3\n4\nnew\n{long}other\n5\n6\n7\n8\n").split("\n")

    assert shown[:5] == ["@@ -2,2007 +2,2008 @@", " 2", " 3", " 4", "-old"]
    assert shown[-4:] == ["+other", " 5", " 6", " 7"]


@pytest.mark.parametrize(
    ("old", "new", "head"),
    [
        ("", "a\nb\n", "@@ -0,0 +1,2 @@"),
        ("a\nb\n", "", "@@ -1,2 +0,0 @@"),
        ("a\n", "b\n", "@@ -1,1 +1,1 @@"),
    ],
)
def test_of_no_lines_the_line_before_them_is_named(old: str, new: str, head: str) -> None:
    assert unified(old, new).split("\n")[0] == head


def test_that_a_last_line_gets_its_line_end_is_a_change() -> None:
    assert unified("a", "a\n").split("\n") == ["@@ -1,1 +1,1 @@", "-a", _NO_END, "+a"]


@pytest.mark.skipif(shutil.which("patch") is None, reason="there is no patch here")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("a\nb\nc\n", "a\nB\nc\n"),
        ("", "a\nb"),
        ("a\nb", "a\nb\n"),
        ("a\n" * 50 + "x\n" + "b\n" * 50, "y\n" + "a\n" * 49 + "b\n" * 60),
        ("-- a\n++ b\n", "++ a\n-- b\n"),
    ],
)
def test_the_program_patch_understands_it(old: str, new: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text(old)
    diff = f"--- file\n+++ file\n{unified(old, new)}\n"

    subprocess.run(["patch", "--fuzz=0", "file"], input=diff.encode(), cwd=tmp_path, check=True, capture_output=True)

    assert file.read_text() == new


def alternating(*lines: str, times: int) -> str:
    return "".join(f"{line}\n" for line in lines) * times


HOSTILE = {
    "one line again and again": ("x\n" + "a\n" * 990 + "y\n", "z\n" + "a\n" * 991 + "w\n"),
    "each line between two others": (
        "".join(f"p{number}\n{number}\n" for number in range(1300)),
        "".join(f"q{number}\n{number}\n" for number in range(1300)),
    ),
    "pairs the other way round": (
        f"x\n{alternating('a', 'b', times=700)}",
        f"y\n{alternating('b', 'c', 'a', times=700)}",
    ),
    "nothing but line ends": ("\n" * 2_000_000, "x\n" + "\n" * 199_000),
    "in the opposite order": (
        "".join(f"{number}\n" for number in range(250_000)),
        "".join(f"{number}\n" for number in range(30_000, 0, -1)),
    ),
    "lines that are long and begin alike": (
        "".join("a" * 140 + f"{number}\n" for number in range(1300)),
        "".join(f"{number}\n" + "a" * 140 + f"{number}\n" for number in range(1300)),
    ),
}
"""As large as a file that a tool changes may be, and what it may be changed to."""
MOST_S = 2.5
"""Half a second, on a machine that does several other things as well."""


@pytest.mark.parametrize("name", HOSTILE)
def test_texts_that_were_made_to_take_long_do_not(name: str) -> None:
    old, new = HOSTILE[name]
    began = time.process_time()

    shown = unified(old, new)

    assert time.process_time() - began < MOST_S
    assert applied(old, shown) == new
