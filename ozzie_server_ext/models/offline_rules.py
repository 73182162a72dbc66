"""What the offline script answers: rules that are a pure function of the conversation and the tools on offer (MD-7).

A rule looks at the question and at what the tools of this turn have given so far, and either asks for one more tool
or says the answer. No language model is behind it, and the answer says so.
"""

import posixpath
import re
import shlex
from collections.abc import Collection, Sequence

from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.models.driver import ChatMessage
from ozzie_server_ext.models.offline_arithmetic import find_expression
from ozzie_server_ext.models.offline_facts import facts_move
from ozzie_server_ext.models.offline_moves import Ask, Move, Rule, Say, Seen, given_by, path_in
from ozzie_server_ext.models.offline_notebooks import NOTEBOOK_RULES, taken_back
from ozzie_server_ext.models.offline_results import (
    applied,
    changes_in,
    code,
    count_rows,
    excerpt,
    fetched,
    field,
    found,
    kernels,
    listing,
    names_in,
    printed,
)
from ozzie_server_ext.protocol.jsontext import InvalidJson, loads, repair_text

LABEL = "Offline script, not a language model. Connect a model for real answers: %model"
"""UX §10, string 2. Stands once in a turn's answer, as a line of its own."""

MAX_QUESTION_CHARS = 2000
"""The rules run on the gateway's loop, and searching takes quadratic time on text made for it (THREATS 15)."""

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
    """What follows on this conversation: a tool of `tools`, or the answer with its label."""
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
    """The user's last message in one line, and the tool results that came after it, in order."""
    start = max((i for i, message in enumerate(messages) if message.role == "user"), default=None)
    if start is None:
        return "", []
    names = {str(use.call_id): use.name for message in messages[start:] for use in message.tool_uses}
    results = [message for message in messages[start:] if message.role == "tool"]
    question = " ".join(messages[start].content[:MAX_QUESTION_CHARS].split())
    return question, [
        _seen(message.name or names.get(message.tool_call_id, "tool"), message.content) for message in results
    ]


def _message(messages: Sequence[ChatMessage]) -> str:
    """The user's last message as it is."""
    return next((message.content for message in reversed(messages) if message.role == "user"), "")


def _seen(tool: str, content: str) -> Seen:
    try:
        data = loads(content, surrogates="repair")
    except InvalidJson:
        return Seen(tool, repair_text(content))
    error = data.get("error") if isinstance(data, dict) else None
    if not error:
        return Seen(tool, data)
    if not isinstance(error, dict):
        return Seen(tool, data, str(error))
    return Seen(tool, data, str(error["message"])) if "message" in error else Seen(tool, error)


# --- rules: the first that fits, wins -----------------------------------------------------------------


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
    """A file that is there already is read first: it is written anew only by who knows its version."""
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
    """Path and lines of the last note that the script wanted to write in an earlier turn."""
    asked = max((i for i, message in enumerate(messages) if message.role == "user"), default=0)
    for message in reversed(messages[:asked]):
        for use in message.tool_uses:
            args = _arguments(use.arguments) if use.name == "write_file" else {}
            path, text = args.get("path"), args.get("text")
            if isinstance(path, str) and isinstance(text, str):
                return path, min(text.count("\n"), 8)
    return None


def _arguments(text: str) -> JsonObject:
    """Of a call of an earlier turn, which a language model may have made."""
    try:
        args = loads(text, surrogates="repair")
    except InvalidJson:
        return {}
    return args if isinstance(args, dict) else {}


def _ask_back(question: str, seen: Sequence[Seen]) -> Move | None:
    which, wanted = _ASK_WHICH.search(question), _ASK_FOR.search(question)
    if not which and not wanted:
        return None
    given = given_by("ask_user", seen)
    if given is not None:
        answer = given.data.get("answer") if isinstance(given.data, dict) else None
        return Say(f"Your answer is {code(str(answer))}." if answer else "You skipped the question.")
    if which:
        first, second = which[1], which[2]
        options: list[Json] = [{"label": first.capitalize()}, {"label": second.capitalize()}]
        return Ask("ask_user", {"question": f"{first.capitalize()} or {second}?", "options": options})
    assert wanted is not None
    return Ask("ask_user", {"question": f"What is your {wanted[1].strip()}?"})


def _run(question: str, seen: Sequence[Seen]) -> Move | None:
    """A command, or a program where it says Python, between backticks. What it changes in a folder that it may change
    is applied."""
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
    """A program and its words, between backticks; as a shell would part them, but run by none."""
    wanted = _ON_HOST.search(question)
    if wanted is None:
        return None
    given = given_by("host_command", seen)
    if given is not None:
        return Say(printed(given.data))
    try:
        words: list[Json] = [*shlex.split(wanted[2])]
    except ValueError:
        words = []
    return Ask("host_command", {"argv": words}) if words else Say("The script can't part this into words.")


def _fetch(question: str, seen: Sequence[Seen]) -> Move | None:
    wanted = _FETCH.search(question)
    if wanted is None:
        return None
    given = given_by("fetch_url", seen)
    return Ask("fetch_url", {"url": wanted[1].rstrip(".,;!")}) if given is None else Say(fetched(given.data))


def _search(question: str, seen: Sequence[Seen]) -> Move | None:
    wanted = _SEARCH.search(question)
    if wanted is None:
        return None
    given = given_by("web_search", seen)
    return Ask("web_search", {"query": wanted[1].strip(" .?!")}) if given is None else Say(found(given.data))


def _kernels(question: str, seen: Sequence[Seen]) -> Move | None:
    if not _KERNELS.search(question):
        return None
    given = given_by("list_kernels", seen)
    return Ask("list_kernels", {}) if given is None else Say(kernels(given.data))


def _read(question: str, seen: Sequence[Seen]) -> Move | None:
    path = path_in(question)
    if not path or not (_READ.search(question) or "@" in question):
        return None
    read = given_by("read_file", seen)
    return Ask("read_file", {"path": path}) if read is None else Say(excerpt(path, read.data))


def _list(question: str, seen: Sequence[Seen]) -> Move | None:
    if not _LIST.search(question):
        return None
    found = _FOLDER.search(question)
    named = found[1].rstrip("./") if found else ""
    path = path_in(question) or ("." if named.lower() in _HERE else named) or "."
    listed = given_by("list_files", seen)
    return Ask("list_files", {"path": path}) if listed is None else Say(listing(path, listed.data))


def _sum(question: str, seen: Sequence[Seen]) -> Move | None:
    expression = find_expression(question)
    if expression is None:
        wanted = _CALCULATOR.search(question)
        return Say("There is no sum in this that the script can find. Try `What is 12 * (3 + 4)?`") if wanted else None
    given = given_by("calculator", seen)
    if given is None:
        return Ask("calculator", {"expr": expression})
    return Say(f"{code(expression)} = **{field(given.data, 'value', 'result', 'text')}**")


def _time(question: str, seen: Sequence[Seen]) -> Move | None:
    if not _TIME.search(question):
        return None
    given = given_by("current_time", seen)
    if given is None:
        zone = _ZONE.search(question)
        return Ask("current_time", {"timezone": zone[1]} if zone else {})
    return Say(f"It is {field(given.data, 'text', 'local', 'iso', 'time', 'now', 'value')}.")


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
