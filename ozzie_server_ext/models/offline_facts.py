"""The offline script's rules for the steps of the skill `three-facts`: what it knows of tea, a note of it, a file.

They look at the whole message, line by line, since a note that is to be written stands in it.
"""

import re
from collections.abc import Sequence

from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.models.offline_moves import Ask, Move, Say, Seen, given_by
from ozzie_server_ext.models.offline_results import code

MAX_CHARS = 4000
_FACT = re.compile(r"Tell one fact about (.{1,200}), in one sentence: ([a-z ]{1,40})\.")
_NOTE = re.compile(r"Make a note about (.{1,200}) in Markdown: a heading, then a list of these facts\b.*\n\n")
_WRITE = re.compile(r"Write the note below to the file ([\w/-]{1,100}\.md), as it stands\..*\n\n")
_NUMBERED = re.compile(r"^\d\. ", re.M)
_TOPIC = "tea"
_FACTS = {
    "where it comes from": "All tea comes from the leaves of one plant, Camellia sinensis, which is at home in Asia.",
    "how it is made": "Green and black tea are made from the same leaves: those of black tea are left to oxidise.",
    "what it is used for": "People drink more tea than anything else but water.",
}
_OWN = "From Ozzie's offline script."


def facts_move(message: str, seen: Sequence[Seen], label: str) -> Move | None:
    """What follows on the message of such a step. `label` stands in what earlier steps gave, and is left out."""
    text = message[:MAX_CHARS]
    if wanted := _FACT.match(text):
        return Say(_fact(wanted[1], wanted[2]))
    if wanted := _NOTE.match(text):
        facts = [" ".join(part.split()) for part in _NUMBERED.split(text[wanted.end() :].replace(label, ""))]
        lines = "\n".join(f"- {fact}" for fact in facts if fact)
        return Say(f"# {wanted[1].strip().capitalize()}\n\n{lines}\n\n{_OWN}")
    if wanted := _WRITE.match(text):
        return _kept(wanted[1], f"{text[wanted.end() :].replace(label, '').strip()}\n", seen)
    return None


def _fact(topic: str, side: str) -> str:
    if topic.strip().lower() == _TOPIC and side in _FACTS:
        return _FACTS[side]
    return f"The script knows three facts about {_TOPIC} and none about {code(topic)}, so it can't say {side}."


def _kept(path: str, note: str, seen: Sequence[Seen]) -> Move:
    """A file that is there already is written anew by who has read it."""
    args: JsonObject = {"path": path, "text": note}
    if not seen:
        return Ask("write_file", args)
    read, last = given_by("read_file", seen), seen[-1]
    if last.tool == "write_file" and not last.error:
        return Say(f"The note stands in {code(path)}.")
    if last.tool == "write_file" and read is None and "is there already" in last.error:
        return Ask("read_file", {"path": path})
    if last is read and not last.error and isinstance(last.data, dict):
        return Ask("write_file", {**args, "version": last.data.get("version")})
    return Say(f"The note is not written. {last.error}".rstrip())
