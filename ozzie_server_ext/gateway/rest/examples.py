"""`examples`: the notebook to begin with, for a page that puts it into the project folder."""

import asyncio
from dataclasses import dataclass

from ozzie_server_ext.config.home import shipped
from ozzie_server_ext.gateway.rest.operation import Call
from ozzie_server_ext.gateway.rest.shapes import Example, Page


@dataclass(frozen=True, slots=True, kw_only=True)
class ExamplesQuery:
    """Nothing."""


async def list_examples(call: Call, asked: ExamplesQuery) -> Page[Example]:
    """The first notebook and the files that it reads, the notebook first."""
    return Page(items=await asyncio.to_thread(_examples), next=None)


def _examples() -> list[Example]:
    folder = shipped("notebooks")
    files = sorted([*folder.glob("*.ipynb"), *folder.glob("data/*.csv")], key=lambda file: len(file.parts))
    return [Example(path=file.relative_to(folder).as_posix(), content=file.read_text("utf-8")) for file in files]
