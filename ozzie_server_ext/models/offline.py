"""The built-in driver without a language model: answers by fixed rules, and says so."""

import asyncio
import posixpath
import re
import shlex
from collections.abc import AsyncGenerator, Collection, Sequence

from ozzie_server_ext.domain.budget import Usage
from ozzie_server_ext.domain.clock import Clock
from ozzie_server_ext.domain.events import ToolUse
from ozzie_server_ext.domain.ids import CallId
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.models.driver import ChatMessage, ModelEvent, ModelRequest, TextDelta, finished
from ozzie_server_ext.models.offline_moves import (
    Ask,
    Move,
    Rule,
    Say,
    Seen,
    applied,
    ask_once,
    changes_in,
    code,
    count_rows,
    excerpt,
    fetched,
    field,
    find_expression,
    found,
    get,
    given_by,
    items,
    kernels,
    listing,
    names_in,
    path_in,
    printed,
)
from ozzie_server_ext.observability.clock import SystemClock
from ozzie_server_ext.protocol.jsontext import InvalidJson, dumps, loads, repair_text

MAX_CHARS = 4000
_FACT = re.compile(r"Tell one fact about (.{1,200}), in one sentence: ([a-z ]{1,40})\.")
_FACT_NOTE = re.compile(r"Make a note about (.{1,200}) in Markdown: a heading, then a list of these facts\b.*\n\n")
_WRITE = re.compile(r"Write the note below to the file ([\w/-]{1,100}\.md), as it stands\..*\n\n")
_NUMBERED = re.compile(r"^\d\. ", re.M)
_TOPIC = "tea"
_FACTS = {
    "where it comes from": "All tea comes from the leaves of one plant, Camellia sinensis, which is at home in Asia.",
    "how it is made": "Green and black tea are made from the same leaves: those of black tea are left to oxidise.",
    "what it is used for": "People drink more tea than anything else but water.",
}
_OWN_FACTS = "From Ozzie's offline script."


def facts_move(message: str, seen: Sequence[Seen], label: str) -> Move | None:
    """Return the move for a step of the facts skills. `label` occurs in what earlier steps gave, and is left out."""
    text = message[:MAX_CHARS]
    if wanted := _FACT.match(text):
        return Say(_fact(wanted[1], wanted[2]))
    if wanted := _FACT_NOTE.match(text):
        facts = [" ".join(part.split()) for part in _NUMBERED.split(text[wanted.end() :].replace(label, ""))]
        lines = "\n".join(f"- {fact}" for fact in facts if fact)
        return Say(f"# {wanted[1].strip().capitalize()}\n\n{lines}\n\n{_OWN_FACTS}")
    if wanted := _WRITE.match(text):
        return _kept(wanted[1], f"{text[wanted.end() :].replace(label, '').strip()}\n", seen)
    return None


def _fact(topic: str, side: str) -> str:
    if topic.strip().lower() == _TOPIC and side in _FACTS:
        return _FACTS[side]
    return f"The script knows three facts about {_TOPIC} and none about {code(topic)}, so it can't say {side}."


def _kept(path: str, note: str, seen: Sequence[Seen]) -> Move:
    """Write a new file; replace an existing one only after reading it."""
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


_CELLS = re.compile(r"\b(which|what|show|list|read)\b[^.?!]*\bcells?\b", re.I)
_ADD = re.compile(r"\badd an? (code|markdown) cell\b[^:]*:\s*(.+)", re.I)
_CHANGE = re.compile(r"\bchange cell (\d{1,4})\b[^:]*\bto:\s*(.+)", re.I)
_DELETE = re.compile(r"\bdelete cell (\d{1,4})\b", re.I)
_MOVE = re.compile(r"\bmove cell (\d{1,4})\b.*\bto the (top|end)\b", re.I)
_UNDO = re.compile(r"\btake the last edit\b.*\bback\b", re.I)
_ENDING = ".ipynb"
_SHOWN = 60


