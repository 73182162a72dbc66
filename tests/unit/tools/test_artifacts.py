"""`read_artifact`: the model reads on, page by page, in what its own session has."""

import msgspec
import pytest

from ozzie_server_ext.artifacts.store import ArtifactStore
from ozzie_server_ext.domain.artifacts import ArtifactKind
from ozzie_server_ext.domain.errors import Gone, InputError, NotFound
from ozzie_server_ext.domain.events import ArtifactErased
from ozzie_server_ext.domain.ids import ArtifactId, SessionId, TaskId
from ozzie_server_ext.observability.clock import CountingIds, FakeClock
from ozzie_server_ext.store.blobs import InMemoryBlobs
from ozzie_server_ext.store.memory import InMemoryEventLog
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.tools.base import ToolContext, ToolFailed
from ozzie_server_ext.tools.builtin.notes import MAX_CHARACTERS, read_artifact
from tests.replay.histories import draft

SESSION = SessionId("sess_1")


class Desk:
    """A session with artifacts, and another one."""

    def __init__(self, context: ToolContext) -> None:
        self.log = InMemoryEventLog(FakeClock(), CountingIds())
        self.store = ArtifactStore(self.log, InMemoryBlobs(), CountingIds())
        self.context = msgspec.structs.replace(context, artifacts=self.store.of(SESSION))
        self.stranger = msgspec.structs.replace(context, artifacts=self.store.of(SessionId("sess_2")))

    async def keep(self, content: bytes, kind: ArtifactKind = "log", mime: str = "text/plain") -> ArtifactId:
        kept = await self.store.keep(content, kind=kind, name="out", mime=mime)
        await self.store.record(Recorder(log=self.log, session_id=SESSION, task_id=TaskId("t")), kept)
        return kept.artifact_id


@pytest.fixture
def desk(context: ToolContext) -> Desk:
    return Desk(context)


async def test_it_is_read_page_by_page_to_its_end(desk: Desk) -> None:
    text = "".join(f"line {number}\n" for number in range(1, 3001))
    artifact_id = await desk.keep(text.encode())

    pieces: list[str] = []
    place = {"first_line": 1, "first_character": 1}
    for _ in range(10):
        result = await read_artifact(desk.context, artifact_id=artifact_id, **place)
        assert isinstance(result.data, dict)
        pieces.append(str(result.data["text"]))
        assert (result.data["lines"], result.data["characters"]) == (3000, len(text))
        if not isinstance(result.data["next"], dict):
            break
        place = {name: int(str(value)) for name, value in result.data["next"].items()}

    assert "".join(pieces) == text
    assert 2 <= len(pieces) <= 4


async def test_one_huge_line_is_read_by_the_character(desk: Desk) -> None:
    artifact_id = await desk.keep(b"x" * MAX_CHARACTERS + b"END")

    result = await read_artifact(desk.context, artifact_id=artifact_id)
    assert isinstance(result.data, dict)
    assert result.data["next"] == {"first_line": 1, "first_character": MAX_CHARACTERS + 1}
    rest = await read_artifact(desk.context, artifact_id=artifact_id, first_character=MAX_CHARACTERS + 1)

    assert isinstance(rest.data, dict)
    assert (rest.data["text"], rest.data["next"]) == ("END", None)


async def test_a_result_says_how_much_of_it_was_read(desk: Desk) -> None:
    artifact_id = await desk.keep(b"a\nb\nc\n")

    assert (await read_artifact(desk.context, artifact_id=artifact_id, max_lines=2)).summary == "2 of 3 lines"


async def test_an_artifact_of_another_session_is_not_told_from_none(desk: Desk) -> None:
    artifact_id = await desk.keep(b"a")

    with pytest.raises(NotFound) as there:
        await read_artifact(desk.stranger, artifact_id=artifact_id)
    with pytest.raises(NotFound) as nowhere:
        await read_artifact(desk.stranger, artifact_id="01NOTHING")

    assert str(there.value).replace(artifact_id, "ID") == str(nowhere.value).replace("01NOTHING", "ID")


async def test_a_picture_is_not_read_as_text(desk: Desk) -> None:
    artifact_id = await desk.keep(b"\x89PNG" * 400, kind="image", mime="image/png")

    with pytest.raises(ToolFailed, match=r"That artifact is not text, and has 1\.6 kB\."):
        await read_artifact(desk.context, artifact_id=artifact_id)


async def test_a_place_behind_its_end_is_refused_with_what_there_is(desk: Desk) -> None:
    artifact_id = await desk.keep(b"a\nb\n")

    with pytest.raises(InputError, match="no line 9: the last one is 2"):
        await read_artifact(desk.context, artifact_id=artifact_id, first_line=9)


async def test_without_a_session_there_is_none(context: ToolContext) -> None:
    with pytest.raises(NotFound):
        await read_artifact(context, artifact_id="01A")


KEY_LINES = ["aB3dE6gH9jK2mN5p" * 4] * 20 + ["qQ7=="]
KEY = "\n".join(["-----BEGIN RSA PRIVATE " + "KEY-----", *KEY_LINES, "-----END RSA PRIVATE " + "KEY-----"])


async def test_no_line_of_a_private_key_is_read_whichever_line_is_asked_for(desk: Desk) -> None:
    text = f"before\n{KEY}\nafter\n"
    artifact_id = await desk.keep(text.encode())

    read: list[str] = []
    for first_line in range(1, text.count("\n") + 1):
        result = await read_artifact(desk.context, artifact_id=artifact_id, first_line=first_line, max_lines=1)
        assert isinstance(result.data, dict)
        read.append(str(result.data["text"]))

    assert read == ["before\n", "[redacted: private key]" + "\n", *["\n"] * (KEY.count("\n")), "after\n"]


async def test_no_piece_of_a_private_key_is_read_where_a_page_ends_within_it(desk: Desk) -> None:
    for before in range(MAX_CHARACTERS - len(KEY) - 40, MAX_CHARACTERS + 8, 37):
        artifact_id = await desk.keep(("x" * (before - 1) + "\n" + KEY + "\nafter\n").encode())

        read = ""
        place = {"first_line": 1, "first_character": 1}
        for _ in range(4):
            result = await read_artifact(desk.context, artifact_id=artifact_id, **place)
            assert isinstance(result.data, dict)
            read += str(result.data["text"])
            if not isinstance(result.data["next"], dict):
                break
            place = {name: int(str(value)) for name, value in result.data["next"].items()}

        assert read.endswith("[redacted: private key]" + "\n" * (KEY.count("\n") + 1) + "after\n")
        assert KEY_LINES[0][:16] not in read


async def test_of_an_erased_one_it_is_told_when_and_why_it_went(desk: Desk) -> None:
    artifact_id = await desk.keep(b"text")
    await desk.log.append("artifacts", [draft(ArtifactErased(artifact_id=artifact_id, why="age", bound=90))])

    with pytest.raises(Gone) as told:
        await read_artifact(desk.context, artifact_id=artifact_id)

    assert str(told.value) == (
        '"out" has no content any more. It was erased on 2026-01-01, because it was older than 90 days.'
    )
    with pytest.raises(NotFound, match="There is no artifact"):
        await read_artifact(desk.stranger, artifact_id=artifact_id)
