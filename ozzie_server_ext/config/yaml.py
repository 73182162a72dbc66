"""Parser for plain YAML that keeps positions, so that errors can name line and column as `config.jsonc` does.

What JSON can say is read, and nothing else: no anchors and aliases (a few of them stand for gigabytes), no tags, one
document. Of plain values, true, false, null and JSON's numbers (RFC 8259, section 6) are no texts: a date, `yes` and
`010` stay what they were.
"""

import json
import math
import re
from pathlib import Path

import yaml

from ozzie_server_ext.config.jsonc import (
    MAX_DEPTH,
    ConfigError,
    Document,
    JsoncError,
    KeyPath,
    SourceLocation,
    text_of,
)
from ozzie_server_ext.domain.json import Json

_WORDS: dict[str, Json] = {"true": True, "false": False, "null": None, "~": None, "": None}
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_MOST_DIGITS = 300
MOST_CHARS = 1 << 17
"""Of a file: PyYAML reads some 100,000 characters in a second."""
_SHOWN = 40
"""Characters of a name that an error repeats."""


class _Plain(yaml.SafeLoader):
    """Refuses what a text can be blown up with, and what would be made of it, before it is composed."""

    file = ""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = self.peek_event()
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise JsoncError("anchors and aliases are not read: write the value out.", _at(event.start_mark, self.file))
        if getattr(event, "tag", None) is not None:
            raise JsoncError("tags are not read: write plain values.", _at(event.start_mark, self.file))
        return super().compose_node(parent, index)


def parse_yaml(content: bytes, file: Path) -> Document:
    """Parse a file's content, which must be a mapping. Raises ConfigError or JsoncError."""
    text, name = text_of(content, file), str(file)
    begin = SourceLocation(name, 1, 1)
    if len(text) > MOST_CHARS:
        raise JsoncError(f"the file is larger than {MOST_CHARS:,} characters.", begin)
    places: dict[KeyPath, SourceLocation] = {}
    try:
        node = _composed(text, name)
        value = None if node is None else _value(node, name, (), places)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        why = " ".join(filter(None, [error.context, error.problem]))
        raise JsoncError(f"this is no YAML: {why}.", begin if mark is None else _at(mark, name)) from None
    except yaml.YAMLError as error:  # a character that YAML does not have
        raise JsoncError(f"this is no YAML: {str(error).splitlines()[0]}.", begin) from None
    except (ValueError, OverflowError):  # an escape for no character, a version of 5,000 digits
        raise JsoncError("this is no YAML: it has a character or a number that there is not.", begin) from None
    except RecursionError:
        raise JsoncError(f"is nested more than {MAX_DEPTH} deep.", begin) from None
    if not isinstance(value, dict):
        raise ConfigError(f"{places.get((), begin)}: expected names with values, as in YAML.")
    return Document(value, places)


def _composed(text: str, file: str) -> yaml.Node | None:
    loader = _Plain(text)
    loader.file = file
    try:
        return loader.get_single_node()
    finally:
        loader.dispose()


def _value(node: yaml.Node, file: str, path: KeyPath, places: dict[KeyPath, SourceLocation]) -> Json:
    places.setdefault(path, _at(node.start_mark, file))
    if len(path) > MAX_DEPTH:
        raise JsoncError(f"is nested more than {MAX_DEPTH} deep.", places[path])
    match node:
        case yaml.MappingNode():
            return _mapping(node, file, path, places)
        case yaml.SequenceNode():
            return [_value(each, file, (*path, at), places) for at, each in enumerate(node.value)]
        case yaml.ScalarNode():
            return _scalar(str(node.value), is_plain=node.style is None, place=places[path])
        case _:  # there are three kinds of nodes
            raise JsoncError("this is no plain value.", places[path])


def _mapping(
    node: yaml.MappingNode, file: str, path: KeyPath, places: dict[KeyPath, SourceLocation]
) -> dict[str, Json]:
    found: dict[str, Json] = {}
    for key, each in node.value:
        place = _at(key.start_mark, file)
        if not isinstance(key, yaml.ScalarNode) or (key.style is None and key.value == "<<"):
            raise JsoncError("a name must be a plain text.", place)
        name = _text(str(key.value), place)
        if name in found:
            raise JsoncError(f"the name {name[:_SHOWN]!r} stands here twice.", place)
        places[(*path, name)] = place
        found[name] = _value(each, file, (*path, name), places)
    return found


def _scalar(text: str, *, is_plain: bool, place: SourceLocation) -> Json:
    if is_plain and text in _WORDS:
        return _WORDS[text]
    if is_plain and _NUMBER.fullmatch(text):
        if len(text) > _MOST_DIGITS or not math.isfinite(float(text)):
            raise JsoncError("this number is too large.", place)
        return json.loads(text)
    return _text(text, place)


def _text(text: str, place: SourceLocation) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise JsoncError("half of a character stands here: write it whole.", place) from None
    return text


def _at(mark: yaml.Mark, file: str) -> SourceLocation:
    return SourceLocation(file, mark.line + 1, mark.column + 1)
