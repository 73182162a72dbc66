"""Takes in messages from people and programs, with the pictures that they name, by the configuration of the moment."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from ozzie_server_ext.domain.content import CLEAN, Content
from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.messages import (
    MAX_PICTURE_BYTES,
    MAX_PICTURES,
    MAX_SHOWN_BYTES,
    MentionedPictures,
    Picture,
    media_type_of,
    mentioned_pictures,
)
from ozzie_server_ext.domain.paths import path_parts
from ozzie_server_ext.store.blobs import BlobStore
from ozzie_server_ext.tasks.budgets import limits_under
from ozzie_server_ext.tasks.configuration import Configuration, SecretChanges
from ozzie_server_ext.tasks.service import NewTurn, Submitted, TaskService
from ozzie_server_ext.tasks.sessions import Sessions
from ozzie_server_ext.tasks.workflows.skill_starts import SkillStarts
from ozzie_server_ext.tools.base import ToolFailed
from ozzie_server_ext.tools.safe_open import open_below

WAIT_S = 10.0
"""How long the project's disk may take for those of one message."""
_NOT_MEANT = "or write the name without the @."


async def _unmarked(path: str) -> Content:
    return CLEAN


class PictureIntake:
    """Reads below `project`, as the tools do: what they are not offered, no message shows either. One message at a
    time, in a thread: a disk that hangs costs one thread and no more."""

    def __init__(self, project: Path, blobs: BlobStore, marks: Callable[[str], Awaitable[Content]] = _unmarked) -> None:
        """`marks` tells what a file of the project is made from."""
        self._marks = marks
        self._project = project
        self._blobs = blobs
        self._turn = asyncio.Lock()
        self._reading: asyncio.Future[bytes | None] | None = None

    async def of(self, text: str) -> MentionedPictures:
        """The pictures that `text` names, kept by content address. One that is not there is no mistake: a message may
        name what is still to be made.

        Raises InputError for one that is there and can't be shown: a message is not answered without what its writer
        wants to have seen.
        """
        named = list(mentioned_pictures(text))
        if not named:
            return MentionedPictures()
        try:
            async with asyncio.timeout(WAIT_S), self._turn:
                return await self._taken_in(named)
        except TimeoutError:
            raise _refused("The pictures can't be read: the disk does not answer.", "Try again in a moment") from None

    async def _taken_in(self, named: list[str]) -> MentionedPictures:
        found: list[Picture] = []
        content_of = CLEAN
        absent: list[str] = []
        for path in named:
            content = await self._content(path)
            if content is None:
                absent.append(path)
                continue
            if len(found) == MAX_PICTURES:
                raise _refused(f"The message names more than {MAX_PICTURES} pictures.", "Write several messages")
            media_type = media_type_of(content)
            if media_type is None:
                raise _refused(f"{path} is not a PNG, JPEG or WebP picture.", "Convert it")
            if sum(picture.size for picture in found) + len(content) > MAX_SHOWN_BYTES:
                raise _refused(
                    f"The pictures of the message have more than {MAX_SHOWN_BYTES / 1e6:g} MB together.",
                    "Make them smaller",
                )
            ref = await self._blobs.put(content)
            content_of = content_of | await self._marks("/".join(path_parts(path) or ()))
            found.append(Picture(path=path, ref=ref, media_type=media_type, size=len(content)))
        return MentionedPictures(tuple(found), tuple(absent[:MAX_PICTURES]), content_of)

    async def _content(self, path: str) -> bytes | None:
        if self._reading is not None and not self._reading.done():
            raise TimeoutError  # the one before never came back
        try:
            self._reading = asyncio.ensure_future(asyncio.to_thread(_read, self._project, path))
            # Asked for here, because who waits for it may have given up by then; that does not end the thread.
            self._reading.add_done_callback(lambda done: done.cancelled() or done.exception())
            content = await asyncio.shield(self._reading)
        except ToolFailed as error:
            raise _refused(f"The picture can't be shown: {error}", "Correct its name (Tab completes it)") from None
        except OSError as error:
            raise _refused(f"{path} can't be read: {error.strerror}.", "Check the file") from None
        if content is not None and len(content) > MAX_PICTURE_BYTES:
            raise _refused(
                f"{path} is larger than the {MAX_PICTURE_BYTES / 1e6:g} MB that every provider takes of a picture.",
                "Make it smaller",
            )
        return content


def _read(project: Path, path: str) -> bytes | None:
    """None where nothing is there."""
    if not os.path.lexists(project / path):
        return None
    with os.fdopen(open_below(project, path, folder=False), "rb") as file:
        return file.read(MAX_PICTURE_BYTES + 1)


def _refused(sentence: str, advice: str) -> InputError:
    return InputError(sentence, hint=f"{advice}, {_NOT_MEANT}", code="message.picture")


class Intake:
    """Looks again at the configuration and the secrets first, and whether the session is open."""

    def __init__(
        self,
        configuration: Configuration,
        secrets: SecretChanges,
        sessions: Sessions,
        tasks: TaskService,
        starts: SkillStarts,
    ) -> None:
        self._configuration = configuration
        self._secrets = secrets
        self._sessions = sessions
        self._tasks = tasks
        self._starts = starts

    async def submit(self, turn: NewTurn) -> Submitted:
        """Begin a turn, or a run of `turn.skill`, under the settings of this moment.

        Raises as `TaskService.submit` and, for a skill, as `SkillStarts.typed`; NotFound, or Conflict for a closed
        session.
        """
        config = await self._configuration.refresh()
        await self._secrets.refresh()
        await self._sessions.expect_open(turn.session_id)
        if turn.skill is None:
            return await self._tasks.submit(turn, limits_under(config.settings))
        started = await self._starts.typed(turn.skill.name, turn.skill.words)
        return await self._tasks.submit(turn, await self._starts.limits_of(turn.skill.name), started)
