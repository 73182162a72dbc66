"""What `%model` says of each model: why it can't be used, or where its key comes from."""

import pytest

from ozzie_kernel.model_magic import model_page
from ozzie_server_ext.render.page import Table


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
    model = {"name": "main", "driver": "openai", "model": "m", "missing": missing, "key": key, "is_default": is_default}
    found = {
        "default": "main",
        "models": [model],
        "offers": [],
        "config_file": "config.jsonc",
        "config_error": "",
        "ignored_config": [],
    }
    (table,) = [block for block in model_page(found, {"model": ""}) if isinstance(block, Table)]

    assert table.rows == [("main", "openai/m", says)]
