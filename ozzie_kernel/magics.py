"""The `%` commands: names, help and functions. Each returns a page."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from ozzie_kernel import list_magics, session_magic
from ozzie_kernel.magic import Host, Magic, MagicUsage, did_you_mean
from ozzie_kernel.parameters import read, shown
from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.json import JsonObject, objects
from ozzie_server_ext.render.models import tag_words
from ozzie_server_ext.render.page import Block, Bullets, Command, Inline, Strong, Table, paragraph
from ozzie_server_ext.render.text import amount_of_money, cut_columns, money

_STATES = {"SUCCEEDED": "", "FAILED": "failed", "CANCELLED": "stopped", "RUNNING": "running", "QUEUED": "queued"}


async def _cost(argument: str, host: Host) -> Sequence[Block]:
    if argument:
        raise InputError("%cost takes no arguments.", hint="Run `%cost` alone.", code="magic.usage")
    return cost_page(await host.ask("session.costs"))


def cost_page(costs: JsonObject) -> list[Block]:
    """Return a table of the turns, with sums. An unknown price is never shown as zero."""
    turns = objects(costs["turns"])
    session, today = _spent(costs["session"]), _spent(costs["today"])
    rows: list[tuple[str, ...]] = []
    for turn in turns:
        at = datetime.fromisoformat(str(turn["created_at"])).astimezone()
        rows.append(_row(f"{at:%H:%M}", str(turn["title"]), _how(turn), _spent(turn["spent"])))
    rows.append(_row("", "This session", "", session))
    rows.append(_row("", "All sessions today", "", today))
    table = Table(
        heads=("Time", "Message", "Model", "In", "Out", "Cost"),
        rows=rows,
        right=frozenset({3, 4, 5}),
        flexible=frozenset({1, 2}),
    )
    page: list[Block] = [table]
    if not turns:
        page.insert(0, paragraph("There is no turn in this session yet."))
    if costs["has_earlier"]:
        page.append(paragraph("Earlier turns are left out here; they are in the sum."))
    page += [paragraph(_budget_line(budget)) for budget in objects(costs["budgets"])]
    if not (session["cost_known"] and today["cost_known"]):
        page.append(paragraph("If a price is unknown, the model's provider did not give one; tokens are counted."))
    return page


_WHOSE = {"session": "This session", "project": "This project", "day": "All sessions today"}
_THEN = {"ask": "then Ozzie asks", "degrade": 'then "cheap" goes on', "stop": "then turns stop"}


def _budget_line(budget: Mapping[str, Any]) -> str:
    """ "Budget: This session has used $0.43 of $5.00 and 1,200 of 50,000 tokens; then Ozzie asks." """
    parts: list[str] = []
    if budget["cost_limit"] is not None:
        parts.append(f"{money(int(budget['cost_used']))} of {amount_of_money(int(budget['cost_limit']))}")
    if budget["tokens_limit"] is not None:
        parts.append(f"{int(budget['tokens_used']):,} of {int(budget['tokens_limit']):,} tokens")
    whose, then = _WHOSE[str(budget["scope"])], _THEN[str(budget["on_breach"])]
    return f"Budget: {whose} used {' and '.join(parts)}; {then}."


def _row(time: str, title: str, how: str, spent: Mapping[str, Any]) -> tuple[str, ...]:
    return time, title, how, f"{spent['input_tokens']:,}", f"{spent['output_tokens']:,}", _money(spent)


def _how(turn: JsonObject) -> str:
    models = turn["models"] if isinstance(turn["models"], list) else []
    state = _STATES.get(str(turn["status"]), "waiting")
    return ", ".join(part for part in (*map(str, models), state) if part)


def _money(spent: Mapping[str, Any]) -> str:
    if spent["cost_known"]:
        return money(spent["cost"])
    return f"{money(spent['cost'])} + unknown" if spent["cost"] else "unknown"


def _spent(value: Any) -> dict[str, Any]:
    return {"input_tokens": 0, "output_tokens": 0, "cost": 0, "cost_known": True, **value}


COST = Magic(
    name="cost", usage=MagicUsage("%cost", "Shows what the turns of this session have used and cost"), run=_cost
)


_CALL_COLUMNS = 56
"""Wider than any text for the end of a call."""


async def _model(argument: str, host: Host) -> Sequence[Block]:
    if not argument:
        return model_page(await host.ask("models.list"), await host.ask("session.open"))
    # Split at any blank: a key after a tab must not become part of the name, which is recorded.
    name, *address = argument.split(maxsplit=1)
    chosen = await host.ask("model.choose", {"model": name, "base_url": "".join(address)})
    if chosen["driver"] == "offline":
        return [paragraph("The offline script answers in this session. It is not a language model.")]
    others = chosen.get("then")
    then = f"; where that can't, {', then '.join(map(str, others))}" if isinstance(others, list) and others else ""
    return [
        paragraph(
            Strong(str(chosen["alias"])),
            f" answers in this session from now on: {chosen['model']} through {chosen['provider']}{then}.",
        )
    ]


def model_page(found: JsonObject, session: JsonObject) -> list[Block]:
    """Return the models, and how to connect others."""
    now = str(session["model"]) or str(found["default"])
    models = objects(found["models"])
    ways: list[Sequence[Inline]] = [
        (f"{offer['found']}. To use it: ", Command(f"%model {offer['choose']}")) for offer in objects(found["offers"])
    ]
    ways += [
        ("A local Ollama: ", Command("%model ollama/NAME"), ", for example ", Command("%model ollama/llama3.2")),
        ("Any OpenAI-compatible address without a key: ", Command("%model openai/NAME http://localhost:8000/v1")),
        ("With a key, or for good: a provider in ", Command(str(found["config_file"])), " (the README shows one)"),
    ]
    page: list[Block] = [
        paragraph(Strong(now), " answers in this session."),
        _models_table(models),
        *_tags_table(models),
        Bullets(ways),
    ]
    if found["config_error"]:
        page.append(paragraph(Strong("The configuration was rejected:"), f" {found['config_error']}"))
    for file in found["ignored_config"] if isinstance(found["ignored_config"], list) else []:
        page.append(
            paragraph(
                Command(str(file)), " is not used: nobody has trusted it yet (", Command("ozzie config trust"), ")."
            )
        )
    return page


MODEL = Magic(
    name="model",
    usage=MagicUsage("%model [NAME]", "Lists the models, or chooses the one for this session"),
    run=_model,
    forms=(
        MagicUsage("%model", "Shows the models, and what else was found here"),
        MagicUsage("%model NAME", "Chooses what answers in this session"),
        MagicUsage("%model openai/NAME ADDRESS", "The same, at an OpenAI-compatible address"),
    ),
    examples=("%model openai/gpt-4o-mini", "%model ollama/llama3.2", "%model offline"),
)


def _models_table(models: Sequence[JsonObject]) -> Table:
    """Return every model with its state, and its last call if there were any. The other columns give way to that."""
    rows = [
        (
            str(model["name"]),
            _stands_for(model),
            _state(model),
            cut_columns(str(model.get("health") or ""), _CALL_COLUMNS),
        )
        for model in models
    ]
    flexible = frozenset({0, 1, 2})
    if any(health for *_, health in rows):
        return Table(heads=("Name", "Model", "", "Last call"), rows=rows, flexible=flexible)
    return Table(heads=("Name", "Model", ""), rows=[row[:3] for row in rows], flexible=flexible)


def _stands_for(model: JsonObject) -> str:
    return f"= {model['model']}" if model["driver"] == "alias" else f"{model['driver']}/{model['model']}"


def _tags_table(models: Sequence[JsonObject]) -> list[Block]:
    """Return the tags of the models that have any; the main table has no room for them."""
    tagged = [(str(model["name"]), tag_words(tags)) for model in models if isinstance(tags := model.get("tags"), dict)]
    rows = [row for row in tagged if row[1]]
    return [Table(heads=("Name", "Tags"), rows=rows, flexible=frozenset({0, 1}))] if rows else []


def _state(model: JsonObject) -> str:
    """Return why a model can't be used; else whether it is the default, and the source of its key."""
    if model["missing"]:
        return str(model["missing"])
    place = model.get("key")
    # The others are places; this is a program.
    key = f"key from {'' if place == 'Claude Code' else 'the '}{place}" if place else ""
    return ", ".join(filter(None, ["default" if model["is_default"] else "", key]))


