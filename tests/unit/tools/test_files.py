"""Looking at files: what is shown, what is cut, and that a cut is said."""

import asyncio
import hashlib
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ozzie_server_ext.domain.content import CLEAN, Content, Label
from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.toolmeta import ToolResult
from ozzie_server_ext.tools.base import InvalidArguments, ToolContext, ToolFailed
from ozzie_server_ext.tools.builtin import files
from ozzie_server_ext.tools.builtin.files import MAX_CHARACTERS, MAX_ENTRIES, MAX_LINES, TOOLS, version_of
from ozzie_server_ext.tools.changes.seen import MAX_BYTES
from tests.unit.tools.test_base import carried_out

LIST, READ = TOOLS


async def listing(context: ToolContext, **args: Any) -> ToolResult:
    return await carried_out(LIST, args, context)


async def reading(context: ToolContext, **args: Any) -> Any:
    return (await carried_out(READ, {"path": "f.txt", **args}, context)).data


# --- fs.list --------------------------------------------------------------------------------------------


async def test_a_folder_is_listed_by_name_with_kinds_and_sizes(context: ToolContext, project: Path) -> None:
    (project / ".hidden").write_text("x")
    (project / "link").symlink_to("readme.md")
    os.mkfifo(project / "pipe")

    result = await listing(context)

    assert isinstance(result.data, dict)
    entries = [(entry["name"], entry["kind"]) for entry in _dicts(result.data["entries"])]
    assert entries == [("data", "folder"), ("link", "other"), ("pipe", "other"), ("readme.md", "file")]
    assert result.summary == "4 entries"
    assert result.data["truncated"] is False
    assert _dicts(result.data["entries"])[3]["size"] == 6


def _dicts(value: Any) -> list[dict[str, Any]]:
    return list(value)


async def test_a_long_listing_is_cut_and_says_so(context: ToolContext, project: Path) -> None:
    (project / "many").mkdir()
    for number in range(MAX_ENTRIES + 1):
        (project / "many" / f"{number:04}").touch()

    result = await listing(context, path="many")

    assert isinstance(result.data, dict)
    assert len(_dicts(result.data["entries"])) == MAX_ENTRIES
    assert result.data["truncated"] is True
    assert result.summary == "501 entries"


async def test_a_name_that_is_no_utf_8_is_shown_as_text(context: ToolContext, project: Path) -> None:
    (project / "odd").mkdir()
    os.close(os.open(os.fsencode(project / "odd") + b"/caf\xe9", os.O_CREAT))

    result = await listing(context, path="odd")

    assert isinstance(result.data, dict)
    assert _dicts(result.data["entries"])[0]["name"] == "caf\ufffd"


async def test_a_listing_of_one_is_counted_in_the_singular(context: ToolContext) -> None:
    assert (await listing(context, path="data")).summary == "1 entry"


@pytest.mark.parametrize("path", ["nothing", "readme.md", "..", "/tmp", "data/../.."])
async def test_what_is_no_folder_of_the_project_is_not_listed(context: ToolContext, path: str) -> None:
    with pytest.raises(ToolFailed):
        await listing(context, path=path)


# --- fs.read --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "text", "lines"),
    [
        (b"", "", 0),
        (b"one", "one", 1),
        (b"one\n", "one\n", 1),
        (b"one\ntwo", "one\ntwo", 2),
        (b"one\r\ntwo\r\n", "one\ntwo\n", 2),
        (b"\xef\xbb\xbfone\n", "one\n", 1),
        (b"\n\n", "\n\n", 2),
        ("a\u2028b\x0cc\x85d\n".encode(), "a\u2028b\x0cc\x85d\n", 1),
        (b"caf\xe9\n", "caf\ufffd\n", 1),
        ("é€😀".encode(), "é€😀", 1),
    ],
)
async def test_a_text_is_read_with_its_lines_counted_as_editors_do(
    context: ToolContext, project: Path, raw: bytes, text: str, lines: int
) -> None:
    (project / "f.txt").write_bytes(raw)

    assert await reading(context) == {
        "path": "f.txt",
        "text": text,
        "first_line": 1,
        "first_character": 1,
        "lines": lines,
        "next": None,
        "version": hashlib.sha256(raw).hexdigest()[:16],
        "truncated": False,
    }


@pytest.mark.parametrize(
    ("first", "most", "text", "truncated"),
    [
        (1, 2, "1\n2\n", True),
        (4, 2, "4\n5\n", False),
        (2, 100, "2\n3\n4\n5\n", False),
        (5, 1, "5\n", False),
    ],
)
async def test_a_part_is_read_by_its_lines(
    context: ToolContext, project: Path, first: int, most: int, text: str, truncated: bool
) -> None:
    (project / "f.txt").write_text("1\n2\n3\n4\n5\n")

    found = await reading(context, first_line=first, max_lines=most)

    assert (found["text"], found["truncated"], found["lines"]) == (text, truncated, 5)
    assert found["version"] == version_of(b"1\n2\n3\n4\n5\n") + "-part", "enough for a passage, not for the whole"


