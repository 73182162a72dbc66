"""Pictures that a message names are taken in as they are in that moment, or the message is refused."""

import asyncio
import os
import threading
from pathlib import Path

import pytest

from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.events import Limits, MessageReceived
from ozzie_server_ext.domain.ids import MessageId, SessionId
from ozzie_server_ext.domain.messages import MAX_PICTURE_BYTES, MAX_PICTURES, MAX_SHOWN_BYTES, GivenPicture, Picture
from ozzie_server_ext.observability.clock import CountingIds
from ozzie_server_ext.store.blobs import InMemoryBlobs
from ozzie_server_ext.tasks import pictures as reading
from ozzie_server_ext.tasks.pictures import PictureIntake
from ozzie_server_ext.tasks.service import NewTurn, Submitted, TaskService
from tests.fakes.pictures import png
from tests.unit.tasks.rig import ORIGIN, WAIT_S, TaskRig


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "plots").mkdir(parents=True)
    (root / "plots" / "a.png").write_bytes(png())
    (root / "my plot.png").write_bytes(png(3))
    (root / ".secret.png").write_bytes(png())
    (tmp_path / "outside.png").write_bytes(png())
    (root / "link.png").symlink_to(tmp_path / "outside.png")
    (root / "text.png").write_text("no picture at all")
    (root / "empty.png").touch()
    (root / "folder.png").mkdir()
    os.mkfifo(root / "pipe.png")
    return root


async def submit(service: TaskService, text: str, message_id: MessageId | None) -> Submitted:
    return await service.submit(NewTurn(SessionId("s1"), text, ORIGIN, message_id=message_id), Limits())


async def test_what_is_named_is_kept_as_it_is_now_under_its_own_address(project: Path) -> None:
    blobs = InMemoryBlobs()

    named = await PictureIntake(project, blobs).of('Compare @plots/a.png, @"my plot.png" and @data.csv to @new.png.')

    (project / "plots" / "a.png").write_bytes(png(9))
    assert [(each.path, each.media_type, each.size) for each in named.pictures] == [
        ("plots/a.png", "image/png", len(png())),
        ("my plot.png", "image/png", len(png(3))),
    ]
    assert named.absent == ("new.png",), "it may still be made"
    assert [await blobs.get(each.ref) for each in named.pictures] == [png(), png(3)]


async def test_pictures_that_come_with_a_message_stand_before_those_that_it_names(project: Path) -> None:
    blobs = InMemoryBlobs()

    found = await PictureIntake(project, blobs).of("Compare @plots/a.png.", [GivenPicture("plot.png", png(5))])

    assert [(each.path, each.size) for each in found.pictures] == [
        ("plot.png", len(png(5))),
        ("plots/a.png", len(png())),
    ]
    assert await blobs.get(found.pictures[0].ref) == png(5)
    only = await PictureIntake(project, blobs).of('Compare @plots/a.png and @"my plot.png".', only=["plots/a.png", "x"])
    assert [each.path for each in only.pictures] == ["plots/a.png"]
    with pytest.raises(InputError) as refused:
        await PictureIntake(project, blobs).of("Look.", [GivenPicture("plot.png", b"no picture")])
    assert str(refused.value) == "plot.png is not a PNG, JPEG or WebP picture."
    assert refused.value.hint == "Convert it, or leave it out."
    with pytest.raises(InputError, match="more than 20 pictures"):
        await PictureIntake(project, blobs).of("Look.", [GivenPicture("plot.png", png())] * (MAX_PICTURES + 1))


@pytest.mark.parametrize(
    ("named", "sentence"),
    [
        ("plots/../../outside.png", "The picture can't be shown: plots/../../outside.png leads out of the project"),
        ("link.png", "The picture can't be shown: link.png passes through a symbolic link"),
        (".secret.png", "The picture can't be shown: .secret.png is hidden"),
        ("pipe.png", "The picture can't be shown: pipe.png is not a plain file."),
        ("folder.png", "The picture can't be shown: folder.png is not a plain file."),
        ("text.png", "text.png is not a PNG, JPEG or WebP picture."),
        ("empty.png", "empty.png is not a PNG, JPEG or WebP picture."),
    ],
)
async def test_what_can_not_be_shown_is_refused_with_what_to_do(project: Path, named: str, sentence: str) -> None:
    with pytest.raises(InputError) as refused:
        await PictureIntake(project, InMemoryBlobs()).of(f"What is @plots/a.png beside @{named}")

    assert str(refused.value).startswith(sentence)
    assert refused.value.code == "message.picture"
    assert refused.value.hint.endswith("or write the name without the @.")


