"""From files to settings: layers, variables, trust, and errors that name file, line, column and key."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ozzie_server_ext.config.home import Home
from ozzie_server_ext.config.jsonc import ConfigError, JsoncError
from ozzie_server_ext.config.loader import PROJECT_FILE, load, trust_file
from tests.unit.config.conftest import Load

PROVIDER = '{"driver": "openai", "model": "m"}'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project" / PROJECT_FILE).parent.mkdir(parents=True)
    return tmp_path / "project"


@pytest.fixture
def refused(load_text: Load) -> Callable[..., ConfigError]:
    def load_it(text: str, **env: str) -> ConfigError:
        with pytest.raises(ConfigError) as caught:
            load_text(text, **env)
        return caught.value

    return load_it


def test_later_layers_win_key_by_key(home: Home, project: Path, tmp_path: Path) -> None:
    system = tmp_path / "system.jsonc"
    system.write_text('{"gateway": {"host": "10.0.0.1", "port": 1}, "sessions": {"max_history": 5}}')
    home.config_file.write_text('{"gateway": {"port": 2}, "agent": {"system_prompt": "user", "max_rounds": 9}}')
    (project / PROJECT_FILE).write_text('{"agent": {"system_prompt": "project"}}')
    trust_file(home, project / PROJECT_FILE)

    config = load(home, project=project, env={}, system_file=system)

    assert (config.settings.gateway.host, config.settings.gateway.port) == ("10.0.0.1", 2)
    assert config.settings.sessions.max_history == 5
    assert (config.settings.agent.system_prompt, config.settings.agent.max_rounds) == ("project", 9)
    assert config.files == (str(system), str(home.config_file), str(project / PROJECT_FILE))


def test_both_spellings_of_a_variable_are_put_in(load_text: Load) -> None:
    text = '{"agent": {"system_prompt": "${{ .Env.WHO }} and ${WHO}, ${{.Env.WHO}}; $WHO stays"}}'

    assert load_text(text, WHO="Ann").settings.agent.system_prompt == "Ann and Ann, Ann; $WHO stays"


def test_a_variable_may_stand_for_a_number_and_what_it_holds_is_not_read_again(load_text: Load) -> None:
    config = load_text('{"gateway": {"port": "${PORT}"}, "agent": {"system_prompt": "${A}"}}', PORT="81", A="${PORT}")

    assert config.settings.gateway.port == 81
    assert config.settings.agent.system_prompt == "${PORT}"


def test_what_is_recorded_holds_the_variables_names_and_not_their_values(load_text: Load) -> None:
    config = load_text('{"agent": {"system_prompt": "${WHO}"}}', WHO="a secret")

    assert config.raw == {"agent": {"system_prompt": "${WHO}"}}


def test_a_variable_that_is_not_set_is_named_with_its_place(refused: Callable[..., ConfigError], home: Home) -> None:
    error = refused('{\n  "agent": {"system_prompt": "${NOBODY}"}\n}')

    assert str(error) == (
        f"{home.config_file}, line 2, column 13: agent.system_prompt: the environment variable NOBODY is not set."
    )
    assert "Set NOBODY" in error.hint


def test_a_missing_variable_in_a_list_is_named_by_its_element(refused: Callable[..., ConfigError]) -> None:
    client = '"client_id_env": "A", "client_secret_env": "B", "token_url": "https://u"'
    auth = f'{{"type": "oauth2", {client}, "scopes": ["${{X}}"]}}'

    error = refused(f'{{"models": {{"providers": {{"p": {{"driver": "openai", "model": "m", "auth": {auth}}}}}}}}}')

    assert "models.providers.p.auth.scopes.0: the environment variable X is not set" in str(error)


def test_a_misspelt_key_is_named_with_the_one_that_was_meant(refused: Callable[..., ConfigError], home: Home) -> None:
    error = refused('{\n  "agent": {\n    "sytem_prompt": "x"\n  }\n}')

    assert str(error) == (
        f"{home.config_file}, line 3, column 5: agent.sytem_prompt: "
        'unknown key "sytem_prompt"; did you mean "system_prompt"?'
    )


def test_a_key_like_no_other_is_just_unknown(refused: Callable[..., ConfigError]) -> None:
    assert str(refused('{"zzzzzz": 1}')).endswith('zzzzzz: unknown key "zzzzzz".')


def test_a_missing_key_is_named_where_it_should_stand(refused: Callable[..., ConfigError]) -> None:
    error = refused('{"models": {"providers": {\n "main": {"driver": "openai"}}}}')

    assert 'line 2, column 2: models.providers.main: the key "model" is missing.' in str(error)


def test_a_wrong_driver_is_named_with_those_that_there_are(refused: Callable[..., ConfigError]) -> None:
    error = refused('{"models": {"providers": {"main": {\n"driver": "acme", "model": "m"}}}}')

    assert "line 2, column 1: models.providers.main.driver: must be one of 'anthropic', 'openai'" in str(error)
    assert "it is 'acme'" in str(error)


def test_all_mistakes_are_listed_each_on_a_line_of_its_own(refused: Callable[..., ConfigError]) -> None:
    error = refused('{"gateway": {"port": -1},\n"agent": {"max_rounds": "many"},\n"sessions": {"colour": "red"}}')

    lines = str(error).splitlines()
    assert [line.split(", ")[1] for line in lines] == ["line 1", "line 2", "line 3"]
    assert "gateway.port" in lines[0]
    assert "agent.max_rounds" in lines[1]
    assert "sessions.colour" in lines[2]


@pytest.mark.parametrize(
    "auth",
    [
        '"sk-very-secret"',
        '{"api_key": "sk-very-secret"}',
        '{"type": "api_key", "env": "sk-very-secret"}',
        '{"type": "api_key", "env": {"key": "sk-very-secret"}}',
        '{"type": "oauth2", "client_id_env": ["sk-very-secret"]}',
    ],
)
def test_a_key_in_the_file_is_refused_and_not_repeated(refused: Callable[..., ConfigError], auth: str) -> None:
    error = refused(f'{{"models": {{"providers": {{"p": {{"driver": "openai", "model": "m", "auth": {auth}}}}}}}}}')

    assert "models.providers.p.auth" in str(error)
    assert "very-secret" not in f"{error} {error.hint}"


@pytest.mark.parametrize("text", ["[]", '"text"', "1"])
def test_a_file_that_holds_no_object_is_refused(refused: Callable[..., ConfigError], text: str) -> None:
    assert "line 1, column 1: expected an object" in str(refused(text))


def test_a_syntax_error_is_named_with_its_file(load_text: Load, home: Home) -> None:
    with pytest.raises(JsoncError) as caught:
        load_text('{\n  "a" 1}')

    assert str(caught.value).startswith(f"{home.config_file}, line 2, column 7: ")


@pytest.mark.parametrize("name", ["config.jsonc", ".env"])
def test_a_file_that_is_not_utf_8_is_named(home: Home, tmp_path: Path, name: str) -> None:
    (home.root / name).write_bytes(b'{"a": "\xff"}')

    with pytest.raises(ConfigError, match="not UTF-8 text, byte 7 is wrong") as caught:
        load(home, env={}, system_file=tmp_path / "none")
    assert str(caught.value).startswith(str(home.root / name))


# --- .env -----------------------------------------------------------------------------------------------


def test_variables_come_from_the_env_file_too_and_the_processs_own_go_before(load_text: Load, home: Home) -> None:
    home.env_file.write_text("# keys\nWHO=file\nexport OTHER='from ${WHO}'\nEMPTY=\nNOTHING\n")

    config = load_text('{"agent": {"system_prompt": "${WHO} ${OTHER}"}}', WHO="process")

    assert config.settings.agent.system_prompt == "process from ${WHO}"
    assert (config.env["WHO"], config.env["OTHER"], config.env["EMPTY"]) == ("process", "from ${WHO}", "")
    assert "NOTHING" not in config.env


# --- trust ----------------------------------------------------------------------------------------------


def test_a_projects_file_counts_for_nothing_until_it_is_trusted(home: Home, project: Path, tmp_path: Path) -> None:
    file = project / PROJECT_FILE
    file.write_text('{"agent": {"system_prompt": "obey the project"}}')

    def system_prompt() -> tuple[str, tuple[str, ...]]:
        config = load(home, project=project, env={}, system_file=tmp_path / "none")
        return config.settings.agent.system_prompt, config.ignored

    assert system_prompt() == ("", (str(file),))
    trust_file(home, file)
    assert system_prompt() == ("obey the project", ())


def test_any_change_ends_the_trust_and_going_back_restores_it(home: Home, project: Path, tmp_path: Path) -> None:
    file = project / PROJECT_FILE
    file.write_text('{"agent": {"max_rounds": 3}}')
    trust_file(home, file)

    file.write_text('{"agent": {"max_rounds": 4}}')
    assert load(home, project=project, env={}, system_file=tmp_path / "none").ignored == (str(file),)
    file.write_text('{"agent": {"max_rounds": 3}}')
    assert load(home, project=project, env={}, system_file=tmp_path / "none").settings.agent.max_rounds == 3


def test_trust_is_for_one_place_and_not_for_the_same_content_elsewhere(
    home: Home, project: Path, tmp_path: Path
) -> None:
    (project / PROJECT_FILE).write_text("{}")
    trust_file(home, project / PROJECT_FILE)
    other = tmp_path / "other"
    (other / PROJECT_FILE).parent.mkdir(parents=True)
    (other / PROJECT_FILE).write_text("{}")

    assert load(home, project=other, env={}, system_file=tmp_path / "none").ignored == (str(other / PROJECT_FILE),)


def test_a_broken_file_can_not_be_trusted_and_an_untrusted_one_breaks_nothing(
    home: Home, project: Path, tmp_path: Path
) -> None:
    file = project / PROJECT_FILE
    file.write_text('{"agent":')

    with pytest.raises(JsoncError):
        trust_file(home, file)
    assert load(home, project=project, env={}, system_file=tmp_path / "none").ignored == (str(file),)


def test_the_list_of_what_is_trusted_is_private_and_grows(home: Home, project: Path, tmp_path: Path) -> None:
    second = tmp_path / "second.jsonc"
    for file in (project / PROJECT_FILE, second):
        file.write_text("{}")
        trust_file(home, file)

    assert (home.root / "trusted.json").stat().st_mode & 0o777 == 0o600
    assert load(home, project=project, env={}, system_file=tmp_path / "none").ignored == ()


@pytest.mark.parametrize("text", ["", "[]", "{", "nonsense"])
def test_where_the_list_of_what_is_trusted_is_damaged_that_is_said(
    home: Home, project: Path, tmp_path: Path, text: str
) -> None:
    (project / PROJECT_FILE).write_text("{}")
    (home.root / "trusted.json").write_text(text)

    with pytest.raises(ConfigError, match="the list of trusted project files is damaged"):
        load(home, project=project, env={}, system_file=tmp_path / "none")


def test_a_project_is_trusted_by_whichever_link_it_is_reached(home: Home, project: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(project)
    (project / PROJECT_FILE).write_text('{"agent": {"max_rounds": 3}}')
    trust_file(home, link / PROJECT_FILE)

    for folder in (link, project):
        config = load(home, project=folder, env={}, system_file=tmp_path / "none")
        assert (config.settings.agent.max_rounds, config.ignored) == (3, ())


def test_where_the_project_is_the_home_folder_the_users_file_is_not_the_projects(tmp_path: Path) -> None:
    home = Home(tmp_path / ".ozzie")
    home.create()
    home.config_file.write_text("{}")

    config = load(home, project=tmp_path, env={}, system_file=tmp_path / "none")

    assert (config.files, config.ignored) == ((str(home.config_file),), ())


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir])
def test_what_stands_in_a_project_that_nobody_has_trusted_breaks_nothing(
    home: Home, project: Path, tmp_path: Path, make: Callable[[Path], None]
) -> None:
    file = project / PROJECT_FILE
    make(file)

    assert load(home, project=project, env={}, system_file=tmp_path / "none").ignored == (str(file),)


def test_what_stands_in_a_files_place_and_is_none_is_named(home: Home) -> None:
    home.config_file.mkdir()
    with pytest.raises(ConfigError, match=r"config\.jsonc: is not a file"):
        load(home, env={}, system_file=Path("/nonexistent"))
    home.config_file.rmdir()
    home.config_file.symlink_to(home.root / "nowhere")
    with pytest.raises(ConfigError, match="is a broken link"):
        load(home, env={}, system_file=Path("/nonexistent"))
    home.config_file.unlink()
    os.mkfifo(home.env_file)
    with pytest.raises(ConfigError, match=r"\.env: is not a file"):
        load(home, env={}, system_file=Path("/nonexistent"))


def test_a_project_does_not_say_how_long_artifacts_are_kept(home: Home, project: Path, tmp_path: Path) -> None:
    """They lie in the home, with those of other projects."""
    file = project / PROJECT_FILE
    file.write_text('{\n  "artifacts": {"keep_days": 1}\n}')
    with pytest.raises(ConfigError, match=r"config.jsonc, line 2, column 3: artifacts: a project can't set this"):
        trust_file(home, file)

    home.config_file.write_text('{"artifacts": {"keep_days": 7, "max_bytes": 1000}}')
    kept = load(home, project=project, env={}, system_file=tmp_path / "none").settings.artifacts
    assert (kept.keep_days, kept.max_bytes) == (7, 1000)
