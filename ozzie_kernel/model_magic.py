"""`%model`: which models there are, and which one answers in this session."""

from collections.abc import Sequence

from ozzie_kernel.magic import Host, Magic, Usage
from ozzie_server_ext.domain.json import JsonObject, objects
from ozzie_server_ext.render.columns import cut_columns
from ozzie_server_ext.render.models import tag_words
from ozzie_server_ext.render.page import Block, Bullets, Command, Inline, Strong, Table, paragraph

_CALL_COLUMNS = 56
"""More than the words for the end of a call take."""


async def _model(argument: str, host: Host) -> Sequence[Block]:
    if not argument:
        return model_page(await host.ask("models.list"), await host.ask("session.open"))
    # At any blank: a key behind a tab must not become part of the name, which is recorded.
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
    """What `models.list` tells, and how to connect what is not connected yet."""
    now = str(session["model"]) or str(found["default"])
    models = objects(found["models"])
    ways: list[Sequence[Inline]] = [
        (f"{offer['found']}. To use it: ", Command(f"%model {offer['choose']}")) for offer in objects(found["offers"])
    ]
    ways += [
        ("A local Ollama: ", Command("%model ollama/NAME"), ", for example ", Command("%model ollama/llama3.2")),
        (
            "Any OpenAI-compatible address without a key: ",
            Command("%model openai/NAME http://localhost:8000/v1"),
        ),
        ("With a key, or for good: a provider in ", Command(str(found["config_file"])), " (the README shows one)"),
    ]
    page: list[Block] = [
        paragraph(Strong(now), " answers in this session."),
        _models_table(models),
        *_tags_table(models),
        Bullets(ways),
    ]
    if found["config_error"]:
        page.append(paragraph(Strong("The configuration was not taken:"), f" {found['config_error']}"))
    for file in found["ignored_config"] if isinstance(found["ignored_config"], list) else []:
        page.append(
            paragraph(
                Command(str(file)), " is not used: nobody has trusted it yet (", Command("ozzie config trust"), ")."
            )
        )
    return page


MAGIC = Magic(
    name="model",
    usage=Usage("%model [NAME]", "Shows which models there are, or chooses what answers here"),
    run=_model,
    forms=(
        Usage("%model", "Shows the models, and what else was found here"),
        Usage("%model NAME", "Chooses what answers in this session"),
        Usage("%model openai/NAME ADDRESS", "The same, at an OpenAI-compatible address"),
    ),
    examples=("%model openai/gpt-4o-mini", "%model ollama/llama3.2", "%model offline"),
)


def _models_table(models: Sequence[JsonObject]) -> Table:
    """Every model with its state, and how its last call ended, once there were calls. The others give way to that."""
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
    """The tags of those that have any; beside the rest they would not fit."""
    told = [(str(model["name"]), tag_words(tags)) for model in models if isinstance(tags := model.get("tags"), dict)]
    rows = [row for row in told if row[1]]
    return [Table(heads=("Name", "Tags"), rows=rows, flexible=frozenset({0, 1}))] if rows else []


def _state(model: JsonObject) -> str:
    """Why a model can't be used; else whether it is the default, and where its key comes from."""
    if model["missing"]:
        return str(model["missing"])
    place = model.get("key")
    # The others are places; this is a program's name.
    key = f"key from {'' if place == 'Claude Code' else 'the '}{place}" if place else ""
    return ", ".join(filter(None, ["default" if model["is_default"] else "", key]))