async def test_pictures_are_bounded_one_by_one_together_and_in_number(project: Path) -> None:
    (project / "large.png").write_bytes(png() + b"\0" * MAX_PICTURE_BYTES)
    for number in range(MAX_PICTURES + 1):
        (project / f"{number}.png").write_bytes(png() + bytes([number]))
    most = MAX_SHOWN_BYTES // MAX_PICTURE_BYTES + 1
    for number in range(most):
        (project / f"big{number}.png").write_bytes((png() + bytes([number])).ljust(MAX_PICTURE_BYTES, b"\0"))
    intake = PictureIntake(project, InMemoryBlobs())

    def naming(*names: str) -> str:
        return " ".join(f"@{name}.png" for name in names)

    for text, sentence in (
        ("@large.png", r"large\.png is larger than the 3\.75 MB that every provider takes of a picture\."),
        (naming(*map(str, range(MAX_PICTURES + 1))), "The message has more than 20 pictures"),
        (naming(*(f"big{number}" for number in range(most))), "The pictures of the message have more than 8 MB"),
    ):
        with pytest.raises(InputError, match=sentence):
            await intake.of(text)
    assert len((await intake.of(naming(*map(str, range(MAX_PICTURES))))).pictures) == MAX_PICTURES


async def test_a_disk_that_hangs_holds_up_one_thread_and_no_other_message(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hung = threading.Event()

    def hang(project: Path, path: str) -> bytes | None:
        hung.wait(WAIT_S)
        return png()

    monkeypatch.setattr(reading, "_read", hang)
    monkeypatch.setattr(reading, "WAIT_S", 0.05)
    rig, pictures = TaskRig(), PictureIntake(project, InMemoryBlobs())
    service = TaskService(rig.log, rig.ids, rig.driver, lambda turn: pictures.of(turn.text, turn.pictures))

    slow = asyncio.ensure_future(submit(service, "@plots/a.png", MessageId(rig.ids.new())))
    other = await submit(service, "hello", MessageId(rig.ids.new()))
    with pytest.raises(InputError, match="the disk does not answer"):
        await slow
    with pytest.raises(InputError, match="the disk does not answer"):
        await submit(service, "@plots/a.png", None)  # at once: no second thread waits beside the first
    hung.set()

    assert other.task_id
    monkeypatch.undo()
    assert pictures._reading is not None
    await asyncio.wait({pictures._reading}, timeout=WAIT_S)
    assert len((await pictures.of("@plots/a.png")).pictures) == 1, "it came back, and the next message is served"


async def test_a_message_is_recorded_with_its_pictures_and_once_whatever_becomes_of_them(project: Path) -> None:
    rig = TaskRig()
    pictures = PictureIntake(project, InMemoryBlobs())
    service = TaskService(rig.log, rig.ids, rig.driver, lambda turn: pictures.of(turn.text, turn.pictures))
    named = MessageId(CountingIds().new())
    first = await submit(service, "What is @plots/a.png?", named)
    (project / "plots" / "a.png").unlink()
    again = await submit(service, "What is @plots/a.png?", named)

    assert again.task_id == first.task_id
    (message, *_) = await rig.bodies(first.task_id)
    assert isinstance(message, MessageReceived)
    assert message.pictures == (
        Picture(path="plots/a.png", ref=message.pictures[0].ref, media_type="image/png", size=len(png())),
    )
    later = await submit(service, "What is @plots/a.png?", None)
    (message, *_) = await rig.bodies(later.task_id)
    assert isinstance(message, MessageReceived)
    assert (message.pictures, message.absent) == ((), ("plots/a.png",))
