"""What every recorded fact is, and words that several of them use."""

from typing import ClassVar, Literal, TypeAlias

Actor: TypeAlias = Literal["user", "kernel", "worker", "tool", "system"]
"""Who acted (S4 §8.1.2); `kernel` is S4's word for the orchestrating part, our gateway."""

Finish: TypeAlias = Literal["stop", "tool_calls", "length", "content_filter", "cancelled", "failed"]
"""Why a reply ended."""


class Fact:
    """Base of every recorded fact: its canonical name and the version of its shape."""

    __slots__ = ()
    type: ClassVar[str]
    schema: ClassVar[int] = 1
