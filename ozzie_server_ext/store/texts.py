"""The texts of artifacts as the search index has them: both ends of a long one."""

import os
from pathlib import Path

from ozzie_server_ext.domain.artifacts import REPLACED_BY, blob_of, is_own, is_text
from ozzie_server_ext.domain.events import ArtifactCreated
from ozzie_server_ext.store.blobs import is_ref, path_of, read_file
from ozzie_server_ext.store.documents import MOST_CHARACTERS

_END = 2 * MOST_CHARACTERS
"""Bytes of half of what is searched: a character of UTF-8 has at most four."""


class ArtifactTexts:
    """The texts of the artifacts whose contents are files in a folder of `FileBlobs`; without one, there are none."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def __call__(self, artifact: ArtifactCreated) -> str:
        """Return the text of an artifact, of a long one only its beginning and end; empty if it is none, or not there.
        Files that were replaced are kept to undo changes, not to be found."""
        if self._folder is None or not _is_searched(artifact):
            return ""
        try:
            return _decoded(_ends(path_of(self._folder, blob_of(artifact.storage_ref))))
        except OSError:
            return ""

    def unchanged(self, artifact: ArtifactCreated) -> str:
        """Return the same text, if the whole content is what was stored. Raises NotFound or DamagedStore."""
        if self._folder is None or not _is_searched(artifact):
            return ""
        content = read_file(self._folder, blob_of(artifact.storage_ref))
        return _decoded(content if len(content) <= 2 * _END else content[:_END] + b"\n" + content[-_END:])


NO_TEXTS = ArtifactTexts(None)


def _is_searched(artifact: ArtifactCreated) -> bool:
    if not is_text(artifact.mime) or not is_own(artifact.storage_ref) or REPLACED_BY in artifact.meta:
        return False
    return is_ref(blob_of(artifact.storage_ref))


def _ends(path: Path) -> bytes:
    with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size <= 2 * _END:
            return file.read()
        beginning = file.read(_END)
        file.seek(size - _END)
        return beginning + b"\n" + file.read(_END)


def _decoded(content: bytes) -> str:
    return content.decode(errors="ignore")
