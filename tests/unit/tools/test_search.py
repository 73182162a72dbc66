"""`search` and `find_files`: what they find, and what they never open."""

import asyncio
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from ozzie_server_ext.domain.content import CLEAN, Content, Label
from ozzie_server_ext.tools.base import ToolContext, ToolFailed
from ozzie_server_ext.tools.builtin import builtin_tools, search
from ozzie_server_ext.tools.builtin.search import MAX_FOUND
from ozzie_server_ext.tools.changes.seen import MAX_BYTES
from ozzie_server_ext.tools.registry import ToolRegistry
from tests.deep import deep_folders
from tests.unit.tools.test_base import carried_out

REGISTRY = ToolRegistry(builtin_tools())


@pytest.fixture
def tree(project: Path) -> Path:
    for path, text in {
        "a.py": "import os\nprint('Größe')\n",
        "notes/b.md": "one\nTwo OS\nthree",
        "notes/deep/c.py": "no\n",
        ".hidden/d.py": "import os\n",
        "notes/.env": "import os\n",
    }.items():
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_text(text)
    (project / "raw.bin").write_bytes(b"import os\n\0\1")
    return project


async def said(context: ToolContext, name: str, **args: Any) -> dict[str, Any]:
    tool = REGISTRY.find(name)
    assert tool is not None
    result = await carried_out(tool, args, context)
    assert isinstance(result.data, dict)
    return {**result.data, "summary": result.summary}


async def test_it_tells_path_line_and_text(tree: Path, context: ToolContext) -> None:
    found = await said(context, "search", query="os")

    assert found["matches"] == [{"path": "a.py", "line": 1, "text": "import os"}]
    assert (found["truncated"], found["summary"]) == (False, "1 match in 1 file")


async def test_the_case_of_letters_can_be_left_aside(tree: Path, context: ToolContext) -> None:
    found = await said(context, "search", query="OS", ignore_case=True)
    umlaut = await said(context, "search", query="gRÖSSE", ignore_case=True)

    assert [(match["path"], match["line"]) for match in found["matches"]] == [("a.py", 1), ("notes/b.md", 2)]
    assert umlaut["matches"] == [{"path": "a.py", "line": 2, "text": "print('Größe')"}]


async def test_it_can_be_held_to_a_folder_a_file_and_names(tree: Path, context: ToolContext) -> None:
    async def paths(**args: Any) -> list[str]:
        return [match["path"] for match in (await said(context, "search", query="o", **args))["matches"]]

    assert set(await paths(path="notes")) == {"notes/b.md", "notes/deep/c.py"}
    assert set(await paths(path="./notes/deep/")) == {"notes/deep/c.py"}
    assert set(await paths(path="notes/b.md")) == {"notes/b.md"}
    assert set(await paths(names="*.py")) == {"a.py", "notes/deep/c.py"}


async def test_a_long_line_is_told_around_the_match(tree: Path, context: ToolContext) -> None:
    (tree / "long.txt").write_text("x" * 5000 + "needle" + "y" * 5000)

    (match,) = (await said(context, "search", query="needle"))["matches"]

    assert "needle" in match["text"]
    assert len(match["text"]) <= search.SHOWN + 2


async def test_more_than_was_asked_for_is_said(tree: Path, context: ToolContext) -> None:
    (tree / "many.txt").write_text("same\n" * 10)
    (tree / "more.txt").write_text("same\n")

    found = await said(context, "search", query="same", max_results=4)

    assert len(found["matches"]) == 4
    assert (found["truncated"], found["summary"]) == (True, "4+ matches in 1 file")


async def test_a_secret_is_neither_told_nor_found_out(tree: Path, context: ToolContext) -> None:
    (tree / "conf.py").write_text('api_key = "sk-abcd1234efgh5678ijkl9012"\n')

    assert "sk-abcd" not in str(await said(context, "search", query="api_key"))
    assert (await said(context, "search", query="efgh5678"))["matches"] == []


@pytest.mark.parametrize(
    "path", ["..", "/etc", "../x", "~", ".hidden", "notes/.env", "link", "link/a", "nowhere", "pipe"]
)
async def test_what_is_not_offered_is_not_looked_at(tree: Path, context: ToolContext, path: str) -> None:
    (tree / "link").symlink_to("/etc")
    os.mkfifo(tree / "pipe")

    for name, args in (("search", {"query": "o"}), ("find_files", {"pattern": "**"})):
        with pytest.raises(ToolFailed):
            await said(context, name, path=path, **args)


