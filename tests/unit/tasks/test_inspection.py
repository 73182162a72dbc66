"""Inspection: what a word, a command or a path stands for."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.messages import MAX_PICTURE_BYTES
from ozzie_server_ext.models.facts import Ability, Amount, Capabilities
from ozzie_server_ext.models.registry import UnknownModel
from ozzie_server_ext.observability.clock import CountingIds, FakeClock
from ozzie_server_ext.store.memory import InMemoryEventLog
from ozzie_server_ext.tasks.completion import Card, FileFacts, Inspection, ProjectFiles, file_card
from ozzie_server_ext.tasks.models import ModelGlance
from ozzie_server_ext.tasks.sessions import Sessions
from ozzie_server_ext.tools.builtin import builtin_tools
from ozzie_server_ext.tools.registry import ToolRegistry
from tests.fakes.pictures import png

LISTING: JsonObject = {
    "models": [
        {"name": "main", "driver": "openai", "model": "gpt", "missing": "", "is_default": True},
        {"name": "other", "driver": "openai", "model": "gpt", "missing": "KEY is not set", "is_default": False},
    ],
    "offers": [{"found": "Ollama has llama3.2", "choose": "ollama/llama3.2"}],
}


GLANCE = ModelGlance(
    name="main",
    provider="main",
    driver="openai",
    model="gpt",
    then=(),
    stronger=(),
    address="",
    is_default=True,
    tags={"security": 4, "local": True},
    key_name="KEY",
    key="environment",
    missing="",
    health="answered 3 min ago",
    last_call=None,
    capabilities=Capabilities(
        context=Amount(value=128_000, source="litellm"), tools=Ability(value=False, source="configuration")
    ),
)


class Listed:
    async def listing(self) -> JsonObject:
        return LISTING

    async def glance(self, name: str) -> ModelGlance:
        """Of what has a name here, or could be named directly."""
        plain = replace(GLANCE, name=name, is_default=False, tags={}, health="", capabilities=Capabilities())
        match name:
            case "main":
                return GLANCE
            case "fast":
                return replace(GLANCE, name="fast", is_default=False)
            case "other":
                return replace(plain, provider="other", missing="KEY is not set")
            case "ollama/llama3.2":
                return replace(plain, provider="", driver="ollama", model="llama3.2")
            case _:
                raise UnknownModel(f'There is no model "{name}".')


@pytest.fixture
async def sessions() -> Sessions:
    sessions = Sessions(InMemoryEventLog(FakeClock(), CountingIds()), CountingIds())
    await sessions.open("a", title="Plans for May", channel="notebook")
    return sessions


@pytest.fixture
def it(sessions: Sessions, tmp_path: Path) -> Inspection:
    (tmp_path / "a b.csv").write_text("x,y\n1,2\n")
    (tmp_path / ".env").write_text("KEY=secret")
    models: Any = Listed()
    return Inspection(sessions, models, models, ToolRegistry(builtin_tools()), ProjectFiles(tmp_path))


async def card(it: Inspection, text: str, cursor: int | None = None, *, sees_all: bool = True) -> Card:
    found = await it.inspect(text, len(text) if cursor is None else cursor, sees_all=sees_all)
    assert found is not None
    return found


@pytest.mark.parametrize("word", ["read_file", "fs.read", "file_read"])
async def test_a_tool_shows_its_contract_under_each_of_its_names(it: Inspection, word: str) -> None:
    found = await card(it, f"use {word} for it", 6)

    facts = dict(found.facts)
    assert (found.kind, found.name) == ("tool", "read_file")
    assert found.about.startswith("Read a text file of the project")
    assert facts["path"] == "text, needed. Relative to the project folder."
    assert facts["first_line"].startswith("whole number, otherwise 1. ")
    assert facts["Side effect"] == "none: it changes nothing"
    assert facts["Risk"] == "low"
    assert facts["Id"] == "fs.read, file_read"


async def test_a_model_says_what_it_stands_for_and_how_it_is(it: Inspection) -> None:
    facts = dict((await card(it, "%model main")).facts)

    assert (facts["Stands for"], facts["State"]) == ("openai/gpt", "the default")
    assert (facts["Last call"], facts["Tags"]) == ("answered 3 min ago", "security 4, local")
    assert dict((await card(it, "%model fast")).facts)["Stands for"] == "main, which is openai/gpt"
    assert dict((await card(it, "%model other")).facts)["State"] == "KEY is not set"
    assert (
        await card(it, "%model ollama/llama3.2", 3)
    ).about == "Offered here: Ollama has llama3.2. It is not used yet."
    assert await it.inspect("%model nonesuch", 9, sees_all=True) is None


async def test_a_model_shows_what_is_known_of_it_and_who_says_so(it: Inspection) -> None:
    facts = dict((await card(it, "%model main")).facts)

    assert facts["Context"] == "128,000 tokens, says litellm"
    assert facts["Tools"] == "no, says the configuration"
    assert facts["Unknown"].startswith("longest answer, parallel tools, images")
    assert "price in" in facts["Unknown"]


async def test_a_session_is_shown_to_who_may_see_all(it: Inspection) -> None:
    found = await card(it, "%session resume plans for may")

    assert (found.kind, found.name, dict(found.facts)["Messages"]) == ("session", "Plans for May", "0")
    assert await it.inspect("%session resume plans for may", 5, sees_all=False) is None
    assert await it.inspect("%session resume nothing like it", 5, sees_all=True) is None


async def test_a_file_shows_its_size_and_its_first_lines(it: Inspection) -> None:
    found = await card(it, 'sum up @"a b.csv" please', 10)

    assert (found.kind, found.name) == ("file", "a b.csv")
    assert dict(found.facts)["Size"] == "8 bytes"
    assert found.sample.startswith("x,y\n1,2")


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (png(), "PNG picture; a message that names it shows it"),
        (b"RIFF\x10\x00\x00\x00WEBP", "WebP picture; a message that names it shows it"),
        (b"GIF89a\0", "not a PNG, JPEG or WebP picture, so it can't be shown to a model"),
        (png().ljust(MAX_PICTURE_BYTES + 1, b"\0"), "PNG picture; too large to be shown"),
    ],
)
async def test_a_picture_says_that_it_is_shown(it: Inspection, tmp_path: Path, content: bytes, kind: str) -> None:
    (tmp_path / "plot.png").write_bytes(content)

    found = await card(it, "what is @plot.png")

    assert dict(found.facts)["Kind"] == kind
    assert found.sample == ""


async def test_what_no_tool_reads_is_said_in_words_and_not_shown(it: Inspection) -> None:
    found = await card(it, "look at @.env")

    assert "hidden" in found.about
    assert found.sample == ""
    assert "does not exist" in (await card(it, "@nothing.csv")).about


@pytest.mark.parametrize("text", ["", "hello there", "%session", "@", "%model "])
async def test_plain_words_stand_for_nothing(it: Inspection, text: str) -> None:
    assert await it.inspect(text, len(text), sees_all=True) is None


async def test_a_long_line_holds_nobody_up(it: Inspection) -> None:
    # Backtracking, these blanks would take minutes, in which the loop stands still.
    line = f"%session resume plans{' ' * 200_000}for may"

    assert await it.inspect(line, 5, sees_all=True) is None
    assert (await card(it, f"%session resume plans for may{' ' * 200_000}", 5)).name == "Plans for May"


@pytest.mark.parametrize("seconds", [1e12, -1e12, 1e18])
def test_a_file_of_an_impossible_day_is_shown_all_the_same(seconds: float) -> None:
    found = file_card(FileFacts(path="a", kind="file", modified_s=seconds))

    assert dict(found.facts)["Changed"] == "unknown"


async def test_a_file_of_a_project_that_is_gone_says_so(it: Inspection, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path)

    assert (await card(it, "@data.csv")).about == "data.csv can't be read: No such file or directory."
