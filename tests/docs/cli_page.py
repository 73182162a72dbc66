"""The tables of docs/cli.md, made from the declared commands: `python -m tests.docs.cli_page` writes them."""

from pathlib import Path

from ozzie_server_ext.cli.declared import Argument, Group, Verb
from ozzie_server_ext.cli.verbs import COMMANDS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "cli.md"
_BEGIN, _END = "<!-- commands -->\n", "\n<!-- end -->"


def commands() -> str:
    """One table for each group of commands, and one for those that stand alone."""
    groups = [command for command in COMMANDS if isinstance(command, Group)]
    alone = [command for command in COMMANDS if isinstance(command, Verb)]
    parts = [_table("Commands of one word", "", [("ozzie", verb) for verb in alone])]
    for group in groups:
        before = f"ozzie {group.name}"
        parts.append(_table(before, f"{_sentence(group.about)}\n\n", [(before, verb) for verb in group.verbs]))
    return "\n\n".join(parts)


def with_commands(page: str) -> str:
    """Return the page with the commands as they are declared now. Raises ValueError where it has no place for them."""
    before, rest = page.split(_BEGIN)
    _, after = rest.split(_END)
    return f"{before}{_BEGIN}\n{commands()}\n{_END}{after}"


def _table(title: str, about: str, verbs: list[tuple[str, Verb]]) -> str:
    rows = [
        f"| `{before} {_usage(verb)}` | {_cell(_about(before, verb))} | {_options(verb)} |" for before, verb in verbs
    ]
    return "\n".join([f"## {title}", "", f"{about}| Command | What it does | Options |", "|---|---|---|", *rows])


def _about(before: str, verb: Verb) -> str:
    former = "".join(f" Its former name `{before} {alias}` works too." for alias in verb.aliases)
    return _sentence(verb.about) + former


def _usage(verb: Verb) -> str:
    words = [_placeholder(each) for each in verb.arguments if not each.names[0].startswith("-")]
    return " ".join([verb.name, *words])


def _placeholder(argument: Argument) -> str:
    shown = argument.given.get("metavar") or argument.names[0].upper()
    shown = " ".join(shown) if isinstance(shown, tuple) else str(shown)
    optional = argument.given.get("nargs") in ("?", "*")
    return f"[{shown}]" if optional else shown


def _options(verb: Verb) -> str:
    return "<br>".join(
        f"`{each.names[0]}{_value(each)}`: {_cell(str(each.given.get('help', '')))}"
        for each in verb.arguments
        if each.names[0].startswith("-")
    )


def _value(argument: Argument) -> str:
    if argument.given.get("action"):
        return ""
    return f" {argument.given.get('metavar') or argument.names[0].lstrip('-').upper()}"


def _sentence(about: str) -> str:
    return f"{about[0].upper()}{about[1:]}."


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(with_commands(PAGE.read_text()))