async def _skills(argument: str, host: Host) -> Sequence[Block]:
    if argument:
        raise InputError("%skills takes no arguments.", hint="Run one with `%run NAME key=value`.", code="magic.usage")
    return skills_page(await host.ask("skills.list"))


def skills_page(found: JsonObject) -> list[Block]:
    """Return the skills and prompts that can be run, then why others are not used."""
    every = objects(found["skills"])
    rows = [(Command(f"%run {each['called']}"), str(each["description"])) for each in every if each["used"]]
    unused = [each for each in every if not each["used"]]
    wrong: list[Sequence[Inline]] = [(f"{each['problem']} {each['hint']}".strip(),) for each in unused]
    rows += [
        (Command(f"%run {each['called']}"), f"{each['description']} (a prompt of {each['server']})".strip())
        for each in objects(found.get("prompts"))
    ]
    page: list[Block] = [Table(heads=("Run it", "What it does"), rows=rows, flexible=frozenset({0, 1}))]
    if not rows:
        page = [
            paragraph("There is no skill yet. A file of yours goes into the folder ", Command("skills"), " of Ozzie.")
        ]
    if wrong:
        page += [paragraph("Not used:"), Bullets(wrong)]
    return page


async def _run(argument: str, host: Host) -> Sequence[Block]:
    raise InputError("Which skill? Write %run NAME key=value.", hint="%skills lists them.")


SKILLS = Magic(
    name="skills",
    usage=MagicUsage("%skills", "Lists what can be run with %run, and why others are not used"),
    run=_skills,
)

