"""Keys in the listing of a server: which of them become secrets, under which names."""

import pytest

from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.plugins.manifest import McpText
from ozzie_server_ext.plugins.mcp_file import keys_in
from ozzie_server_ext.plugins.settling import without_keys

KEY = "ghp_" + "a1B2c3D4e5F6" * 3


def started(*args: str, **env: str) -> McpText:
    return McpText(command="server", args=args, env=env)


def remote(**headers: str) -> McpText:
    return McpText(transport="http", url="https://mcp.example.org/", headers=headers)


@pytest.mark.parametrize(
    ("how", "becomes", "keys"),
    [
        (started(GITHUB_TOKEN=KEY), started(GITHUB_TOKEN="${GITHUB_TOKEN}"), {"GITHUB_TOKEN": KEY}),
        (started(API_KEY="abcdefgh"), started(API_KEY="${API_KEY}"), {"API_KEY": "abcdefgh"}),
        (started(MODE="fast"), started(MODE="fast"), {}),
        (started(API_KEY="${MINE}"), started(API_KEY="${MINE}"), {}),
        (started("--token", KEY), started("--token", "${MY_TOOLS_TOKEN}"), {"MY_TOOLS_TOKEN": KEY}),
        (started(f"--api-key={KEY}"), started("--api-key=${MY_TOOLS_API_KEY}"), {"MY_TOOLS_API_KEY": KEY}),
        (started("run", KEY), started("run", "${MY_TOOLS_ARGUMENT_2}"), {"MY_TOOLS_ARGUMENT_2": KEY}),
        (
            remote(Authorization=f"Bearer {KEY}"),
            remote(Authorization="Bearer ${MY_TOOLS_AUTHORIZATION}"),
            {"MY_TOOLS_AUTHORIZATION": KEY},
        ),
        (remote(**{"X-Api-Key": "abcdefgh"}), remote(**{"X-Api-Key": "${MY_TOOLS_X_API_KEY}"}), None),
        (remote(Accept="text/html"), remote(Accept="text/html"), {}),
    ],
)
def test_a_key_becomes_a_secret_with_a_name(how: McpText, becomes: McpText, keys: dict[str, str] | None) -> None:
    found, secrets = without_keys(how, "My Tools")

    assert found == becomes
    assert secrets == ({"MY_TOOLS_X_API_KEY": "abcdefgh"} if keys is None else keys)
    assert list(keys_in(found)) == []


@pytest.mark.parametrize(
    ("how", "where"),
    [
        (McpText(command=f"env TOKEN={KEY} server"), "command"),
        (McpText(transport="http", url=f"https://ana:{KEY}@mcp.example.org/"), "address"),
        (started(f"${{TOKEN:-{KEY}}}"), "arguments"),
        (started(TOKEN=f"${{MINE:-{KEY}}}"), "variables"),
    ],
)
def test_a_key_that_can_not_become_one_is_refused_without_its_value(how: McpText, where: str) -> None:
    with pytest.raises(InputError) as refused:
        without_keys(how, "My Tools")

    assert str(refused.value) == f"Something like a key stands in its {where}."
    assert KEY not in refused.value.hint
