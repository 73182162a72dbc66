"""The forms in which a session can be exported."""

from pathlib import PurePath
from typing import Literal, TypeAlias, cast, get_args

from ozzie_server_ext.domain.errors import InputError

Form: TypeAlias = Literal["ipynb", "md", "html", "jsonl"]
"""A notebook, a document, a page, or a line for each event: the ending of the file."""


def form_of(name: str) -> Form:
    """Return the form that a file's name asks for. Raises InputError."""
    ending = PurePath(name).suffix.removeprefix(".")
    if ending not in get_args(Form):
        raise InputError(
            f"The name {PurePath(name).name!r} does not say what to write." if name else "Which file is to be written?",
            hint=f"Let its name end with {', '.join(f'.{form}' for form in get_args(Form))}.",
            code="input.form",
        )
    return cast(Form, ending)