RUN = Magic(
    name="run",
    usage=MagicUsage("%run NAME KEY=VALUE", "Runs a skill, or a prompt of an MCP server"),
    run=_run,
    forms=(
        MagicUsage("%run NAME KEY=VALUE", "Runs a skill"),
        MagicUsage("%run SERVER:PROMPT KEY=VALUE", "Has a prompt of an MCP server answered"),
    ),
    examples=('%run researcher "who sells tea in Bern"', '%run code-review target=src focus="error handling"'),
)


async def _replay(argument: str, host: Host) -> Sequence[Block]:
    raise InputError("Put %replay into a separate cell.", hint="`%help replay` explains it.")


REPLAY = Magic(
    name="replay",
    usage=MagicUsage("%replay [TITLE]", "Steps through a recorded session, or checks it"),
    run=_replay,
    forms=(
        MagicUsage("%replay", "Steps through this session, event by event"),
        MagicUsage("%replay TITLE --turn 3", "Steps through another one, from a turn on"),
        MagicUsage("%replay --check [TITLE]", "Runs it again from its record, and compares"),
        MagicUsage("%replay --check --policy FILE", "The same with other rules"),
        MagicUsage("%replay --check --prompt FILE", "The same with another SOUL.md"),
        MagicUsage("%replay --check --skill FILE", "The same with a changed skill"),
    ),
    examples=("%replay", "%replay Prices in May --turn 2", "%replay --check --until 3"),
)


async def _parameter(argument: str, host: Host) -> Sequence[Block]:
    parameters = host.parameters
    if argument:
        name, value = read(argument)
        parameters.set(name, value)
        return [paragraph(Command(f"{{{name}}}"), " in a message stands for ", Command(shown(value)), " from now on.")]
    if not parameters.values:
        return [paragraph("There is no parameter yet. Set one: ", Command('%parameter month = "May"'), ".")]
    rows = [(Command(f"{{{name}}}"), shown(value)) for name, value in parameters.values.items()]
    return [Table(heads=("Parameter", "Value"), rows=rows, flexible=frozenset({1}))]


PARAMETER = Magic(
    name="parameter",
    usage=MagicUsage("%parameter [NAME = VALUE]", "Shows the notebook's parameters, or sets one"),
    run=_parameter,
    forms=(
        MagicUsage("%parameter", "Shows those that were set"),
        MagicUsage("%parameter NAME = VALUE", "Sets one: {NAME} in messages, NAME in %%python"),
    ),
    examples=('%parameter month = "May"', "%parameter limit = 3"),
)


PYTHON = MagicUsage("%%python", "Runs the rest of the cell as Python, in this kernel")


async def _help(argument: str, host: Host) -> Sequence[Block]:
    name = argument.strip().lstrip("%")
    if not name:
        return [
            paragraph(
                "A cell is a message to Ozzie. Run it with Shift Enter; stop it with ■ or ", Command("I, I"), "."
            ),
            _table([*(magic.usage for magic in MAGICS.values()), PYTHON]),
            paragraph(
                Command("@data/sales.csv"),
                " in a message names a file of the project, ",
                Command('@"two words.csv"'),
                " one with spaces in its name, ",
                Command("@notes:file:///a.md"),
                " a resource of the MCP server notes. Tab completes them, and commands; ",
                "Shift Tab says what something is.",
            ),
        ]
    if name == "python":
        return [_table([PYTHON])]
    return magic_page(find_magic(name))


def magic_page(magic: Magic) -> list[Block]:
    """Return a command's help: its forms, then examples."""
    forms = magic.forms or (magic.usage,)
    examples = [[Command(example)] for example in magic.examples]
    page: list[Block] = [paragraph(magic.usage.does, "."), _table(forms)]
    if examples:
        page.append(Table(heads=("For example",), rows=examples))
    return page


def _table(forms: Sequence[MagicUsage]) -> Table:
    return Table(
        heads=("Command", "What it does"),
        rows=[(Command(form.text), form.does) for form in forms],
        flexible=frozenset({1}),
    )


MAGICS: dict[str, Magic] = {
    magic.name: magic
    for magic in (
        Magic(
            name="help",
            usage=MagicUsage("%help [COMMAND]", "Lists the commands, or explains one"),
            run=_help,
            examples=("%help session",),
        ),
        session_magic.MAGIC,
        MODEL,
        COST,
        PARAMETER,
        SKILLS,
        RUN,
        REPLAY,
        list_magics.TOOLS,
        list_magics.TASKS,
        list_magics.APPROVALS,
        list_magics.CONFIG,
        list_magics.PIN,
    )
}


def find_magic(name: str) -> Magic:
    """Return the command. Raises InputError for an unknown name, with a suggestion."""
    magic = MAGICS.get(name)
    if magic is None:
        names = ", ".join(f"%{known}" for known in MAGICS)
        raise InputError(
            f"There is no magic %{name}. There are: {names}, %%python.",
            hint=did_you_mean(name, MAGICS, "%"),
            code="magic.unknown",
        )
    return magic


async def run_magic(name: str, argument: str, host: Host) -> Sequence[Block]:
    """Run a command. Raises InputError for an unknown name, and the gateway's errors."""
    return await find_magic(name).run(argument, host)