def _add(question: str, seen: Sequence[Seen]) -> Move | None:
    wanted, path = _ADD.search(question), _notebook(question)
    if wanted is None or not path:
        return None
    given = given_by("insert_cell", seen)
    if given is not None:
        return _done(path, given, "The cell stands in")
    return Ask("insert_cell", {"path": path, "kind": wanted[1].lower(), "source": wanted[2].strip("` ")})


def _change(question: str, seen: Sequence[Seen]) -> Move | None:
    wanted = _CHANGE.search(question)
    return wanted and _with_cell(question, seen, "edit_cell", wanted[1], {"source": wanted[2].strip("` ")})


def _delete(question: str, seen: Sequence[Seen]) -> Move | None:
    wanted = _DELETE.search(question)
    return wanted and _with_cell(question, seen, "delete_cell", wanted[1], {})


def _notebook_move(question: str, seen: Sequence[Seen]) -> Move | None:
    wanted = _MOVE.search(question)
    return wanted and _with_cell(question, seen, "move_cell", wanted[1], {"after": wanted[2].lower()})


def _with_cell(question: str, seen: Sequence[Seen], tool: str, number: str, more: JsonObject) -> Move | None:
    """Read the notebook, to learn the cell's id; then make the edit."""
    path = _notebook(question)
    if not path:
        return None
    read, done = given_by("read_notebook", seen), given_by(tool, seen)
    if done is not None:
        return _done(path, done, "Done in")
    if read is None:
        return Ask("read_notebook", {"path": path})
    cell = next((each for each in _cells_of(read.data) if field(each, "number") == str(int(number))), None)
    if cell is None:
        return Say(f"{code(path)} has no cell {number}.\n\n{_table(path, read.data)}")
    return Ask(tool, {"path": path, "cell": cell.get("id"), "version": cell.get("version"), **more})


def _show(question: str, seen: Sequence[Seen]) -> Move | None:
    path = _notebook(question)
    if not path or not _CELLS.search(question):
        return None
    return ask_once("read_notebook", {"path": path}, seen, lambda data: _table(path, data))


def _taken_back(question: str, seen: Sequence[Seen]) -> Move | None:
    if not _UNDO.search(question):
        return None
    given = given_by("undo_cell_edit", seen)
    return Say("There is no edit of a notebook to take back.") if given is None else Say("The last edit is taken back.")


def taken_back(question: str, messages: Sequence[ChatMessage]) -> Ask | None:
    """Undo the last edit of a notebook, if the question wants that and there was one."""
    if not _UNDO.search(question):
        return None
    for message in reversed(messages):
        data = _data_of(message.content) if message.role == "tool" else {}
        path, undo = data.get("path"), data.get("undo")
        if isinstance(path, str) and isinstance(undo, str) and path.endswith(_ENDING):
            return Ask("undo_cell_edit", {"path": path, "undo": undo})
    return None


def _data_of(result: str) -> JsonObject:
    """Return the data of a tool's result, {} if it is no object."""
    found = _seen("", result).data
    return found if isinstance(found, dict) else {}


def _object(text: str) -> JsonObject:
    """Return the JSON object in `text`, {} if there is none: a language model may have written it."""
    try:
        found = loads(text, surrogates="repair")
    except InvalidJson:
        return {}
    return found if isinstance(found, dict) else {}


def _notebook(question: str) -> str:
    path = path_in(question)
    return path if path.endswith(_ENDING) else ""


def _cells_of(data: Json) -> list[JsonObject]:
    return [each for each in items(data, "cells") if isinstance(each, dict)]


def _table(path: str, data: Json) -> str:
    cells = _cells_of(data)
    if not cells:
        return f"{code(path)} has no cells."
    rows = [f"{field(each, 'number')}. {field(each, 'kind')}: {code(_first_line(each))}" for each in cells]
    return f"The cells of {code(path)}:\n\n" + "\n".join(rows)


