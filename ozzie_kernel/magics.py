"""The `%` commands: name, what `%help` says of it, and what it does. Each answers in Markdown and plain text."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from ozzie_kernel.connect import Link
from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.render.markdown import inert_markdown
from ozzie_server_ext.render.text import visible_label

GetLink = Callable[[], Awaitable[Link]]


@dataclass(frozen=True, slots=True)
class Magic:
    name: str
    usage: str
    does: str
    run: Callable[[str, GetLink], Awaitable[str]]


async def _help(argument: str, link: GetLink) -> str:
    rows = [f"| `{magic.usage}` | {magic.does} |" for magic in MAGICS.values()]
    return "\n".join(
        [
            "A cell is a message to Ozzie. Run it with Shift Enter; stop it with ■ or `I, I`.",
            "",
            "| Command | What it does |",
            "|---|---|",
            *rows,
            "| `%%python` | Runs the rest of the cell as Python, in this kernel |",
        ]
    )


async def _model(argument: str, link: GetLink) -> str:
    connected = await link()
    if not argument:
        return _model_list(
            await connected.client.request("models.list", {}),
            await connected.client.request("session.open", {}),
        )
    name, _, base_url = argument.partition(" ")
    chosen = await connected.client.request("model.choose", {"model": name, "base_url": base_url.strip()})
    if chosen["driver"] == "offline":
        return "The offline script answers in this session. It is not a language model."
    return (
        f"**{_cell(chosen['alias'])}** answers in this session from now on: "
        f"{_cell(chosen['model'])} through {_cell(chosen['provider'])}."
    )


def _model_list(found: JsonObject, session: JsonObject) -> str:
    now = str(session["model"]) or str(found["default"])
    lines = [f"**{_cell(now)}** answers in this session.", "", "| Name | Model | |", "|---|---|---|"]
    for model in _objects(found["models"]):
        state = str(model["missing"]) or ("default" if model["is_default"] else "")
        lines.append(f"| {_cell(model['name'])} | {_cell(model['driver'])}/{_cell(model['model'])} | {_cell(state)} |")
    lines.append("")
    for offer in _objects(found["offers"]):
        lines.append(f"- {_cell(offer['found'])}. To use it: `%model {offer['choose']}`")
    lines += [
        "- A local Ollama: `%model ollama/NAME`, for example `%model ollama/llama3.2`",
        "- Any OpenAI-compatible address without a key: `%model openai/NAME http://localhost:8000/v1`",
        f"- With a key, or for good: a provider in `{found['config_file']}` (the README shows one)",
    ]
    if found["config_error"]:
        lines += ["", f"**The configuration was not taken:** {_cell(found['config_error'])}"]
    for file in found["ignored_config"] if isinstance(found["ignored_config"], list) else []:
        lines += ["", f"`{_cell(file)}` is not used: nobody has trusted it yet (`ozzie config trust`)."]
    return "\n".join(lines)


def _objects(value: Json) -> list[JsonObject]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _cell(value: Json) -> str:
    """A value for a table's cell: one line, nothing in it that Markdown or HTML would obey."""
    return inert_markdown(visible_label(str(value))).strip().replace("|", "\\|").replace("\n", " ")


MAGICS: dict[str, Magic] = {
    magic.name: magic
    for magic in (
        Magic("help", "%help", "This list", _help),
        Magic(
            "model",
            "%model [NAME]",
            "Shows which models there are, or chooses what answers in this session",
            _model,
        ),
    )
}


async def run_magic(name: str, argument: str, link: GetLink) -> str:
    """The magic's answer as Markdown.

    Raises InputError for a name that is none, and what the gateway refuses.
    """
    magic = MAGICS.get(name)
    if magic is None:
        names = ", ".join(f"%{known}" for known in MAGICS)
        raise InputError(f"There is no magic %{name}. There are: {names}, %%python.", code="magic.unknown")
    return await magic.run(argument, link)
