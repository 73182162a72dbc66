"""The documents' models and configuration, and the home folder."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ozzie_server_ext.config.jsonc import ConfigError, JsoncError, parse
from ozzie_server_ext.config.settings import ModelsSettings, Settings
from ozzie_server_ext.domain.ids import task_stream
from ozzie_server_ext.domain.toolmeta import (
    Category,
    Idempotency,
    RiskLevel,
    SideEffect,
    ToolMeta,
)
from ozzie_server_ext.models.registry import ModelRegistry
from ozzie_server_ext.models.scripted import Say
from ozzie_server_ext.models.selector import InvalidSelector, parse_selector
from ozzie_server_ext.policy.engine import default_for
from tests.documents.examples_read import configured, jsonc, quoted, text
from tests.integration.tasks.runs_rig import Runs


@pytest.mark.parametrize("name", ["config_models.jsonc", "config_gateway.jsonc"])
def test_a_configuration_is_read_whole(tmp_path: Path, name: str) -> None:
    config = configured(tmp_path, text(name))
    expected = jsonc(name)
    for provider in expected["models"]["providers"].values():
        if "api_key" in provider["auth"]:  # the short form
            provider["auth"] = {"type": "api_key", "env": provider["auth"]["api_key"].strip("${}")}

    assert config.settings.model_dump(mode="json", exclude_unset=True) == expected
    assert config.raw == jsonc(name)


def test_without_a_port_the_gateway_has_the_first_documents_and_not_the_seconds() -> None:
    assert jsonc("config_gateway.jsonc")["gateway"]["port"] == 4242
    assert f"--port {Settings().gateway.port} " in text("commands.sh")


def test_each_kind_of_authentication_is_read_whole(tmp_path: Path) -> None:
    snippets = re.findall(r'"auth": (\{.*?\n\})', text("auth.jsonc"), re.DOTALL)
    kinds: list[Any] = [parse(snippet, "auth.jsonc").value for snippet in snippets]
    providers = {f"p{index}": {"driver": "openai", "model": "m", "auth": auth} for index, auth in enumerate(kinds)}
    found = configured(tmp_path, json.dumps({"models": {"providers": providers}})).settings.models.providers

    assert [each["type"] for each in kinds] == ["api_key", "api_key", "claude_code_token", "oauth2", "none"]
    assert [each.auth.model_dump(mode="json", exclude_unset=True) for each in found.values()] == kinds


def worked_examples() -> Iterator[tuple[str, dict[str, Any], list[str], str]]:
    """Each worked example: its skill, its selector, the models that qualify, and the one that is chosen."""
    operators = {">=": "Gte", "==": "Eq", "∈": "In"}
    for paragraph in text("selector_resolution.txt").split("\n\n"):
        name, *lines = paragraph.strip().splitlines()
        parts = dict(line.strip(" →✓").split(":", 1) for line in lines)
        selector: dict[str, Any] = {}
        for key in ("required", "preferred"):
            found = re.findall(r"(\w+) (>=|==|∈) (\[.*?\]|\"[^\"]*\"|\d+)", parts[key])
            selector[key] = [
                {"key": tag, "op": "In", "values": value.strip("[]").split(", ")}
                if sign == "∈"
                else {"key": tag, "op": operators[sign], "value": json.loads(value)}
                for tag, sign, value in found
            ]
        candidates = re.findall(r"([a-z][a-z-]+)\(", parts["Candidats"])
        yield name.split('"')[1], selector, candidates, parts["Résolu"].strip()


@pytest.mark.parametrize("example", [*worked_examples()], ids=lambda example: example[0])
def test_a_worked_example_of_the_selectors_comes_out_as_written(example: tuple[str, Any, list[str], str]) -> None:
    _, selector, candidates, chosen = example
    models = ModelRegistry(ModelsSettings.model_validate(jsonc("config_models.jsonc")["models"]), {})
    found = models.select(parse_selector(selector))

    assert [each.name.removesuffix("-llm") for each in found.weighed if each.fits] == candidates
    assert found.chosen == chosen


@pytest.mark.parametrize("row", re.findall(r"^\| `(\w+)` \|.*\| (.*) \|$", text("selector_operators.md"), re.MULTILINE))
def test_an_operator_takes_the_kinds_of_values_that_its_row_names(row: tuple[str, str]) -> None:
    operator, kinds = row
    for kind, (value, other) in {"string": ("a", "b"), "number": (1, 2)}.items():
        operand = {"values": [value]} if operator in ("In", "NotIn") else {"value": value}
        selector: Any = {"required": [{"key": "tag", "op": operator, **operand}]}
        if kind not in kinds:
            with pytest.raises(InvalidSelector):
                parse_selector(selector)
            continue
        (constraint,) = parse_selector(selector).required
        assert constraint.failure({"tag": other if operator in ("NotEq", "NotIn") else value}) == ""
        assert constraint.failure({"tag": True}) != "", "a tag of another type is no match"
        assert constraint.failure({"another": value}) == 'it has no tag "tag"'
    if operator in ("Eq", "NotEq"):
        (constraint,) = parse_selector({"required": [{"key": "tag", "op": operator, "value": True}]}).required
        assert constraint.failure({"tag": operator == "Eq"}) == ""
    if operator == "Exists":
        (constraint,) = parse_selector({"required": [{"key": "tag", "op": operator}]}).required
        assert [constraint.failure({key: 1}) for key in ("tag", "another")] == ["", 'it has no tag "tag"']


def test_the_aliases_are_names_for_the_documents_models(tmp_path: Path) -> None:
    names = quoted("model_aliases.md")
    models = jsonc("config_models.jsonc")["models"] | {"aliases": dict.fromkeys(names, "haiku") | {"fallback": "gpt4"}}
    registry = ModelRegistry(configured(tmp_path, json.dumps({"models": models})).settings.models, {})

    chains = {name: [choice.provider for choice in registry.chain(name).choices] for name in names}
    assert chains == {name: ["haiku", "gpt4"] for name in names} | {"fallback": ["gpt4"]}


def test_of_the_plans_keys_those_of_a_folder_and_of_titles_are_unknown(tmp_path: Path) -> None:
    sessions, skills = (re.findall(r"\w+", each) for each in re.findall(r"Config` \(([^:)]*)", text("config_keys.md")))
    assert (sessions, skills) == (["dir", "max_history", "auto_title"], ["dirs"])
    config = configured(tmp_path, '{"sessions": {"max_history": 9}, "skills": {"dirs": ["/more"]}}').settings
    assert (config.sessions.max_history, config.skills.dirs) == (9, ("/more",))

    with pytest.raises(ConfigError) as caught:
        configured(tmp_path, '{"sessions": {"dir": "s", "auto_title": true}}')
    assert [line.split(": ", 1)[1] for line in str(caught.value).splitlines()] == [
        'sessions.dir: unknown key "dir"; did you mean "dirs"?',
        'sessions.auto_title: unknown key "auto_title".',
    ]


def test_a_configuration_in_yaml_is_refused_and_so_are_its_keys_in_json(tmp_path: Path) -> None:
    with pytest.raises(JsoncError) as refused:
        configured(tmp_path, text("system.yaml"))
    assert str(refused.value).endswith("line 1, column 1: expected a value, found 'system:\\n  ti'.")

    tree = yaml.safe_load(text("system.yaml"))
    with pytest.raises(ConfigError) as caught:
        configured(tmp_path, json.dumps(tree))
    assert [line.split(": ", 1)[1] for line in str(caught.value).splitlines()] == [
        'system: unknown key "system"; did you mean "system_prompt"?',
        'provider: unknown key "provider"; did you mean "providers"?',
        'models.router: unknown key "router".',
        'models.planner: unknown key "planner".',
        'models.executor: unknown key "executor".',
        'models.summarizer: unknown key "summarizer".',
        'storage: unknown key "storage".',
        'policy: unknown key "policy".',
    ]


def test_the_models_of_the_yaml_configuration_can_be_said_in_ozzies_words_without_the_key(tmp_path: Path) -> None:
    tree = yaml.safe_load(text("system.yaml"))
    proxy = tree["provider"]["litellm"]
    provider = {"driver": "litellm", "model": "alias/router", "base_url": proxy["base_url"]}
    models: dict[str, Any] = {"providers": {"proxy": provider}, "aliases": dict.fromkeys(tree["models"], "proxy")}
    registry = ModelRegistry(configured(tmp_path, json.dumps({"models": models})).settings.models, {})
    choice = registry.resolve("router")
    assert (choice.driver, choice.model) == ("litellm", tree["models"]["router"])

    provider["auth"] = {"api_key": proxy["api_key"]}
    with pytest.raises(ConfigError, match='"api_key" names an environment variable') as caught:
        configured(tmp_path, json.dumps({"models": models}))
    assert proxy["api_key"] not in str(caught.value)


def meta(**changed: Any) -> ToolMeta:
    given: dict[str, Any] = {"side_effect": SideEffect.NONE, "risk_level": RiskLevel.LOW}
    return ToolMeta(tool_id="a.b", name="b", timeout_s=1, idempotency=Idempotency.SUPPORTED, **given | changed)


def test_the_default_policy_is_built_in_and_asks_for_more() -> None:
    written = yaml.safe_load(text("system.yaml"))["policy"]["default"]
    effects = dict(zip(written, SideEffect, strict=True))

    assert list(written) == ["read_only", "reversible", "irreversible"]
    assert {key: default_for(meta(side_effect=effects[key])).decision.lower() for key in written} == written
    changes = default_for(meta(side_effect=SideEffect.REVERSIBLE, risk_level=RiskLevel.MEDIUM))
    assert (changes.decision, changes.rule) == ("ASK", "default.changes")
    for category in (Category.EXTERNAL_SEND, Category.PAYMENT, Category.DELETE):
        assert default_for(meta(categories=frozenset({category}))).decision == "ASK"


def tree_of(name: str) -> list[str]:
    """The paths of a drawn tree below its first line; folders end with a slash."""
    above: list[str] = []
    found: list[str] = []
    for line in text(name).splitlines()[1:]:
        branch, _, entry = line.partition("── ")
        above = [*above[: (len(branch) - 1) // 4], entry.partition("#")[0].strip()]
        found.append("".join(above))
    return found


async def test_the_home_has_the_folders_and_files_of_the_documents(runs: Runs) -> None:
    root = runs.ozzie.home.root
    (root / ".env").write_text("MANNER=Be brief.\n")
    (root / "SOUL.md").write_text("You are Bert.")
    (root / "config.jsonc").write_text('{"agent": {"system_prompt": "${{ .Env.MANNER }} ${MANNER}"}}')
    driver = runs.ozzie.plays([Say("Bonjour")])
    task_id = await runs.say("hello")
    await runs.rests(task_id)
    runs.ozzie = await runs.ozzie.again()  # a gateway that stops has written all of its files
    (first, *_) = await runs.ozzie.log.read_stream(task_stream(task_id))
    day = f"{first.ts:%Y-%m-%d}"

    prompt = driver.requests[0].messages[0].content
    assert prompt.startswith("You are Bert.\n\nBe brief. Be brief.\n\nYour tools:")
    assert missing(root, tree_of("home_s1.txt")) == []
    written = [path.replace("2026-02-20", day) for path in tree_of("home_s0.txt")]
    assert missing(root, written) == ["data/logs/", f"data/logs/{day}.md", "secrets/"]
    assert missing(root, [f"logs/{day}.md", "logs/app/gateway.jsonl"]) == []
    session_id = (await runs.ozzie.tasks.get(task_id))["session_id"]
    sessions = [path.replace("sess_abc123", str(session_id)) for path in tree_of("sessions_tree.txt")[:4]]
    assert missing(root / "sessions", sessions) == []
    assert missing(root / "events", [tree_of("events_tree.txt")[0].replace("2026-02-21", day)]) == []


def missing(root: Path, paths: list[str]) -> list[str]:
    return [path for path in paths if not ((root / path).is_dir() if path.endswith("/") else (root / path).is_file())]