def _first_line(cell: JsonObject) -> str:
    lines = [line for line in str(cell.get("source", "")).splitlines() if line.strip()]
    return lines[0][:_SHOWN] if lines else "(empty)"


def _done(path: str, given: Seen, what: str) -> Say:
    more = " ".join(str(note) for note in items(given.data, "notes"))
    return Say(f"{what} {code(path)}. {more}".rstrip())


NOTEBOOK_RULES: tuple[Rule, ...] = (_add, _change, _delete, _notebook_move, _taken_back, _show)


LABEL = "Offline script, not a language model. Connect a model for real answers: %model"
"""Stands once in a turn's answer, on a line of its own."""

MAX_QUESTION_CHARS = 2000
"""The rules run on the gateway's loop, and searching may take quadratic time on text made for it."""

_FOLDER = re.compile(r"\b(?:in|of|under|below|inside)\s+(?:the\s+)?(?:folder\s+)?[`\"']?([\w.][\w./-]*)", re.I)
_HERE = frozenset({"this", "the", "here", "project", "folder", "there", "my", "current", "directory", "it"})
_ROWS = re.compile(r"\bhow many (rows|lines|records|entries)\b|\bcount (?:the )?(rows|lines|records|entries)\b", re.I)
_READ = re.compile(r"\b(read|show|open|print|summari[sz]e|what(?:'s| is| stands) in|look (?:at|into))\b", re.I)
_LIST = re.compile(r"\b(list|which|what|show)\b[^.?!]*\b(files?|folders?|director(?:y|ies))\b|^\s*ls\b", re.I)
_TIME = re.compile(
    r"\b(what(?:'s| is)? (?:the )?(?:current )?(?:time|date)|what day|time is it|current (?:time|date)|today'?s date"
    r"|date (?:is it|today)|what(?:'s| is) today)\b",
    re.I,
)
_ZONE = re.compile(r"\b((?:Africa|America|Antarctica|Asia|Atlantic|Australia|Europe|Indian|Pacific)/[\w/+-]+|UTC)\b")
_GREETING = re.compile(r"\b(hello|hi|hey|good (?:morning|afternoon|evening)|(?:who|what) are you|introduce)\b", re.I)
_NUMBERS = {"one": 1, "two": 2, "three": 3, "four": 4, "five": 5}
_NOTE = re.compile(rf"\bwrite an? ({'|'.join(_NUMBERS)}|[1-9])-line note to\b", re.I)
_AGAIN = re.compile(r"\bwrite it again with one more line\b", re.I)
_OWN = "from Ozzie's offline script."
_IS_THERE = "is there already"
_ASK_WHICH = re.compile(r"\bask me\b[^.?!]*?\b([\w-]{1,40}) or ([\w-]{1,40})\b", re.I)
_ASK_FOR = re.compile(r"\bask me for (?:my|the|an?) ([\w -]{1,60})", re.I)
_RUN = re.compile(r"\brun\b([^`]*)(`+)([^`]+)\2", re.I)
_ON_HOST = re.compile(r"\brun\b[^`]*(`+)([^`]+)\1\s+on\s+(?:this|my|the)\s+(?:machine|computer|host)\b", re.I)
_FETCH = re.compile(r"\bfetch (https?://[^\s`\"'<>]{1,1900})", re.I)
_SEARCH = re.compile(r"\bsearch the web for [`\"']?([^`\"']{1,300})", re.I)
_KERNELS = re.compile(r"\b(list|which|what|show)\b[^.?!]{0,60}\bkernels?\b", re.I)
_CHANGING = re.compile(r"`\s+changing\s+`([^`]+)`", re.I)
_CALCULATOR = re.compile(r"\bcalculator\b", re.I)


