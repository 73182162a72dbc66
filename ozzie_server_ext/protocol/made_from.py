"""The sources of messages from programs that Ozzie itself runs for a call (ADR 31).

They are in the program's environment; `ozzie ask` and the kernel pass them on with each message. They only add labels,
so the sender is trusted.
"""

import json
from collections.abc import Mapping, Sequence

from ozzie_server_ext.domain.content import CLEAN, MAX_SOURCE, MOST_SOURCES, Content, Label
from ozzie_server_ext.domain.errors import InputError

VARIABLE = "OZZIE_MADE_FROM"
_UNKNOWN = Content.of(Label.OUTPUT)


def with_sources(environment: Mapping[str, str], content: Content) -> dict[str, str]:
    """Return the environment for a program that a call made from `content` runs in this one."""
    sources = (content | content_in(environment)).sources
    return {**environment, VARIABLE: json.dumps(sources)}


def content_in(environment: Mapping[str, str]) -> Content:
    """Return what this program's own messages are made from; what can't be read counts as an unknown source."""
    sources = environment.get(VARIABLE)
    if sources is None:
        return CLEAN
    try:
        return content_of(json.loads(sources)) or _UNKNOWN
    except (ValueError, TypeError, InputError):
        return _UNKNOWN


def content_of(sources: Sequence[object]) -> Content:
    """Return content from these sources. Raises InputError for an unknown one."""
    if len(sources) > MOST_SOURCES:
        raise InputError(
            f"At most {MOST_SOURCES} sources are allowed.", hint='Name only the kind of the rest, as "web:".'
        )
    try:
        return Content.named(str(source)[: MAX_SOURCE + 1] for source in sources)
    except ValueError as error:
        raise InputError("made_from has an unknown source.", hint=str(error)) from None
