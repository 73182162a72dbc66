"""README and its neighbours say what is so: commands, files, links, and the path of the reader."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
MAX_LINES = 600
SOURCES = {
    f"/{path.relative_to(ROOT)}"
    for folder in ("ozzie_kernel", "ozzie_server_ext", "labextension/src", "plugins", "tests", "bench")
    for path in (ROOT / folder).rglob("*.*")
} | {"/labextension/build.py"}


def targets() -> set[str]:
    """What the Makefile can make, of what it says of itself."""
    return set(re.findall(r"^([a-z]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_make_command_that_a_page_names_exists(page: Path) -> None:
    commands = re.findall(r"(?:^|`)make ([a-z]+)", page.read_text(), re.MULTILINE)

    assert set(commands) <= targets()


def test_the_readme_is_read_in_five_minutes() -> None:
    assert len(README.splitlines()) <= 150


def test_the_two_commands_for_a_newcomer_are_there() -> None:
    assert re.findall(r"^make ([a-z]+)", README, re.MULTILINE) == ["run", "test"]
    assert {"run", "test"} <= targets()


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_link_to_a_file_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL))
    local = [link for link in links if not re.match(r"[a-z]+:", link)]

    assert [link for link in local if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_file_that_a_page_names_in_code_exists(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    paths = re.findall(r"`((?:ozzie_server_ext|ozzie_kernel|tests|docs|notebooks|\.ci|\.lock)/[\w./-]+)`", text)

    assert [path for path in paths if not (ROOT / path).exists()] == []
    from_within = re.findall(r"`((?:[\w.-]+/)+[\w-]+\.(?:py|tsx?))`", text)
    assert [name for name in from_within if not any(file.endswith(f"/{name}") for file in SOURCES)] == []


def test_the_pictures_are_there() -> None:
    pictures = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", README)

    assert pictures == ["docs/images/cell-streaming.png", "docs/images/cell-done.png"]
    assert all((ROOT / picture).read_bytes().startswith(b"\x89PNG") for picture in pictures)


def test_the_readers_path_exists_and_each_file_on_it_opens_by_saying_what_it_is() -> None:
    path = re.findall(r"^\d+\. `([\w/]+\.py)`", README, re.MULTILINE)

    assert 12 <= len(path) <= 14
    for file in path:
        text = (ROOT / file).read_text()
        assert ast.get_docstring(ast.parse(text)), file
        assert len(text.splitlines()) <= MAX_LINES, file


def test_every_architecture_decision_is_numbered_in_its_name_and_its_title() -> None:
    records = sorted((ROOT / "docs" / "adr").glob("*.md"))

    assert [int(record.name[:4]) for record in records] == list(range(1, len(records) + 1))
    for record in records:
        assert record.read_text().startswith(f"# {int(record.name[:4])}. "), record.name