async def test_links_pipes_and_sockets_on_the_way_are_passed_over(
    tree: Path, context: ToolContext, tmp_path: Path
) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "e.py").write_text("import os\n")
    (tree / "out").symlink_to(tmp_path / "outside")
    (tree / "e.py").symlink_to(tmp_path / "outside" / "e.py")
    (tree / "loop").symlink_to(".")
    os.mkfifo(tree / "pipe.py")
    with socket.socket(socket.AF_UNIX) as server:
        here = os.getcwd()
        os.chdir(tree)  # a socket's path is short
        try:
            server.bind("sock.py")
        finally:
            os.chdir(here)
        async with asyncio.timeout(10):
            found = await said(context, "search", query="import")
            files = await said(context, "find_files", pattern="**/*.py")

    assert [match["path"] for match in found["matches"]] == ["a.py"]
    assert [file["path"] for file in files["files"]] == ["a.py", "notes/deep/c.py"]


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("*.py", ".", ["a.py"]),
        ("**/*.py", ".", ["a.py", "notes/deep/c.py"]),
        ("notes/*", ".", ["notes/b.md"]),
        ("notes/**", ".", ["notes/b.md", "notes/deep/c.py"]),
        ("*.md", "notes", ["notes/b.md"]),
        ("**/c*", "notes", ["notes/deep/c.py"]),
        ("nothing", ".", []),
    ],
)
async def test_files_are_found_by_a_pattern(
    tree: Path, context: ToolContext, pattern: str, path: str, expected: list[str]
) -> None:
    found = await said(context, "find_files", pattern=pattern, path=path)

    assert [file["path"] for file in found["files"]] == expected
    assert found["truncated"] is False


@pytest.mark.parametrize("pattern", ["/etc/*", "../*", "a/../b", ".", "/"])
async def test_a_pattern_that_leads_out_is_refused(tree: Path, context: ToolContext, pattern: str) -> None:
    with pytest.raises(ToolFailed, match="relative to the project"):
        await said(context, "find_files", pattern=pattern)


async def test_of_very_many_files_the_first_are_told(tree: Path, context: ToolContext) -> None:
    (tree / "many").mkdir()
    for index in range(MAX_FOUND + 1):
        (tree / "many" / f"{index:04}").touch()

    found = await said(context, "find_files", pattern="**", path="many")

    assert len(found["files"]) == MAX_FOUND
    assert found["summary"] == f"{MAX_FOUND}+ files"


async def test_a_walk_that_takes_too_long_is_cut_and_says_so(
    tree: Path, context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "LIMIT_S", -1.0)

    assert (await said(context, "search", query="o"))["truncated"] is True
    assert (await said(context, "find_files", pattern="**"))["truncated"] is True


async def test_more_matches_in_one_file_than_were_asked_for_are_said(tree: Path, context: ToolContext) -> None:
    (tree / "many.txt").write_text("same\n" * 10)

    assert (await said(context, "search", query="same", max_results=4))["summary"] == "4+ matches in 1 file"
    assert (await said(context, "search", query="same", max_results=11))["summary"] == "10 matches in 1 file"


async def test_of_a_file_that_is_too_large_the_beginning_is_searched_and_that_is_said(
    tree: Path, context: ToolContext
) -> None:
    token = "ghp_A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
    line = "needle " + token + "\n"
    (tree / "large.txt").write_text("x" * (MAX_BYTES - len(line) + 12) + "\n" + line + "needle\n" * 3)

    found = await said(context, "search", query="needle")

    assert found["truncated"] is True
    assert token[:12] not in str(found)


async def test_where_a_folded_letter_is_longer_the_match_is_still_shown(tree: Path, context: ToolContext) -> None:
    (tree / "s.txt").write_text("ß" * 600 + " Needle " + "x" * 600)

    (match,) = (await said(context, "search", query="needle", ignore_case=True))["matches"]

    assert "Needle" in match["text"]


async def test_folders_in_folders_without_end_are_walked_so_far(tree: Path, context: ToolContext) -> None:
    with deep_folders(tree):
        assert (await said(context, "find_files", pattern="**/*.py"))["truncated"] is True


async def test_a_line_break_is_refused_in_words(tree: Path, context: ToolContext) -> None:
    with pytest.raises(ToolFailed, match="line break"):
        await said(context, "search", query="a\nb")


# --- outputs of notebooks -------------------------------------------------------------------------------

RAN = '{"cells": [{"outputs": [{"data": {"text/plain": "needle"}, "output_type": "execute_result"}]}]}'


@pytest.mark.parametrize("name", ["a.ipynb", "U.IPYNB", "n.ipynb.bak", "notes/copy.json"])
async def test_a_match_in_a_file_with_outputs_is_labelled(project: Path, context: ToolContext, name: str) -> None:
    (project / "notes").mkdir()
    (project / name).write_text(RAN)
    (project / "b.txt").write_text("needle\n")

    found = await said(context, "search", query="needle")

    assert len(found["matches"]) == 2
    assert context.provenance.content == Content.of(Label.OUTPUT, [name])


async def test_a_file_with_outputs_and_no_match_labels_nothing(project: Path, context: ToolContext) -> None:
    (project / "a.ipynb").write_text(RAN)

    assert (await said(context, "search", query="hello"))["summary"] == "1 match in 1 file"
    assert context.provenance.content == CLEAN


async def test_a_match_is_labelled_though_the_output_goes_on_behind_what_is_searched(
    project: Path, context: ToolContext
) -> None:
    (project / "a.json").write_text(RAN.replace('"needle"', '["needle",\n"' + "long " * MAX_BYTES + '"]'))

    await said(context, "search", query="needle")

    assert context.provenance.content == Content.of(Label.OUTPUT, ["a.json"])
