"""How a kernel is asked for its variables, and what it gave.

It evaluates one expression, which is always the same but for a name that is given to it as a text. The expression uses
no name of the user's: a variable that they called `exec` or `list` is theirs.
"""

import keyword
from functools import cache
from importlib.resources import files
from typing import Any

from ozzie_server_ext.domain.errors import InputError, NotFound
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.jupyter.kernels import KernelUnfit
from ozzie_server_ext.jupyter.looking import MIME
from ozzie_server_ext.protocol.jsontext import canonical_bytes, loads_object
from ozzie_server_ext.render.text import quoted

LONGEST_NAME = 200
_MOST_BYTES = 1024 * 1024


def expression(name: str = "") -> str:
    """What is evaluated. Raises InputError for what is no plain name of a variable."""
    if name and not is_plain_name(name):
        raise InputError(f"{quoted(name[:LONGEST_NAME])} is no plain name of a variable.", code="kernel.name")
    # Functions know their globals and their built-ins without any name being looked up.
    return (
        "(lambda own: (lambda apart: "
        f"(own['exec']({_source()!a}, apart), apart['Told'](apart['tell']((lambda: 0).__globals__, {name!a})))[1]"
        ")({'__name__': 'ozzie', '__builtins__': own}))((lambda: 0).__builtins__)"
    )


def is_plain_name(name: str) -> bool:
    """Whether a variable can be called so."""
    return len(name) <= LONGEST_NAME and name.isidentifier() and not keyword.iskeyword(name)


def told(answer: Any, name: str = "") -> JsonObject:
    """What the kernel gave for the expression. Raises NotFound, and KernelUnfit where it is not what was asked for:
    code in a kernel can answer whatever it likes."""
    data = answer.get("data") if isinstance(answer, dict) else None
    found = data.get(MIME) if isinstance(data, dict) else None
    if not isinstance(found, dict):
        raise KernelUnfit("The kernel gave no answer about its variables. They can be looked at from Python 3.10 on.")
    if name and not found:
        raise NotFound(f"There is no variable {quoted(name)} in this kernel.", code="kernel.variable")
    return loads_object(canonical_bytes(found), max_bytes=_MOST_BYTES)


@cache
def _source() -> str:
    return files("ozzie_server_ext.jupyter").joinpath("looking.py").read_text()
