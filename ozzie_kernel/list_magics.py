"""`%tools`, `%tasks`, `%approvals` and `%config`: what the session can use, does, waits for, and is set to."""

from collections.abc import Mapping, Sequence

from ozzie_kernel.magic import Host, Magic, MagicUsage, did_you_mean, moment
from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.json import JsonObject, objects
from ozzie_server_ext.render.page import Block, Bullets, Command, Facts, Sample, Strong, Table, paragraph
from ozzie_server_ext.render.questions import RULINGS
from ozzie_server_ext.render.text import cut_middle, first_sentence, visible_json

MOST_LISTED = 50
MOST_MESSAGES = 20
"""Messages of a prompt that are shown, the latest ones, beside the system prompt."""
MOST_CHARS = 4_000
"""Characters of one of them, with its calls of tools; what is shown stays in the saved notebook."""
MOST_SYSTEM_CHARS = 20_000
"""Characters of a system prompt."""
_STATES = {
    "CREATED": "queued",
    "QUEUED": "queued",
    "RUNNING": "working",
    "WAITING_INPUT": "waits for your answer",
    "WAITING_APPROVAL": "waits for your yes",
    "PAUSED": "paused",
    "SUCCEEDED": "done",
    "FAILED": "failed",
    "CANCELLED": "stopped",
}
_ID_END = 8
"""Characters of an id in a list."""


async def _tools(argument: str, host: Host) -> Sequence[Block]:
    if argument:
        return tool_page(await host.ask("tools.show", {"name": argument}))
    return tools_page(await host.ask("tools.list"))


def tools_page(found: JsonObject) -> list[Block]:
    """Return every tool, and what the rules decide before they see a call's arguments."""
    rows = [
        (Command(str(tool["name"])), first_sentence(str(tool["about"])).rstrip("."), _ruling(tool))
        for tool in objects(found["items"])
    ]
    page: list[Block] = [
        Table(heads=("Tool", "What it does", ""), rows=rows, flexible=frozenset({1})),
        paragraph(Command("%tools NAME"), " shows one tool's contract. The rules are in the policy files."),
    ]
    if found["policy_error"]:
        page.append(paragraph(Strong("The rules were rejected, so nothing runs:"), f" {found['policy_error']}"))
    return page


def tool_page(tool: JsonObject) -> list[Block]:
    """Return one tool's contract."""
    parameters = tool["parameters"] if isinstance(tool["parameters"], dict) else {}
    properties = parameters.get("properties")
    required = parameters.get("required")
    needed = required if isinstance(required, list) else []
    rows = [
        (Command(name), str(schema.get("description") or ""), "needed" if name in needed else "")
        for name, schema in (properties.items() if isinstance(properties, dict) else ())
        if isinstance(schema, dict)
    ]
    ruling = tool["ruling"] if isinstance(tool["ruling"], dict) else {}
    facts = [
        ("Id", str(tool["tool_id"])),
        ("Side effect", str(tool["side_effect"])),
        ("Risk", str(tool["risk_level"])),
        ("Repeating", str(tool["idempotency"]).replace("_", " ")),
        ("Time limit", f"{tool['timeout_s']} s"),
        ("A call", f"{_ruling(tool)}. {ruling.get('reason', '')}"),
    ]
    page: list[Block] = [paragraph(Strong(str(tool["name"])), f" {tool['about']}"), Facts(facts)]
    if rows:
        page.append(Table(heads=("Argument", "", ""), rows=rows, flexible=frozenset({1})))
    return page


def _ruling(tool: JsonObject) -> str:
    ruling = tool["ruling"]
    return _word_for(ruling["decision"], RULINGS) if isinstance(ruling, dict) else ""


def _word_for(name: object, words: Mapping[str, str]) -> str:
    """Return the words for a name; a newer gateway's name is shown as it is."""
    return words.get(str(name)) or str(name).lower().replace("_", " ")


TOOLS = Magic(
    name="tools",
    usage=MagicUsage("%tools [NAME]", "Lists the tools and what the rules say, or shows one"),
    run=_tools,
    forms=(
        MagicUsage("%tools", "Lists what a model can call, and what needs your yes"),
        MagicUsage("%tools NAME", "Shows one tool: its arguments, effects and ruling"),
    ),
    examples=("%tools write_file",),
)


