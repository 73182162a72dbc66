"""`%skills`: what Ozzie knows how to do, and how each is called."""

from collections.abc import Sequence

from ozzie_kernel.magic import Host, Magic, Usage
from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.json import JsonObject, objects
from ozzie_server_ext.render.page import Block, Bullets, Command, Inline, Table, paragraph


async def _skills(argument: str, host: Host) -> Sequence[Block]:
    if argument:
        raise InputError("%skills takes nothing behind it.", hint="Run one with `%run NAME key=value`.")
    return skills_page(await host.ask("skills.list"))


def skills_page(found: JsonObject) -> list[Block]:
    """What `skills.list` tells: those that can be run, then why others are not used."""
    every = objects(found["skills"])
    rows = [(Command(f"%run {each['called']}"), str(each["description"])) for each in every if each["used"]]
    wrong: list[Sequence[Inline]] = [(_why(each),) for each in every if not each["used"]]
    page: list[Block] = [Table(heads=("Run it", "What it does"), rows=rows, flexible=frozenset({0, 1}))]
    if not rows:
        page = [
            paragraph("There is no skill yet. A file of yours goes into the folder ", Command("skills"), " of Ozzie.")
        ]
    if wrong:
        page += [paragraph("Not used:"), Bullets(wrong)]
    return page


def _why(skill: JsonObject) -> str:
    return " ".join(filter(None, [str(skill["problem"]), str(skill["hint"])]))


async def _run(argument: str, host: Host) -> Sequence[Block]:
    raise InputError("Which skill? Write %run NAME key=value.", hint="%skills lists them.")


MAGIC = Magic(
    name="skills",
    usage=Usage("%skills", "Lists what can be run with %run, and what is wrong with the others"),
    run=_skills,
)

RUN = Magic(
    name="run",
    usage=Usage("%run NAME KEY=VALUE", "Runs a skill: an agent, a workflow or a state machine"),
    run=_run,
    examples=('%run researcher "who sells tea in Bern"', '%run code-review target=src focus="error handling"'),
)
