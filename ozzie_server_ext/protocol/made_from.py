"""What the messages of a program are made from that Ozzie itself runs for a call (ADR 31).

The program's environment says it, and `ozzie ask` and the kernel pass it on with each message. It only adds labels, so
whoever sends it is believed.
"""

import json
from collections.abc import Mapping, Sequence

from ozzie_server_ext.domain.content import CLEAN, MAX_SOURCE, MOST_SOURCES, Content, Label
from ozzie_server_ext.domain.errors import InputError

VARIABLE = "OZZIE_MADE_FROM"
_UNKNOWN = Content.of(Label.OUTPUT)


def told_to(environment: Mapping[str, str], content: Content) -> dict[str, str]:
    """The environment of a program that a call made from `content` runs in this one."""
    sources = (content | content_in(environment)).sources
    return {**environment, VARIABLE: json.dumps(sources)}


def content_in(environment: Mapping[str, str]) -> Content:
    """What this program's own messages are made from; what can't be read comes from a place that nobody knows."""
    told = environment.get(VARIABLE)
    if told is None:
        return CLEAN
    try:
        return content_of(json.loads(told)) or _UNKNOWN
    except (ValueError, TypeError, InputError):
        return _UNKNOWN


def content_of(sources: Sequence[object]) -> Content:
    """Content from these sources. Raises InputError for what is none."""
    if len(sources) > MOST_SOURCES:
        raise InputError(
            f"At most {MOST_SOURCES} sources are taken.", hint='Name a kind alone for the rest, as "web:".'
        )
    try:
        return Content.named(str(source)[: MAX_SOURCE + 1] for source in sources)
    except ValueError as error:
        raise InputError("A source in made_from is none that is known.", hint=str(error)) from None
