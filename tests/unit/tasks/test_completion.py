"""Completion: what is offered for what is being typed, and to whom."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ozzie_server_ext.domain.ids import SessionId
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.observability.clock import CountingIds, FakeClock
from ozzie_server_ext.render.text import visible_label
from ozzie_server_ext.store.memory import InMemoryEventLog
from ozzie_server_ext.tasks import completion
from ozzie_server_ext.tasks.completion import Completion, Completions, ProjectFiles, fitting_models, fitting_sessions
from ozzie_server_ext.tasks.server_completion import Offered
from ozzie_server_ext.tasks.sessions import Sessions
from tests.hostile.samples import NAMES, render_sample

OWN = SessionId("sess_own")
LISTING: JsonObject = {
    "models": [
        {"name": "main", "driver": "openai", "model": "gpt"},
        {"name": "offline", "driver": "offline", "model": "script"},
        {"name": "bad\x1b[31m", "driver": "openai", "model": "gpt"},
    ],
    "offers": [{"found": "OPENAI_API_KEY is set", "choose": "openai/gpt-4o-mini"}, {"found": "x", "choose": "main"}],
}


class Listed:
    """The part of the model service that is asked here."""

    async def listing(self) -> JsonObject:
        return LISTING


class Hanging:
    async def listing(self) -> JsonObject:
        await asyncio.Event().wait()
        raise AssertionError


@pytest.fixture
def sessions() -> Sessions:
    return Sessions(InMemoryEventLog(FakeClock(), CountingIds()), CountingIds())


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "my file.csv").touch()
    (tmp_path / "dash\x1b[31m").touch()
    (tmp_path / "day\u202ecod.exe").touch()
    return tmp_path


class NoServers:
    """No MCP server is trusted."""

    async def mentions(self, typed: str) -> list[Offered]:
        return []


def completing(sessions: Sessions, project: Path, models: object = None) -> Completion:
    parts: Any = (models or Listed(), ProjectFiles(project), None, NoServers())
    return Completion(sessions, *parts)


async def texts(it: Completion, text: str, *, sees_all: bool = True, own: SessionId | None = None) -> list[str]:
    found = await it.complete(text, len(text), own=own, sees_all=sees_all)
    return [match.text for match in found.matches]


async def test_models_are_offered_behind_their_command(sessions: Sessions, project: Path) -> None:
    it = completing(sessions, project)

    assert await texts(it, "%model ") == ["main", "offline", "openai/gpt-4o-mini"]
    assert await texts(it, "%help\n  %model O") == ["offline", "openai/gpt-4o-mini"]
    assert await it.complete("%model of", 9, own=None, sees_all=True) == Completions(
        start=7, end=9, matches=tuple(fitting_models(LISTING, "of"))
    )
    assert await texts(it, "which %model ") == []


async def test_sessions_are_offered_by_what_finds_them(sessions: Sessions, project: Path) -> None:
    plans = await sessions.open("a", title="Plans for May", channel="notebook")
    twins = [await sessions.open(key, title="Same", channel="notebook") for key in "bc"]
    old = await sessions.open("d", title="Put away", channel="notebook")
    await sessions.archive(old.session_id)
    it = completing(sessions, project)

    found = await texts(it, "%session resume ")

    assert set(found) == {"Plans for May", "Put away", *(twin.session_id for twin in twins)}
    assert [await sessions.find(text) for text in ("Plans for May", "Put away")] == [plans.session_id, old.session_id]
    assert await texts(it, "%session resume plans f") == ["Plans for May"]
    assert await texts(it, "%session close for may") == ["Plans for May"]
    assert await texts(it, f"%session resume {plans.session_id[:8]}", own=twins[0].session_id)
    assert twins[0].session_id not in await texts(it, "%session resume ", own=twins[0].session_id)


async def test_who_may_see_its_own_session_only_is_offered_no_other(sessions: Sessions, project: Path) -> None:
    await sessions.open("a", title="Of somebody else", channel="notebook")

    assert await texts(completing(sessions, project), "%session resume ", sees_all=False, own=OWN) == []


async def test_files_are_offered_anywhere_and_written_so_that_they_are_found(sessions: Sessions, project: Path) -> None:
    it = completing(sessions, project)

    assert await texts(it, "How many rows has @da") == ["@data/"]
    assert await texts(it, "How many rows has @data/m") == ['@"data/my file.csv"']
    assert await it.complete('😀 @"data/my', 11, own=None, sees_all=True) == Completions(
        start=2, end=11, matches=(completion.Match(text='@"data/my file.csv"', kind="file"),)
    )


async def test_what_could_draw_on_a_terminal_is_not_offered(sessions: Sessions, project: Path) -> None:
    assert await texts(completing(sessions, project), "@da") == ["@data/"]


async def test_what_hangs_ends_in_nothing(sessions: Sessions, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completion, "WAIT_S", 0.01)

    assert await texts(completing(sessions, project, Hanging()), "%model ") == []


@pytest.mark.parametrize("cursor", [-5, 0, 3, 1000])
async def test_a_cursor_anywhere_is_taken(sessions: Sessions, project: Path, cursor: int) -> None:
    found = await completing(sessions, project).complete("abc", cursor, own=None, sees_all=True)

    assert 0 <= found.start <= found.end <= 3


@pytest.mark.parametrize("name", NAMES)
def test_a_hostile_title_is_offered_as_its_id_unless_it_is_plain_text(name: str) -> None:
    text = render_sample(name, "http://127.0.0.1:9")
    rows = [{"title": title, "session_id": "sess_x"} for title in (text, text.split("\n")[0])]

    for row in rows:
        (match,) = fitting_sessions([dict(row)], "", None)
        assert match.text == "sess_x" or match.text.isprintable()


def test_a_title_that_looks_like_an_id_does_not_stand_for_another_session() -> None:
    rows = [{"title": "sess_01JD4T0000000000000000SESS", "session_id": "sess_own"}]

    assert [match.text for match in fitting_sessions([dict(row) for row in rows], "", None)] == ["sess_own"]


def test_a_model_is_offered_with_what_it_stands_for_and_its_tags_on_one_line() -> None:
    listing: JsonObject = {
        "models": [
            {"name": "a", "driver": "openai", "model": "gpt", "tags": {"security": 4, "local": True}},
            {"name": "b", "driver": "alias", "model": "a", "tags": {}},
            {"name": "c", "driver": "openai", "model": "x" * 100, "tags": {"evil": "\x1b[31m\n"}},
        ]
    }
    details = [match.detail for match in fitting_models(listing, "")]

    assert details[:2] == ["openai/gpt, security 4, local", "= a"]
    assert details[2] == visible_label(details[2])
    assert len(details[2]) == completion.DETAIL_CHARS


@pytest.mark.parametrize("name", NAMES)
def test_what_is_hostile_in_a_tag_stays_text_on_one_line(name: str) -> None:
    tags: JsonObject = {"tag": render_sample(name, "http://127.0.0.1:9")}
    (match,) = fitting_models({"models": [{"name": "a", "driver": "openai", "model": "gpt", "tags": tags}]}, "")

    assert match.detail == visible_label(match.detail)
