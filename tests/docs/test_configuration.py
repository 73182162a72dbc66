"""Every setting is written down with its default, and the README's example loads."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from ozzie_server_ext.config.home import Home
from ozzie_server_ext.config.loader import load
from ozzie_server_ext.config.settings import ALWAYS_OFFERED, ApiKeyAuth, Settings

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "configuration.md").read_text()
ROWS = {key: said.strip() for key, said in re.findall(r"^\| `([\w.]+)` \|([^|]*)\|", PAGE, re.MULTILINE)}


def keys(model: type[BaseModel], before: str = "") -> Iterator[tuple[str, Any]]:
    """Every key of the tree with its default; a name that users choose stands as NAME."""
    for name, info in model.model_fields.items():
        annotation = info.annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            yield from keys(annotation, f"{before}{name}.")
        elif name in ("providers", "aliases", "upgrade"):
            value = get_args(annotation)[1]
            if isinstance(value, type) and issubclass(value, BaseModel):
                yield from keys(value, f"{before}{name}.NAME.")
            else:
                yield f"{before}{name}.NAME", None
        else:
            yield f"{before}{name}", info.default


def test_every_setting_is_written_down_and_no_other() -> None:
    assert set(ROWS) == {key for key, _ in keys(Settings)}


@pytest.mark.parametrize(
    ("key", "default"),
    [(key, default) for key, default in keys(Settings) if isinstance(default, str | int) and default],
)
def test_the_defaults_that_are_written_down_are_those_in_force(key: str, default: object) -> None:
    assert ROWS[key] == f"`{default}`"


def test_the_tools_that_are_always_offered_are_written_down() -> None:
    said = PAGE.split("- those of `tools.always`:")[1].split("- ")[0]

    assert tuple(re.findall(r"`(\w+)`", said)) == ALWAYS_OFFERED


def test_every_key_of_an_authentication_is_written_down() -> None:
    schema = json.dumps(Settings.model_json_schema()["$defs"])
    kinds = re.findall(r'"const": "(\w+)"', schema)

    assert {"api_key", "none", "oauth2", "claude_code_token"} == set(kinds)
    for word in (*kinds, "client_id_env", "client_secret_env", "token_url", "scopes", "header", "env"):
        assert re.search(rf"[`\"]{word}[`\"]", PAGE), word


def test_the_readmes_example_loads(tmp_path: Path) -> None:
    (example,) = re.findall(r"```jsonc\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    home = Home(tmp_path)
    home.config_file.write_text(example)

    models = load(home, env={}, system_file=tmp_path / "none").settings.models

    assert models.default == "gpt"
    assert models.providers["gpt"].auth == ApiKeyAuth(env="OPENAI_API_KEY")
