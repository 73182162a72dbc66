"""The `%` commands: what each is called, what its help says, and what it does. Each answers with a page."""

from collections.abc import Sequence

from ozzie_kernel import cost_magic, model_magic, parameter_magic, session_magic, skills_magic
from ozzie_kernel.magic import Host, Magic, Usage, did_you_mean
from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.render.page import Block, Command, Table, paragraph

PYTHON = Usage("%%python", "Runs the rest of the cell as Python, in this kernel")


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
                " one with spaces in its name. Tab completes both, and commands; Shift Tab says what something is.",
            ),
        ]
    if name == "python":
        return [_table([PYTHON])]
    return magic_page(find_magic(name))


def magic_page(magic: Magic) -> list[Block]:
    """A command's help: its forms, then examples."""
    forms = magic.forms or (magic.usage,)
    examples = [[Command(example)] for example in magic.examples]
    page: list[Block] = [paragraph(magic.usage.does, "."), _table(forms)]
    if examples:
        page.append(Table(heads=("For example",), rows=examples))
    return page


def _table(forms: Sequence[Usage]) -> Table:
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
            usage=Usage("%help [COMMAND]", "Lists the commands, or tells more of one"),
            run=_help,
            examples=("%help session",),
        ),
        session_magic.MAGIC,
        model_magic.MAGIC,
        cost_magic.MAGIC,
        parameter_magic.MAGIC,
        skills_magic.MAGIC,
        skills_magic.RUN,
    )
}


def find_magic(name: str) -> Magic:
    """Raises InputError for a name that is none, with the one that may have been meant."""
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
    """The magic's answer. Raises InputError for a name that is none, and what the gateway refuses."""
    return await find_magic(name).run(argument, host)
