"""The pictures of messages, stored: those that they bring, and those that they mention, read from the project."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from ozzie_server_ext.domain.content import CLEAN, Content
from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.messages import (
    MAX_PICTURE_BYTES,
    MAX_PICTURES,
    MAX_SHOWN_BYTES,
    GivenPicture,
    MentionedPictures,
    Picture,
    media_type_of,
    mentioned_pictures,
)
from ozzie_server_ext.domain.paths import path_parts
from ozzie_server_ext.store.blobs import BlobStore
from ozzie_server_ext.tools.base import ToolFailed
from ozzie_server_ext.tools.safe_open import open_below

WAIT_S = 10.0
"""How long reading the pictures of one message may take."""
_NOT_MEANT = "or write the name without the @."


async def _unmarked(path: str) -> Content:
    return CLEAN


class PictureIntake:
    """Reads pictures below `project` with the restrictions of the tools. One message at a time, in a thread, so that a
    hanging disk blocks one thread only."""

    def __init__(self, project: Path, blobs: BlobStore, marks: Callable[[str], Awaitable[Content]] = _unmarked) -> None:
        """`marks` returns the provenance of a file."""
        self._marks = marks
        self._project = project
        self._blobs = blobs
        self._one_at_a_time = asyncio.Lock()
        self._reading: asyncio.Future[bytes | None] | None = None

    async def of(
        self, text: str, given: Sequence[GivenPicture] = (), only: Sequence[str] | None = None
    ) -> MentionedPictures:
        """Return the `given` pictures and those that `text` mentions, stored as blobs; of these `only` some, if it is
        not None. A missing one is no error: a message may name a file that is still to be made.

        Raises InputError for a picture that exists but can't be shown: a message is not answered without it.
        """
        named = [path for path in mentioned_pictures(text) if only is None or path in only]
        if not named and not given:
            return MentionedPictures()
        try:
            async with asyncio.timeout(WAIT_S), self._one_at_a_time:
                return await self._read_all(named, given)
        except TimeoutError:
            raise _refused("The pictures can't be read: the disk does not answer.", "Try again in a moment") from None

    async def _read_all(self, named: list[str], given: Sequence[GivenPicture]) -> MentionedPictures:
        found: list[Picture] = []
        provenance = CLEAN
        absent: list[str] = []
        for picture in given:
            found.append(await self._stored(picture.name, picture.content, found, "or leave it out."))
        for path in named:
            content = await self._content(path)
            if content is None:
                absent.append(path)
                continue
            found.append(await self._stored(path, content, found, _NOT_MEANT))
            provenance = provenance | await self._marks("/".join(path_parts(path) or ()))
        return MentionedPictures(tuple(found), tuple(absent[:MAX_PICTURES]), provenance)

    async def _stored(self, path: str, content: bytes, before: Sequence[Picture], otherwise: str) -> Picture:
        """Store one more picture; `otherwise` says what to do instead if it can't be shown. Raises InputError."""
        if len(before) == MAX_PICTURES:
            raise _refused(f"The message has more than {MAX_PICTURES} pictures.", "Write several messages", otherwise)
        media_type = media_type_of(content)
        if media_type is None:
            raise _refused(f"{path} is not a PNG, JPEG or WebP picture.", "Convert it", otherwise)
        if sum(picture.size for picture in before) + len(content) > MAX_SHOWN_BYTES:
            together = f"{MAX_SHOWN_BYTES / 1e6:g} MB together"
            raise _refused(f"The pictures of the message have more than {together}.", "Make them smaller", otherwise)
        return Picture(path=path, ref=await self._blobs.put(content), media_type=media_type, size=len(content))

    async def _content(self, path: str) -> bytes | None:
        if self._reading is not None and not self._reading.done():
            raise TimeoutError  # an earlier read still hangs
        try:
            self._reading = asyncio.ensure_future(asyncio.to_thread(_read, self._project, path))
            # The caller may have given up before the thread ends, so its exception is retrieved here.
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
    """Return a file's content, up to just over the limit; None if there is nothing."""
    if not os.path.lexists(project / path):
        return None
    with os.fdopen(open_below(project, path, folder=False), "rb") as file:
        return file.read(MAX_PICTURE_BYTES + 1)


def _refused(sentence: str, advice: str, otherwise: str = _NOT_MEANT) -> InputError:
    return InputError(sentence, hint=f"{advice}, {otherwise}", code="message.picture")