def next_move(messages: Sequence[ChatMessage], tools: Collection[str]) -> Move:
    """Return the next move in this conversation: a call of one of `tools`, or the answer with its label."""
    question, seen = _turn(messages)
    if _AGAIN.search(question) and (note := _last_note(messages)):
        path, lines = note
        if not seen and "read_file" in tools:
            return Ask("read_file", {"path": path})
        question = f"Write a {lines + 1}-line note to {path}"
    if not seen and (back := taken_back(question, messages)) is not None:
        return back
    move = facts_move(_message(messages), seen, LABEL) or _move(question, seen, tools)
    if isinstance(move, Ask) and move.tool not in tools:
        move = Say(f"This needs the tool {code(move.tool)}, which is not offered here.")
    return Say(f"{LABEL}\n\n{move.text}") if isinstance(move, Say) else move


def _move(question: str, seen: Sequence[Seen], tools: Collection[str]) -> Move:
    if (move := _note(question, seen)) is not None:
        return move
    if seen and seen[-1].error:
        return _no_result(seen[-1])
    for rule in _RULES:
        move = rule(question, seen)
        if move is not None:
            return move
    return Say(_abilities(tools))


def _turn(messages: Sequence[ChatMessage]) -> tuple[str, list[Seen]]:
    """Return the user's last message in one line, and the tool results that came after it, in order."""
    start = max((i for i, message in enumerate(messages) if message.role == "user"), default=None)
    if start is None:
        return "", []
    names = {str(use.use_id): use.name for message in messages[start:] for use in message.tool_uses}
    results = [message for message in messages[start:] if message.role == "tool"]
    question = " ".join(messages[start].content[:MAX_QUESTION_CHARS].split())
    return question, [
        _seen(message.name or names.get(message.tool_call_id, "tool"), message.content) for message in results
    ]


def _message(messages: Sequence[ChatMessage]) -> str:
    """Return the user's last message unchanged."""
    return next((message.content for message in reversed(messages) if message.role == "user"), "")


def _seen(tool: str, content: str) -> Seen:
    try:
        result = loads(content, surrogates="repair")
    except InvalidJson:
        return Seen(tool, repair_text(content))
    if not isinstance(result, dict) or "ok" not in result:
        return Seen(tool, result)
    data, error = result.get("data"), result.get("error")
    if data is not None or not isinstance(error, dict):  # a command that failed has its output as data
        return Seen(tool, data)
    return Seen(tool, error, str(error["message"])) if "message" in error else Seen(tool, error)


# --- rules: the first match wins ----------------------------------------------------------------------


def _rows(question: str, seen: Sequence[Seen]) -> Move | None:
    wanted, path = _ROWS.search(question), path_in(question)
    if not wanted or not path:
        return None
    listed, read = given_by("list_files", seen), given_by("read_file", seen)
    folder, name = posixpath.split(path)
    if read is not None:
        return Say(count_rows(path, read.data, unit=(wanted[1] or wanted[2]).lower()))
    if listed is None:
        return Ask("list_files", {"path": folder or "."})
    names = names_in(listed.data)
    if names is not None and name not in names:
        return Say(f"There is no {code(name)} in {code(folder or '.')}.\n\n{listing(folder or '.', listed.data)}")
    return Ask("read_file", {"path": path})


def _no_result(failed: Seen) -> Say:
    return Say(f"The tool {code(failed.tool)} gave no result: {failed.error}")


def _note(question: str, seen: Sequence[Seen]) -> Move | None:
    """Read an existing file first: only who knows its version may replace it."""
    wanted, path = _NOTE.search(question), path_in(question)
    if not wanted or not path:
        return None
    written, read = given_by("write_file", seen), given_by("read_file", seen)
    if written is not None and not written.error:
        return Say(f"The note stands in {code(path)}.")
    if written is not None and read is None and _IS_THERE in written.error:
        return Ask("read_file", {"path": path})
    if seen and seen[-1].error and seen[-1] is not read:  # what can't be read is written as new
        return _no_result(seen[-1])
    there = read.data if read is not None and isinstance(read.data, dict) else {}
    if any(not line.endswith(_OWN) for line in str(there.get("text", "")).splitlines()):
        return Say(f"In {code(path)} stands something that the script did not write, so it leaves it as it is.")
    count = _NUMBERS.get(wanted[1].lower()) or int(wanted[1])
    text = "".join(f"Line {number} of {count} {_OWN}\n" for number in range(1, count + 1))
    version = there.get("version")
    return Ask("write_file", {"path": path, "text": text, **({"version": version} if version else {})})