async def _tasks(argument: str, host: Host) -> Sequence[Block]:
    if argument not in ("", "all"):
        raise InputError(
            f"%tasks takes no argument but all; not {argument[:40]}.",
            hint="Run `%tasks` alone for this session's tasks.",
            code="magic.usage",
        )
    if argument:
        return tasks_page(await host.ask("task.list", {"limit": MOST_LISTED}, as_user=True), everywhere=True)
    return tasks_page(await host.ask("task.list", {"limit": MOST_LISTED}), everywhere=False)


def tasks_page(found: JsonObject, *, everywhere: bool) -> list[Block]:
    """Return the tasks, newest first."""
    every = objects(found["items"])
    if not every:
        return [paragraph("There is no task yet." if everywhere else "There is no task in this session yet.")]
    rows = [
        (str(task["task_id"])[-_ID_END:], moment(task["created_at"]), str(task["title"]), _state(task))
        for task in every
    ]
    page: list[Block] = [Table(heads=("Id", "Begun", "Task", ""), rows=rows, flexible=frozenset({2, 3}))]
    if found["next"]:
        page.append(paragraph(f"These are the {len(every)} newest."))
    page.append(
        paragraph("To look at one, stop or answer it: Ozzie's sidebar, or ", Command("ozzie tasks show ID"), ".")
    )
    return page


def _state(task: JsonObject) -> str:
    state = _word_for(task["status"], _STATES)
    waiting = task["waiting"]
    if task["status"] in ("RUNNING", "WAITING_INPUT", "WAITING_APPROVAL") and isinstance(waiting, list) and waiting:
        return "a step waits for you"
    if task["status"] == "WAITING_INPUT" and task.get("mode") == "GRAPH":
        return "waits for a signal"
    return "stopping" if task["stopping"] else "about to pause" if task["pausing"] else state


TASKS = Magic(
    name="tasks",
    usage=MagicUsage("%tasks [all]", "Lists the tasks of this session, or of all"),
    run=_tasks,
    forms=(
        MagicUsage("%tasks", "Lists this session's tasks, the newest first"),
        MagicUsage("%tasks all", "Lists the tasks of all sessions"),
    ),
)


async def _pin(argument: str, host: Host) -> Sequence[Block]:
    word, _, rest = argument.partition(" ")
    if word == "remove":
        pins = objects((await host.ask("session.pins"))["items"])
        # Python refuses to read a number of thousands of digits.
        number = int(rest) if rest.strip().isdecimal() and len(rest) < 10 else 0
        if not 0 < number <= len(pins):
            raise InputError("Which one? Give its number.", hint="`%pin` lists them.", code="magic.usage")
        return pins_page(await host.ask("session.unpin", {"pin_id": pins[number - 1]["pin_id"]}))
    before = await host.ask("session.pins")
    if not argument:
        return pins_page(before)
    page = pins_page(await host.ask("session.pin", {"text": argument}))
    if " ".join(argument.split()) in [pin["text"] for pin in objects(before["items"])]:
        return [paragraph("That is pinned already, so nothing has changed."), *page]
    return page


def pins_page(found: JsonObject) -> list[Block]:
    """Return the pinned facts with their numbers."""
    pins = objects(found["items"])
    if not pins:
        return [paragraph("Nothing is pinned in this session. Pin a fact: ", Command("%pin TEXT"), ".")]
    rows = [(str(number), str(pin["text"])) for number, pin in enumerate(pins, 1)]
    return [
        Table(heads=("", "Pinned"), rows=rows, right=frozenset({0}), flexible=frozenset({1})),
        paragraph("Every request of this session has them. To remove one: ", Command("%pin remove 1"), "."),
    ]


PIN = Magic(
    name="pin",
    usage=MagicUsage("%pin [TEXT]", "Keeps a fact in mind, however long the session gets"),
    run=_pin,
    forms=(
        MagicUsage("%pin", "Lists what is pinned in this session"),
        MagicUsage("%pin TEXT", "Pins a fact"),
        MagicUsage("%pin remove NUMBER", "Removes one"),
    ),
    examples=("%pin The launch is on Monday.",),
)


async def _approvals(argument: str, host: Host) -> Sequence[Block]:
    if argument:
        raise InputError("%approvals takes no arguments.", hint="Run `%approvals` alone.", code="magic.usage")
    return approvals_page(await host.ask("approval.list", {"status": ["pending"], "limit": MOST_LISTED}))


