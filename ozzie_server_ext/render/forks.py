"""What is said about a new fork: what it begins without, and what has happened that its history does not tell."""

from collections import Counter

from ozzie_server_ext.domain.json import JsonObject, objects
from ozzie_server_ext.render.page import Block, Bullets, paragraph
from ozzie_server_ext.render.text import counted, visible_label

MOST_TOLD = 5
"""More calls are counted by tool."""
MOST_NAMED = 20


def about_fork(fork: JsonObject, *, names: bool = True) -> list[Block]:
    """Return what to say about a fork as the gateway describes it: `left_out`, `done` and `files`.

    Without `names`, only numbers and names of tools: what a tool was given or found may be from outside, and a file in
    which it stands would need its labels.
    """
    done, files = objects(fork["done"]), objects(fork["files"])
    return [*_left_out(fork), *_done(done, names=names), *_files(files, names=names)]


def _left_out(fork: JsonObject) -> list[Block]:
    numbers = fork["left_out"]
    if not isinstance(numbers, list) or not numbers:
        return []
    if len(numbers) == 1:
        return [paragraph(f"Turn {numbers[0]} is not over, and is no part of it.")]
    return [paragraph(f"The turns {', '.join(map(str, numbers))} are not over, and are no part of it.")]


def _done(done: list[JsonObject], *, names: bool) -> list[Block]:
    if not done:
        return []
    if len(done) > MOST_TOLD or not names:
        counts = Counter(visible_label(str(call["tool"])) for call in done)
        each = ", ".join(tool if count == 1 else f"{tool} {count} times" for tool, count in counts.most_common())
        are = "call made since then is" if len(done) == 1 else f"{counted(len(done), 'call')} made since then are"
        return [paragraph(f"{'A ' if len(done) == 1 else ''}{are} not undone: {each}.")]
    return [paragraph("What was done since then is not undone:"), Bullets([(_call(call),) for call in done])]


def _call(call: JsonObject) -> str:
    where = f"turn {call['turn']}: " if call["turn"] else ""
    what = " ".join(filter(None, (str(call["tool"]), str(call["path"]))))
    how = f" ({call['outcome']})" if call["outcome"] else ""
    return visible_label(f"{where}{what}{how}")


def _files(files: list[JsonObject], *, names: bool) -> list[Block]:
    if not files:
        return []
    what = "a file has changed" if len(files) == 1 else f"{len(files)} files have changed"
    since = f"since the fork's turns read or wrote {'it' if len(files) == 1 else 'them'}"
    if not names:
        return [paragraph(f"Files are not restored: {what} {since}.")]
    listed = ", ".join(_file(visible_label(str(file["path"])), str(file["how"])) for file in files[:MOST_NAMED])
    more = f" and {len(files) - MOST_NAMED} others" if len(files) > MOST_NAMED else ""
    return [paragraph(f"Files are not restored: {what} {since}: {listed}{more}.")]


def _file(path: str, how: str) -> str:
    return path if how == "changed" else f"{path} ({how})"