def _last_note(messages: Sequence[ChatMessage]) -> tuple[str, int] | None:
    """Return path and number of lines of the last note that the script wanted to write in an earlier turn."""
    start = max((i for i, message in enumerate(messages) if message.role == "user"), default=0)
    for message in reversed(messages[:start]):
        for use in message.tool_uses:
            args = _object(use.arguments) if use.name == "write_file" else {}
            path, text = args.get("path"), args.get("text")
            if isinstance(path, str) and isinstance(text, str):
                return path, min(text.count("\n"), 8)
    return None


def _ask_back(question: str, seen: Sequence[Seen]) -> Move | None:
    which, wanted = _ASK_WHICH.search(question), _ASK_FOR.search(question)
    if not which and not wanted:
        return None
    given = given_by("ask_user", seen)
    if given is not None:
        answer = get(given.data, "answer")
        return Say(f"Your answer is {code(str(answer))}." if answer else "You skipped the question.")
    if which:
        first, second = which[1], which[2]
        options: list[Json] = [{"label": first.capitalize()}, {"label": second.capitalize()}]
        return Ask("ask_user", {"question": f"{first.capitalize()} or {second}?", "options": options})
    assert wanted is not None
    return Ask("ask_user", {"question": f"What is your {wanted[1].strip()}?"})


def _run(question: str, seen: Sequence[Seen]) -> Move | None:
    """Run a command between backticks, or a program if the question says Python; apply its changes to a folder that it
    may change."""
    wanted, changing = _RUN.search(question), _CHANGING.search(question)
    if wanted is None:
        return None
    tool, argument = ("python", "code") if "python" in wanted[1].lower() else ("shell", "command")
    given, done = given_by(tool, seen), given_by("apply_changes", seen)
    if given is None:
        editable: JsonObject = {"editable_folder": changing[1].strip()} if changing else {}
        return Ask(tool, {argument: wanted[3].strip(), **editable})
    kept = changes_in(given.data)
    if kept is not None and done is None:
        return Ask("apply_changes", {"artifact": kept[0], "paths": [*kept[1]]})
    return Say(printed(given.data) if done is None else f"{printed(given.data)}\n\n{applied(done.data)}")


def _run_on_host(question: str, seen: Sequence[Seen]) -> Move | None:
    """Run the words between backticks as a program, split like a shell does but without one."""
    wanted = _ON_HOST.search(question)
    if wanted is None:
        return None
    try:
        words: list[Json] = [*shlex.split(wanted[2])]
    except ValueError:
        words = []
    if not words:
        return Say("The script can't split this into words.")
    return ask_once("host_command", {"argv": words}, seen, printed)


def _fetch(question: str, seen: Sequence[Seen]) -> Move | None:
    wanted = _FETCH.search(question)
    return wanted and ask_once("fetch_url", {"url": wanted[1].rstrip(".,;!")}, seen, fetched)


def _search(question: str, seen: Sequence[Seen]) -> Move | None:
    wanted = _SEARCH.search(question)
    return wanted and ask_once("web_search", {"query": wanted[1].strip(" .?!")}, seen, found)


def _kernels(question: str, seen: Sequence[Seen]) -> Move | None:
    if not _KERNELS.search(question):
        return None
    return ask_once("list_kernels", {}, seen, kernels)


def _read(question: str, seen: Sequence[Seen]) -> Move | None:
    path = path_in(question)
    if not path or not (_READ.search(question) or "@" in question):
        return None
    return ask_once("read_file", {"path": path}, seen, lambda data: excerpt(path, data))


