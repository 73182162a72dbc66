"""The documents' manifests of plugins."""

from pathlib import Path

from ozzie_server_ext.plugins.capabilities import sentences
from ozzie_server_ext.plugins.manifest import Manifest, read_manifest
from tests.documents.examples_read import text


def manifest(name: str, written: str = "") -> Manifest:
    return read_manifest((written or text(name)).encode(), Path(name))


def asks(found: Manifest) -> list[str]:
    return sorted(map(str, found.capabilities.wishes))


def test_a_channel_asks_for_its_host_its_notes_the_log_and_a_secret() -> None:
    found = manifest("plugin_telegram.jsonc")

    assert (found.name, found.level, found.provider) == ("telegram-connector", "communication", "extism")
    assert asks(found) == [
        "http:GET api.telegram.org",
        "http:POST api.telegram.org",
        "kv",
        "log",
        "secret:TELEGRAM_BOT_TOKEN",
    ]
    assert sentences(found.capabilities.wishes) == (
        "It may use the secret `TELEGRAM_BOT_TOKEN`.",
        "It may send what it is given or may read to `api.telegram.org` (GET, POST).",
        "It may keep notes of its own between calls.",
        "It may write into Ozzie's log.",
    )


def test_the_tool_of_a_search_has_a_schema() -> None:
    found = manifest("plugin_duckduckgo.jsonc")
    (tool,) = found.tools

    assert (found.name, found.wasm_file) == ("duckduckgo-search", "duckduckgo-search.wasm")
    assert asks(found) == ["http:GET api.duckduckgo.com", "http:GET duckduckgo.com", "log"]
    assert (tool.name, tool.description) == ("web_search", "Search the web using DuckDuckGo")
    assert tool.schema_of_arguments == {
        "type": "object",
        "properties": {"query": {"type": "string"}, "max_results": {"type": "integer", "default": 5}},
        "required": ["query"],
        "additionalProperties": False,
    }


def test_a_server_of_tools_is_started_by_its_command() -> None:
    found = manifest("plugin_github.jsonc")

    assert found.mcp is not None
    assert (found.mcp.transport, found.mcp.command, found.mcp.args) == (
        "stdio",
        "npx",
        ("-y", "@modelcontextprotocol/server-github"),
    )
    assert found.mcp.env == {"GITHUB_TOKEN": "${{ .Env.GITHUB_TOKEN }}"}
    assert asks(found) == []


def test_without_methods_a_plugin_asks_for_get_alone() -> None:
    found = manifest("plugin_weather.jsonc")

    assert (found.wasm_file, asks(found)) == ("weather.wasm", ["http:GET api.weather.com"])
    assert found.tools[0].schema_of_arguments["required"] == ["city"]


def test_the_blueprints_names_mean_the_same() -> None:
    found = manifest("plugin_channel.yaml", text("plugin_channel.yaml").replace("config_schema:\n  ...\n", ""))

    assert (found.name, found.version, found.level) == ("channel.telegram", "0.1.0", "communication")
    assert found.requires == ("core>=0.1", "provider.litellm")
    assert found.provides == ("channel.ingest", "channel.send")
    assert found.healthcheck is not None
    assert found.healthcheck.url == "http://localhost:9001/health"
    assert asks(found) == []
