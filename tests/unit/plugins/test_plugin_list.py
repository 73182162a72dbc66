"""Which plugins count in a project, and what they require."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.errors import NotFound
from ozzie_server_ext.plugins.capabilities import Wish
from ozzie_server_ext.plugins.effects import Effect
from ozzie_server_ext.plugins.manifest import Manifest
from ozzie_server_ext.plugins.plugin_list import Plugins, SaidTool, SettledPlugin, effect_of, plugins_of
from ozzie_server_ext.plugins.requirements import unmet
from tests.wasm_rig import Wat, plugin_folder

CODE = Wat().returns("go", "1").code
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def found(tmp_path: Path) -> Plugins:
    return plugins_of(Home(tmp_path / "home"), tmp_path / "project")


def states(tmp_path: Path) -> dict[str, str]:
    return {f"{each.origin} {each.name}": each.state for each in found(tmp_path).plugins if each.origin != "shipped"}


def test_a_plugin_is_found_where_it_lies_and_the_users_own_counts_first(tmp_path: Path) -> None:
    plugin_folder(tmp_path / "home/plugins/one", CODE, name="one")
    plugin_folder(tmp_path / "project/.ozzie/plugins/one", CODE, name="one")
    plugin_folder(tmp_path / "project/.ozzie/plugins/two", CODE, name="two")
    (tmp_path / "home/plugins/broken").mkdir()
    (tmp_path / "home/plugins/broken/manifest.jsonc").write_text("{")
    (tmp_path / "home/plugins/no-plugin").mkdir()

    assert states(tmp_path) == {
        "yours one": "new",
        "yours broken": "broken",
        "project one": "shadowed",
        "project two": "new",
    }
    with pytest.raises(NotFound, match="There is no plugin `three`"):
        found(tmp_path).find("three")


def test_the_same_bytes_under_another_name_are_another_plugin(tmp_path: Path) -> None:
    """As YAML they may say something else."""
    folder = plugin_folder(tmp_path / "home/plugins/one", CODE, name="one")
    before = found(tmp_path).find("one").found
    (folder / "manifest.jsonc").rename(folder / "manifest.yaml")
    after = found(tmp_path).find("one").found

    assert before is not None
    assert after is not None
    assert before.digest != after.digest


def test_names_that_make_the_same_id_are_one_name(tmp_path: Path) -> None:
    plugin_folder(tmp_path / "home/plugins/a", CODE, name="my-plugin")
    plugin_folder(tmp_path / "project/.ozzie/plugins/b", CODE, name="my.plugin")

    assert states(tmp_path) == {"yours my-plugin": "new", "project my.plugin": "shadowed"}


@pytest.mark.parametrize(
    ("granted", "effect"),
    [
        ((), Effect.READS),
        (("kv", "log", "secret:KEY", "env:LANG", "config", "fs_read:data"), Effect.READS),
        (("http:GET a.example", "http:HEAD a.example"), Effect.READS),
        (("http:GET a.example", "http:POST a.example"), None),
        (("fs_write:results",), None),
    ],
)
def test_what_a_tool_does_follows_from_what_was_granted(granted: tuple[str, ...], effect: Effect | None) -> None:
    settled = SettledPlugin(digest="x", granted_at=NOW, granted=granted)

    assert effect_of("go", settled) is effect


def test_what_a_person_says_of_a_tool_counts_more() -> None:
    settled = SettledPlugin(digest="x", granted_at=NOW, tools={"go": SaidTool(effect=Effect.SENDS)})

    assert effect_of("go", settled) is Effect.SENDS
    assert effect_of("other", settled) is Effect.READS


@pytest.mark.parametrize("text", ["kv", "http:GET *.a.example", "http:POST *", "secret:A_B", "fs_read:a/b", "config"])
def test_a_recorded_wish_is_read_as_it_was_written(text: str) -> None:
    assert str(Wish.of(text)) == text


def test_something_that_is_no_wish_is_refused() -> None:
    with pytest.raises(ValueError, match="is nothing that a plugin asks for"):
        Wish.of("shell:rm")


def manifest(name: str, *requires: str, provides: tuple[str, ...] = (), version: str = "1.0.0") -> Manifest:
    return Manifest(name=name, version=version, requires=requires, provides=provides)


def missing(*manifests: Manifest) -> dict[str, str]:
    return unmet({each.name: each for each in manifests})


def test_a_requirement_is_met_by_ozzie_or_by_another_plugin() -> None:
    one = manifest("one", "core>=0.0.1", "provider.litellm", "two>=1.2", "channel.send")
    two = manifest("two", provides=("channel.send",), version="1.3")

    assert missing(one, two) == {}
    assert missing(one) == {"one": "It requires two>=1.2, which is not there."}


def test_whoever_requires_what_lacks_something_lacks_it_too() -> None:
    chain = [manifest("one", "two"), manifest("two", "three"), manifest("three", "four")]

    assert set(missing(*chain)) == {"one", "two", "three"}


def test_plugins_that_require_one_another_are_no_problem() -> None:
    assert missing(manifest("one", "two"), manifest("two", "one")) == {}


@pytest.mark.parametrize("required", ["core>=99", "two==2.0", "two<1.0.0", "two>1.0.0"])
def test_another_version_does_not_do(required: str) -> None:
    assert set(missing(manifest("one", required), manifest("two"))) == {"one"}


def test_a_version_that_is_none_meets_no_version() -> None:
    assert missing(manifest("one", "two"), manifest("two", version="x.y")) == {}
    assert set(missing(manifest("one", "two>=0"), manifest("two", version="x.y"))) == {"one"}
