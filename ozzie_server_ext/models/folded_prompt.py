"""A conversation as one text, for models that take nothing else."""

from collections.abc import Sequence

from ozzie_server_ext.models.driver import ChatMessage

_NAMES = {"user": "User", "assistant": "Assistant"}


def fold_prompt(messages: Sequence[ChatMessage]) -> str:
    """The instructions, what was said so far, then the last message; parted by empty lines.

    A conversation of one message is that message, with nothing around it: who says what matters only once two have
    spoken.
    """
    system = [message.content for message in messages if message.role == "system" and message.content]
    said = [message for message in messages if message.role != "system"]
    if len(said) == 1 and said[0].role == "user":
        return "\n\n".join([*system, said[0].content])
    turns = [f"{_speaker(message)}: {message.content}" for message in said if message.content]
    return "\n\n".join([*system, *turns, "Assistant:"])


def _speaker(message: ChatMessage) -> str:
    return _NAMES.get(message.role) or f"Result of {message.name or 'a tool'}"
