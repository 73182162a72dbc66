"""`examples`: the notebooks to begin with, for a page that puts them into the project folder."""

import asyncio
from dataclasses import dataclass

from ozzie_server_ext.config.home import shipped
from ozzie_server_ext.gateway.rest.operation import Call
from ozzie_server_ext.gateway.rest.shapes import Example, Page


@dataclass(frozen=True, slots=True, kw_only=True)
class ExamplesQuery:
    """Nothing."""


async def list_examples(call: Call, asked: ExamplesQuery) -> Page[Example]:
    """The first notebooks and the files that they are about, the very first notebook first."""
    return Page(items=await asyncio.to_thread(_examples), next=None)


def _examples() -> list[Example]:
    folder = shipped("notebooks")
    files = sorted([*folder.glob("*.ipynb"), *folder.glob("data/*")], key=lambda file: (len(file.parts), file.name))
    return [Example(path=file.relative_to(folder).as_posix(), content=file.read_text("utf-8")) for file in files]
