"""Pictures that a message names with an `@` are taken in with it, as they are in that moment."""

import asyncio
import os
from pathlib import Path

from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.pictures import (
    MAX_PICTURE_BYTES,
    MAX_PICTURES,
    MAX_SHOWN_BYTES,
    Picture,
    media_type_of,
    named_pictures,
)
from ozzie_server_ext.store.blobs import BlobStore
from ozzie_server_ext.tools.base import ToolFailed
from ozzie_server_ext.tools.rooted import open_below

WAIT_S = 10.0
"""How long the project's disk may take for one of them."""
_NOT_MEANT = "or write the name without the @."


class PictureIntake:
    """Reads below `project`, as the tools do: what they are not offered, no message shows either."""

    def __init__(self, project: Path, blobs: BlobStore) -> None:
        self._project = project
        self._blobs = blobs

    async def of(self, text: str) -> tuple[Picture, ...]:
        """The pictures that `text` names, kept by content address.

        Raises InputError for one that is not there, is none, or is too large: a message is not answered without what
        its writer wants to have seen.
        """
        found: list[Picture] = []
        for path in named_pictures(text):
            if len(found) == MAX_PICTURES:
                raise _refused(f"The message names more than {MAX_PICTURES} pictures.", "Write several messages")
            content = await self._read(path)
            media_type = media_type_of(content)
            if media_type is None:
                raise _refused(f"{path} is not a PNG, JPEG, GIF or WebP picture, whatever its name says.", "Convert it")
            if sum(picture.size for picture in found) + len(content) > MAX_SHOWN_BYTES:
                raise _refused(
                    f"The pictures of the message have more than {MAX_SHOWN_BYTES >> 20} MB together.",
                    "Make them smaller",
                )
            ref = await self._blobs.put(content)
            found.append(Picture(path=path, ref=ref, media_type=media_type, size=len(content)))
        return tuple(found)

    async def _read(self, path: str) -> bytes:
        try:
            async with asyncio.timeout(WAIT_S):
                content = await asyncio.to_thread(_content, self._project, path)
        except ToolFailed as error:
            raise _refused(f"The picture can't be shown: {error}", "Correct its name (Tab completes it)") from None
        except TimeoutError:
            raise _refused(f"{path} can't be read: the disk does not answer.", "Try again in a moment") from None
        except OSError as error:
            raise _refused(f"{path} can't be read: {error.strerror}.", "Check the file") from None
        if len(content) > MAX_PICTURE_BYTES:
            raise _refused(
                f"{path} is larger than the {MAX_PICTURE_BYTES >> 20} MB that models take of a picture.",
                "Make it smaller",
            )
        return content


def _content(project: Path, path: str) -> bytes:
    with os.fdopen(open_below(project, path, folder=False), "rb") as file:
        return file.read(MAX_PICTURE_BYTES + 1)


def _refused(sentence: str, advice: str) -> InputError:
    return InputError(sentence, hint=f"{advice}, {_NOT_MEANT}", code="message.picture")
