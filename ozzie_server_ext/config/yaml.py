"""Parser for plain YAML that keeps positions, so that errors can name line and column as `config.jsonc` does.

What plain data needs is read, and nothing else: no anchors and aliases (a few of them stand for gigabytes), no tags,
one document. A date stays the text that it was.
"""

from pathlib import Path

import yaml

from ozzie_server_ext.config.jsonc import (
    MAX_CHARS,
    MAX_DEPTH,
    ConfigError,
    Document,
    JsoncError,
    KeyPath,
    SourceLocation,
    text_of,
)
from ozzie_server_ext.domain.json import Json

_PLAIN = {"tag:yaml.org,2002:null", "tag:yaml.org,2002:bool", "tag:yaml.org,2002:int", "tag:yaml.org,2002:float"}
_TEXT = "tag:yaml.org,2002:str"
_AS_TEXT = {_TEXT, "tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:value"}
_MERGE = "tag:yaml.org,2002:merge"


class _Plain(yaml.SafeLoader):
    """Refuses what a text can be blown up with before it is composed."""

    file = ""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = self.peek_event()
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise JsoncError("anchors and aliases are not read: write the value out.", _at(event.start_mark, self.file))
        return super().compose_node(parent, index)


def parse_yaml(content: bytes, file: Path) -> Document:
    """Parse a file's content, which must be a mapping. Raises ConfigError or JsoncError."""
    text, name = text_of(content, file), str(file)
    if len(text) > MAX_CHARS:
        raise JsoncError(f"the file is larger than {MAX_CHARS:,} characters.", SourceLocation(name, 1, 1))
    try:
        loader = _Plain(text)
        loader.file = name
        try:
            node = loader.get_single_node()
            places: dict[KeyPath, SourceLocation] = {}
            value = None if node is None else _value(loader, node, (), places)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = SourceLocation(name, 1, 1) if mark is None else _at(mark, name)
        raise JsoncError(f"this is no YAML: {error.problem or error.context}.", place) from None
    except yaml.YAMLError as error:  # a character that YAML does not have
        raise JsoncError(f"this is no YAML: {str(error).splitlines()[0]}.", SourceLocation(name, 1, 1)) from None
    except RecursionError:
        raise JsoncError(f"is nested more than {MAX_DEPTH} deep.", SourceLocation(name, 1, 1)) from None
    if not isinstance(value, dict):
        raise ConfigError(f"{places.get((), SourceLocation(name, 1, 1))}: expected names with values, as in YAML.")
    return Document(value, places)


def _value(loader: _Plain, node: yaml.Node, path: KeyPath, places: dict[KeyPath, SourceLocation]) -> Json:
    places.setdefault(path, _at(node.start_mark, loader.file))
    if len(path) > MAX_DEPTH:
        raise JsoncError(f"is nested more than {MAX_DEPTH} deep.", places[path])
    match node:
        case yaml.MappingNode() if node.tag == "tag:yaml.org,2002:map":
            return _mapping(loader, node, path, places)
        case yaml.SequenceNode() if node.tag == "tag:yaml.org,2002:seq":
            return [_value(loader, each, (*path, at), places) for at, each in enumerate(node.value)]
        case yaml.ScalarNode() if node.tag in _PLAIN:
            try:
                return loader.construct_object(node)
            except (ValueError, OverflowError):  # such as a number of more than 4,300 digits
                raise JsoncError("this number can't be read.", places[path]) from None
        case yaml.ScalarNode() if node.tag in _AS_TEXT:
            return str(node.value)
        case _:
            raise JsoncError(f"the tag {node.tag} is not read: write plain values.", places[path])


def _mapping(
    loader: _Plain, node: yaml.MappingNode, path: KeyPath, places: dict[KeyPath, SourceLocation]
) -> dict[str, Json]:
    found: dict[str, Json] = {}
    for key, each in node.value:
        place = _at(key.start_mark, loader.file)
        if not isinstance(key, yaml.ScalarNode) or key.tag == _MERGE:
            raise JsoncError("a name must be a plain text.", place)
        name = str(key.value)
        if name in found:
            raise JsoncError(f'the name "{name}" stands here twice.', place)
        places[(*path, name)] = place
        found[name] = _value(loader, each, (*path, name), places)
    return found


def _at(mark: yaml.Mark, file: str) -> SourceLocation:
    return SourceLocation(file, mark.line + 1, mark.column + 1)