def approvals_page(found: JsonObject) -> list[Block]:
    """Return what waits for a yes in this session, and where to give it."""
    pending = objects(found["items"])
    if not pending:
        return [paragraph("Nothing waits for your yes in this session.")]
    rows = [(str(one["approval_id"]), str(one["sentence"]), moment(one["requested_at"])) for one in reversed(pending)]
    return [
        Table(heads=("Id", "Question", "Since"), rows=rows, flexible=frozenset({1})),
        paragraph(
            "Answer in the cell that asked, in Ozzie's sidebar, or with ", Command("ozzie approvals approve ID"), "."
        ),
    ]


APPROVALS = Magic(
    name="approvals",
    usage=MagicUsage("%approvals", "Lists what waits for your yes in this session"),
    run=_approvals,
)


async def _config(argument: str, host: Host) -> Sequence[Block]:
    if not argument:
        return config_page(await host.ask("config.show"))
    if argument != "prompt":
        raise InputError(
            f"There is no %config {argument[:40]}.",
            hint=did_you_mean(argument, ("prompt",), "%config ") or "Run `%config`, or `%config prompt`.",
            code="magic.usage",
        )
    return prompt_page(await host.ask("prompt.show"))


def config_page(found: JsonObject) -> list[Block]:
    """Return the configuration's files, and what they set. Keys are never in them."""
    page: list[Block] = []
    files = found["files"] if isinstance(found["files"], list) else []
    if files:
        page += [paragraph("These files are in force, later ones over earlier ones:")]
        page.append(Bullets([(Command(str(file)),) for file in files]))
        page.append(Sample(visible_json(found["set"])))
    else:
        page.append(
            paragraph(
                "Nothing is set: everything has its default. To change something, write ",
                Command(str(found["config_file"])),
                ".",
            )
        )
    for file in found["ignored"] if isinstance(found["ignored"], list) else []:
        page.append(
            paragraph(
                Command(str(file)), " is not used: nobody has trusted it yet (", Command("ozzie config trust"), ")."
            )
        )
    if found["error"]:
        page.append(paragraph(Strong("The configuration was rejected:"), f" {found['error']}"))
    page.append(paragraph(Command("%config prompt"), " shows what was sent to the model."))
    return page


def prompt_page(found: JsonObject) -> list[Block]:
    """Return the latest request to a model; of a long conversation only its end."""
    request = found.get("request")
    if not isinstance(request, dict):
        return [paragraph(str(found.get("why") or "Nothing was sent to a model in this session yet."))]
    messages, tools = objects(request["messages"]), objects(request["tools"])
    system = [each for each in messages if each["role"] == "system"]
    others = [each for each in messages if each["role"] != "system"]
    shown = others[-MOST_MESSAGES:]
    names = ", ".join(str(tool["name"]) for tool in tools) or "none"
    page: list[Block] = [
        paragraph(
            "The latest request went to ",
            Strong(str(request["alias"])),
            f" ({request['model']}) at {moment(found['ts'])}, with {len(messages):,} messages. Its tools: {names}.",
        )
    ]
    for each in system:
        page += _message(each, str(each["content"]), MOST_SYSTEM_CHARS, is_named=False)
    if len(others) > len(shown):
        page.append(paragraph(f"{len(others) - len(shown):,} earlier messages are left out here."))
    for each in shown:
        uses = objects(each["tool_uses"]) if "tool_uses" in each else []
        calls = "".join(f"\n{use['name']} {use['arguments']}" for use in uses)
        page += _message(each, f"{each['content']}{calls}", MOST_CHARS)
    return page


def _message(message: JsonObject, text: str, most: int, *, is_named: bool = True) -> list[Block]:
    """Return a message's text, cut in the middle above `most` characters. A whole one gets its role as a heading if
    `is_named`."""
    role = Strong(str(message["role"]))
    if len(text) > most:
        return [paragraph(role, f": {len(text):,} characters, cut to {most:,}."), Sample(cut_middle(text, most))]
    return [*([paragraph(role, ":")] if is_named else []), Sample(text)]


CONFIG = Magic(
    name="config",
    usage=MagicUsage("%config [prompt]", "Shows the configuration, or what was sent to the model"),
    run=_config,
    forms=(
        MagicUsage("%config", "Shows the files in force and what they set"),
        MagicUsage("%config prompt", "Shows the latest prompt that was sent, shortened if it is long"),
    ),
)