@pytest.mark.parametrize("first", [6, 900])
async def test_what_lies_behind_the_end_is_said_to_be_there(context: ToolContext, project: Path, first: int) -> None:
    (project / "f.txt").write_text("1\n2\n3\n4\n5\n")

    with pytest.raises(InputError, match=f"There is no line {first}: the last one is 5"):
        await reading(context, first_line=first)


@given(st.text(alphabet="ab\n\x1b\u00e9", max_size=300), st.integers(1, 7), st.integers(1, 40))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_read_on_to_the_end_gives_every_character_once(
    monkeypatch: pytest.MonkeyPatch, context: ToolContext, project: Path, text: str, most: int, room: int
) -> None:
    monkeypatch.setattr(files, "MAX_CHARACTERS", room + 6)
    (project / "f.txt").write_bytes(text.encode())

    async def pieces() -> list[str]:
        found = [await reading(context, max_lines=most)]
        while found[-1]["next"] is not None:
            found.append(await reading(context, max_lines=most, **found[-1]["next"]))
        return [each["text"] for each in found]

    assert "".join(asyncio.run(pieces())) == text


@pytest.mark.parametrize(
    "args", [{"first_line": 0}, {"max_lines": 0}, {"max_lines": MAX_LINES + 1}, {"path": "x" * 1025}]
)
async def test_a_part_that_can_not_be_is_refused(context: ToolContext, args: dict[str, Any]) -> None:
    with pytest.raises(InvalidArguments):
        await reading(context, **args)


async def test_what_is_not_text_is_not_read(context: ToolContext, project: Path) -> None:
    (project / "f.txt").write_bytes(b"PK\x03\x04\0\0")

    with pytest.raises(ToolFailed, match=r"f\.txt is not text"):
        await reading(context)


async def test_of_a_huge_file_only_the_beginning_is_read_and_that_is_said(context: ToolContext, project: Path) -> None:
    with (project / "f.txt").open("wb") as file:
        file.write(b"0123456789\n" * (MAX_BYTES // 11 + 1000))
        file.truncate(2 << 30)  # a hole of 2 GiB behind it: who reads it all is killed

    result = await carried_out(READ, {"path": "f.txt"}, context)

    assert isinstance(result.data, dict)
    assert result.data["truncated"] is True
    assert len(str(result.data["text"])) <= MAX_CHARACTERS
    assert result.data["version"] == "", "what is too large to be changed has none"
    assert str(result.summary).endswith("lines or more")


async def test_an_answer_holds_whole_lines_up_to_its_bound(context: ToolContext, project: Path) -> None:
    (project / "f.txt").write_text(("x" * 99 + "\n") * 500)

    found = await reading(context)

    # A line feed takes two characters in the JSON that carries it.
    assert found["text"] == ("x" * 99 + "\n") * (MAX_CHARACTERS // 101)
    assert found["truncated"] is True


@pytest.mark.parametrize("following", ["", "\nshort\n"])
async def test_a_line_longer_than_an_answer_is_cut_and_that_is_said(
    context: ToolContext, project: Path, following: str
) -> None:
    (project / "f.txt").write_text("x" * (MAX_CHARACTERS + 5) + following)

    found = await reading(context)

    assert found["text"] == "x" * MAX_CHARACTERS
    assert found["truncated"] is True


async def test_what_lies_outside_is_not_read(context: ToolContext, project: Path) -> None:
    (project / "f.txt").symlink_to(project.parent / "secret.txt")

    for path in ("f.txt", "../secret.txt"):
        with pytest.raises(ToolFailed):
            await reading(context, path=path)


# --- outputs of notebooks -------------------------------------------------------------------------------

OUTPUT = '{"data": {"text/plain": "hi"}, "metadata": {}, "output_type": "execute_result"}'
RAN = f'{{"cells": [\n{{"outputs": [\n{OUTPUT}]}}]}}\n'


@pytest.mark.parametrize("name", ["a.ipynb", "U.IPYNB", "n.ipynb.bak", "copy.json", "plain.txt"])
async def test_a_file_that_holds_outputs_is_labelled(context: ToolContext, project: Path, name: str) -> None:
    (project / name).write_text(RAN)

    await reading(context, path=name)

    assert context.provenance.content == Content.of(Label.OUTPUT, [name])


async def test_one_line_of_it_is_labelled_too(context: ToolContext, project: Path) -> None:
    (project / "f.txt").write_text(RAN)

    assert (await reading(context, first_line=1, max_lines=1))["text"].strip() == '{"cells": ['
    assert context.provenance.content == Content.of(Label.OUTPUT, ["f.txt"])


async def test_it_is_labelled_though_the_output_goes_on_behind_what_is_read(
    context: ToolContext, project: Path
) -> None:
    (project / "f.txt").write_text(RAN.replace("hi", "hi\\n" + "long " * MAX_BYTES))

    await reading(context)

    assert context.provenance.content == Content.of(Label.OUTPUT, ["f.txt"])


@pytest.mark.parametrize("text", ['{"cells": [{"outputs": []}]}', 'kind = output["output_type"]\n'])
async def test_a_file_without_outputs_is_not(context: ToolContext, project: Path, text: str) -> None:
    (project / "a.ipynb").write_text(text)

    await reading(context, path="a.ipynb")

    assert context.provenance.content == CLEAN
