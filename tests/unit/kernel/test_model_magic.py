"""What `%model` says of each model: why it can't be used, or where its key comes from."""

import pytest

from ozzie_kernel.magics import model_page
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.render.page import Table, page_text
from ozzie_server_ext.render.text import columns


def listing(*models: JsonObject) -> JsonObject:
    return {
        "default": "main",
        "models": list(models),
        "offers": [],
        "config_file": "config.jsonc",
        "config_error": "",
        "ignored_config": [],
    }


def tables(*models: JsonObject) -> list[Table]:
    return [block for block in model_page(listing(*models), {"model": ""}) if isinstance(block, Table)]


@pytest.mark.parametrize(
    ("missing", "key", "is_default", "says"),
    [
        ("", "", False, ""),
        ("", "", True, "default"),
        ("", "vault", False, "key from the vault"),
        ("", "Claude Code", False, "key from Claude Code"),
        ("", "environment", True, "default, key from the environment"),
        ("KEY is in the vault, which is locked", "vault", True, "KEY is in the vault, which is locked"),
    ],
)
def test_a_model_says_how_it_is(missing: str, key: str, is_default: bool, says: str) -> None:
    model: JsonObject = {"name": "main", "driver": "openai", "model": "m"}
    (table,) = tables({**model, "missing": missing, "key": key, "is_default": is_default})

    assert table.rows == [("main", "openai/m", says)]


PLAIN: JsonObject = {"driver": "openai", "model": "m", "missing": "", "key": "", "is_default": False}


def test_how_the_last_call_ended_stands_beside_each_model_once_there_was_one() -> None:
    (table,) = tables({**PLAIN, "name": "a", "health": "answered 3 min ago"}, {**PLAIN, "name": "b", "health": ""})

    assert [row[3] for row in table.rows] == ["answered 3 min ago", ""]
    assert table.heads[3] == "Last call"
    assert len(tables({**PLAIN, "name": "b", "health": ""})[0].heads) == 3


def test_an_alias_says_which_name_it_stands_for() -> None:
    (table,) = tables({**PLAIN, "name": "fast", "driver": "alias", "model": "main"})

    assert table.rows == [("fast", "= main", "")]


def test_tags_stand_below_with_those_that_have_any() -> None:
    tagged: JsonObject = {**PLAIN, "name": "a", "tags": {"security": 4, "local": True}}
    _, tags = tables(tagged, {**PLAIN, "name": "b", "tags": {}})

    assert tags.rows == [("a", "security 4, local")]


@pytest.mark.parametrize("text", ["x" * 300, "日本語" * 30, "a"])
def test_the_models_fit_in_eighty_columns(text: str) -> None:
    model = {**PLAIN, "name": text, "model": text, "missing": text, "health": text, "tags": {text: text}}

    assert all(columns(line) <= 80 for block in tables(model) for line in page_text([block]).splitlines())


def test_a_usual_row_says_how_the_model_is_whole_in_eighty_columns() -> None:
    row = {"name": "sonnet", "driver": "anthropic", "model": "claude-sonnet-4-6", "key": "vault", "missing": ""}
    text = page_text(tables({**row, "is_default": False, "health": "refused the key 12 min ago"}))

    assert "refused the key 12 min ago" in text
