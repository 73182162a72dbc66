"""Who may see what, and what is taken as a name or a value."""

import pytest

from ozzie_server_ext.vault.errors import BadSecret
from ozzie_server_ext.vault.scope import (
    EVERYBODY,
    MAX_VALUE_BYTES,
    PluginReader,
    ProjectReader,
    Scope,
    checked_name,
    checked_value,
)

PROJECT, PLUGIN = Scope("project", "/w/shop"), Scope("plugin", "telegram")


def test_ozzie_looks_in_its_project_first() -> None:
    assert ProjectReader(project="/w/shop").places("A") == (PROJECT, EVERYBODY)


def test_a_plugin_looks_in_its_own_and_beyond_it_only_for_what_it_was_granted() -> None:
    reader = PluginReader(plugin="telegram", project="/w/shop", granted=frozenset({"A"}))

    assert reader.places("A") == (PLUGIN, PROJECT, EVERYBODY)
    assert reader.places("B") == (PLUGIN,)
    assert PluginReader(plugin="telegram", project="/w/shop").places("A") == (PLUGIN,), "nothing is granted by itself"


@pytest.mark.parametrize("name", ["A", "OPENAI_API_KEY", "_x9", "a" * 128])
def test_a_name_is_that_of_a_variable(name: str) -> None:
    assert checked_name(name) == name


@pytest.mark.parametrize("name", ["", "sk-abc-123", "9A", "A B", "A=sk-1", "É", "a" * 129, "A\n", "../A"])
def test_what_is_no_name_is_refused_and_not_repeated(name: str) -> None:
    with pytest.raises(BadSecret) as caught:
        checked_name(name)

    assert str(caught.value) == "This is not a valid name for a secret."
    assert len(name) < 3 or name not in caught.value.hint


@pytest.mark.parametrize("value", ["x", "ключ ✓ with spaces", "=" * MAX_VALUE_BYTES])
def test_a_value_is_one_line_of_text(value: str) -> None:
    assert checked_value(value).reveal() == value


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("", "The value is empty."),
        ("secret\0", "The value contains a line break or another control character."),
        ("one\ntwo", "The value contains a line break or another control character."),
        ("tab\there", "The value contains a line break or another control character."),
        ("\x1b[31m", "The value contains a line break or another control character."),
        ("a\u2028b", "The value contains a line break or another control character."),
        ("half \ud800", "The value contains a line break or another control character."),
        ("=" * (MAX_VALUE_BYTES + 1), "The value is longer than 65,536 bytes."),
        ("é" * (MAX_VALUE_BYTES // 2 + 1), "The value is longer than 65,536 bytes."),
    ],
)
def test_what_is_no_value_is_refused_and_not_repeated(value: str, says: str) -> None:
    with pytest.raises(BadSecret) as caught:
        checked_value(value)

    assert str(caught.value) == says
    assert len(value) < 3 or value not in caught.value.hint


@pytest.mark.parametrize(
    ("kind", "owner"),
    [
        ("everybody", "x"),
        ("project", ""),
        ("project", "relative"),
        ("project", "/a\nb"),
        ("plugin", ""),
        ("plugin", "a b"),
    ],
)
def test_what_is_no_scope_is_refused(kind: str, owner: str) -> None:
    with pytest.raises(BadSecret, match="A secret belongs to everybody, to a project's folder or to a plugin's name"):
        Scope(kind, owner)  # pyright: ignore[reportArgumentType]
