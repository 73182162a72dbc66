"""What is said about a new fork: what it begins without, and what has happened that its history does not tell."""

from collections import Counter

from ozzie_server_ext.domain.json import JsonObject, objects
from ozzie_server_ext.render.page import Block, Bullets, paragraph
from ozzie_server_ext.render.text import counted, visible_label

MOST_TOLD = 5
"""More calls are counted by tool."""
MOST_NAMED = 20


def about_fork(fork: JsonObject) -> list[Block]:
    """Return what to say about a fork as the gateway describes it: `left_out`, `done` and `files`."""
    return [*_left_out(fork), *_done(objects(fork["done"])), *_files(objects(fork["files"]))]


def _left_out(fork: JsonObject) -> list[Block]:
    numbers = fork["left_out"]
    if not isinstance(numbers, list) or not numbers:
        return []
    if len(numbers) == 1:
        return [paragraph(f"Turn {numbers[0]} is not over, and is no part of it.")]
    return [paragraph(f"The turns {', '.join(map(str, numbers))} are not over, and are no part of it.")]


def _done(done: list[JsonObject]) -> list[Block]:
    if not done:
        return []
    if len(done) > MOST_TOLD:
        counts = Counter(str(call["tool"]) for call in done)
        each = ", ".join(f"{visible_label(tool)} {count}" for tool, count in counts.most_common())
        return [paragraph(f"{counted(len(done), 'call')} made since then are not undone: {each}.")]
    return [paragraph("What was done since then is not undone:"), Bullets([(_call(call),) for call in done])]


def _call(call: JsonObject) -> str:
    where = f"turn {call['turn']}: " if call["turn"] else ""
    what = " ".join(filter(None, (str(call["tool"]), str(call["path"]))))
    how = f" ({call['outcome']})" if call["outcome"] else ""
    return visible_label(f"{where}{what}{how}")


def _files(files: list[JsonObject]) -> list[Block]:
    if not files:
        return []
    names = [f"{visible_label(str(file['path']))}{' (gone)' if file['is_gone'] else ''}" for file in files]
    more = f" and {len(names) - MOST_NAMED} others" if len(names) > MOST_NAMED else ""
    changed = "a file has" if len(files) == 1 else f"{len(files)} files have"
    listed = ", ".join(names[:MOST_NAMED])
    return [
        paragraph(f"Files are not restored: {changed} changed since these turns read or wrote them: {listed}{more}.")
    ]