def _list(question: str, seen: Sequence[Seen]) -> Move | None:
    if not _LIST.search(question):
        return None
    folder = _FOLDER.search(question)
    name = folder[1].rstrip("./") if folder else ""
    path = path_in(question) or ("." if name.lower() in _HERE else name) or "."
    return ask_once("list_files", {"path": path}, seen, lambda data: listing(path, data))


def _sum(question: str, seen: Sequence[Seen]) -> Move | None:
    expression = find_expression(question)
    if expression is None:
        wanted = _CALCULATOR.search(question)
        return Say("There is no sum in this that the script can find. Try `What is 12 * (3 + 4)?`") if wanted else None
    return ask_once(
        "calculator",
        {"expr": expression},
        seen,
        lambda data: f"{code(expression)} = **{field(data, 'value', 'result', 'text')}**",
    )


def _time(question: str, seen: Sequence[Seen]) -> Move | None:
    if not _TIME.search(question):
        return None
    zone = _ZONE.search(question)
    return ask_once(
        "current_time",
        {"timezone": zone[1]} if zone else {},
        seen,
        lambda data: f"It is {field(data, 'text', 'local', 'iso', 'time', 'now', 'value')}.",
    )


def _greeting(question: str, seen: Sequence[Seen]) -> Move | None:
    if not _GREETING.search(question):
        return None
    return Say(
        "Hello. This is Ozzie, the agent server of this Jupyter. No language model is connected yet, so a small script "
        "of fixed rules answers: it can calculate, tell the time, list folders and read files of this project."
    )


_RULES: tuple[Rule, ...] = (
    *NOTEBOOK_RULES,
    _ask_back,
    _run_on_host,
    _run,
    _fetch,
    _search,
    _rows,
    _list,
    _kernels,
    _sum,
    _read,
    _time,
    _greeting,
)


def _abilities(tools: Collection[str]) -> str:
    verbs = {
        "calculator": "calculate",
        "current_time": "tell the time",
        "list_files": "list folders",
        "read_file": "read files and count their rows",
        "write_file": "write a two-line note to a file",
        "ask_user": "ask you back",
        "shell": "run a command that stands between backticks",
        "host_command": "run one on this machine where you say so",
        "fetch_url": "fetch an address",
        "web_search": "search the web",
        "edit_cell": "show and change the cells of a notebook",
        "list_kernels": "list the kernels that run",
    }
    able = [verb for tool, verb in verbs.items() if tool in tools]
    if not able:
        return "The script can't answer this. No tool is offered here, so it can only say what it is."
    can = able[0] if len(able) == 1 else f"{', '.join(able[:-1])} and {able[-1]}"
    return f"The script can't answer this: it can {can}. Try `What is 17.5 % of 2,480?`, or name a file with `@`."


PAUSE_S = 0.02
_WORDS = re.compile(r"\s*\S+\s*\S*\s*")


class OfflineDriver:
    """Works at once and anywhere, without key, network or worker process, at no cost and without using tokens.
    `pause_s` is the pause between two deltas, so that a person sees the answer stream like a model's."""

    def __init__(self, clock: Clock | None = None, *, pause_s: float = PAUSE_S) -> None:
        self._clock = clock or SystemClock()
        self._pause_s = pause_s

    async def generate(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        started = self._clock.monotonic()
        move = next_move(request.messages, {tool.name for tool in request.tools})
        text, finish, tool_uses, ttft_ms = "", "stop", (), None
        if isinstance(move, Ask):
            finish = "tool_calls"
            tool_uses = (ToolUse(call_id=CallId(f"{request.call_id}_1"), name=move.tool, arguments=dumps(move.args)),)
        else:
            text = move.text
            for piece in _WORDS.findall(text):
                if ttft_ms is None:
                    ttft_ms = (self._clock.monotonic() - started) * 1000
                else:
                    await asyncio.sleep(self._pause_s)
                yield TextDelta(piece)
        yield finished(text=text, finish=finish, tool_uses=tool_uses, usage=Usage(), cost=0, ttft_ms=ttft_ms)
