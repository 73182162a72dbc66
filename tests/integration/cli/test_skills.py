"""`ozzie skills`: what there is, what is wrong with a file, and whose word it takes to use one of a project's."""

import json
from pathlib import Path

import pytest

from tests.fakes.openai_server import FakeOpenAI
from tests.rig import GatewayHome, new_home, ozzie, start_gateway
from tests.unit.skills.documents import CODE_REVIEW_S3, DEPLOY_S1

MODELS = {"aliases": {"sonnet": "big", "haiku": "small"}, "providers": {
    "big": {"driver": "openai", "model": "b", "tags": {"security": 3}}, "small": {"driver": "openai", "model": "s"},
}}  # fmt: skip
SELECTING = """{"name": "guarded", "model_selector":
  {"required": [{"key": "security", "op": "Gte", "value": 4}]}}"""
BROKEN = '{"name": "bad",\n "modle": "x",\n "tools": ["serch"]}'


@pytest.fixture
def home(tmp_path: Path) -> GatewayHome:
    found = new_home(tmp_path)
    (found.home / "skills").mkdir(exist_ok=True)
    found.configure({"models": MODELS})
    return found


def write(home: GatewayHome, name: str, text: str) -> Path:
    path = home.home / "skills" / f"{name}.jsonc"
    path.write_text(text)
    return path


def write_in_project(home: GatewayHome, name: str, text: str) -> Path:
    folder = home.project / ".ozzie" / "skills"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.jsonc"
    path.write_text(text)
    return path


def test_the_list_says_of_each_what_it_is_whose_it_is_and_why_it_is_not_used(home: GatewayHome) -> None:
    write(home, "code-review", CODE_REVIEW_S3)
    bad = write(home, "bad", '{"name": "bad",\n "modle": "x"}')
    done = ozzie(home, "skills", "list")
    lines = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, "")
    row = next(index for index, line in enumerate(lines) if line.startswith("code-review "))
    assert lines[row].split()[1:] == ["workflow", "of", "5", "steps", "yours"]
    assert lines[row + 1] == "  Automated code review with multiple review legs"
    listed = {each["name"]: each for each in json.loads(ozzie(home, "skills", "list", "--json").stdout)}
    assert (listed["code-review"]["type"], listed["code-review"]["used"]) == ("workflow", True)
    assert listed["bad"]["problem"] == f'{bad}, line 2, column 2: modle: unknown key "modle"; did you mean "model"?'


def test_one_is_shown_with_what_it_takes_and_its_steps(home: GatewayHome) -> None:
    write(home, "code-review", CODE_REVIEW_S3)
    shown = ozzie(home, "skills", "show", "code-review").stdout
    assert '  Called          code-review target=… [focus="all"]\n' in shown
    assert "synthesize: Synthesize review; sonnet; after" in shown
    assert all(len(line) <= 80 or str(home.home) in line for line in shown.splitlines())
    told = json.loads(ozzie(home, "skills", "show", "code-review", "--json").stdout)
    assert told["parameters"]["required"] == ["target"]
    assert told["skill"]["steps"][0]["id"] == "gather-context"


def test_a_check_tells_all_that_is_wrong_with_places_and_fails(home: GatewayHome) -> None:
    good = write(home, "deploy", DEPLOY_S1)
    done = ozzie(home, "skills", "check", str(good))
    assert (done.returncode, done.stdout) == (0, f"{good}: deploy, a workflow of 3 steps. No errors.\n")

    bad, other = write(home, "bad", BROKEN), write(home, "other", '{"name": "o",\n "tools": ["serch"]}')
    done = ozzie(home, "skills", "check")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [
        f'ozzie: {bad}, line 2, column 2: modle: unknown key "modle"; did you mean "model"?',
        f'{other}, line 2, column 12: tools.0: there is no tool "serch"; did you mean "search"?',
        "Correct this and try again.",
    ]


def test_a_check_tells_arguments_that_a_tool_does_not_take(home: GatewayHome) -> None:
    path = write(home, "sum", """{"name": "sum", "type": "workflow", "steps": [
  {"id": "a", "call": {"tool": "calculator", "args": {"exp": "1"}}}]}""")  # fmt: skip
    for words in ((), (str(path),)):
        done = ozzie(home, "skills", "check", *words)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.splitlines() == [
            f'ozzie: {path}, line 2, column 46: steps.0.call.args: the argument "expr" is missing.',
            f'{path}, line 2, column 55: steps.0.call.args.exp: unknown argument "exp"; did you mean "expr"?',
            "Correct this and try again.",
        ]


def test_a_skill_whose_selector_nothing_meets_is_not_used_until_something_does(home: GatewayHome) -> None:
    path = write(home, "guarded", SELECTING)
    trusted = write_in_project(home, "other", SELECTING.replace("guarded", "other"))
    why = f"{path}, line 1, column 21: model_selector: no configured model meets security >= 4."

    listed = {each["name"]: each for each in json.loads(ozzie(home, "skills", "list", "--json").stdout)}
    assert (listed["guarded"]["used"], listed["guarded"]["problem"]) == (False, why)
    for words in (("check",), ("check", str(path)), ("show", "guarded")):
        done = ozzie(home, "skills", *words)
        assert (done.returncode, done.stdout) == (1, "")
        assert f"ozzie: {why}\n" in done.stderr
    done = ozzie(home, "skills", "trust", str(trusted))
    assert (done.returncode, "no configured model meets security >= 4." in done.stderr) == (1, True)

    home.configure({"models": {"providers": {"strict": {"driver": "openai", "model": "b", "tags": {"security": 4}}}}})
    listed = {each["name"]: each for each in json.loads(ozzie(home, "skills", "list", "--json").stdout)}
    assert (listed["guarded"]["used"], listed["guarded"]["problem"]) == (True, "")
    assert ozzie(home, "skills", "trust", str(trusted)).returncode == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("show", "deplyo"), 'There is no skill "deplyo".'),
        (("check", "nowhere.jsonc"), "nowhere.jsonc: does not exist."),
        (("check", "."), "is not a file."),
        (("list", "--project", "nowhere"), "nowhere is not a folder."),
        (("trust", "nowhere.jsonc"), "nowhere.jsonc: is not a skill of this project."),
        (("untrust", "nowhere.jsonc"), "nowhere.jsonc is not trusted."),
    ],
)
def test_what_can_not_be_done_is_said_in_a_sentence(home: GatewayHome, words: tuple[str, ...], says: str) -> None:
    done = ozzie(home, "skills", *words)
    assert done.returncode == 1
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_a_projects_skill_waits_for_a_persons_trust_and_loses_it_with_a_change(home: GatewayHome) -> None:
    path = write_in_project(home, "deploy", DEPLOY_S1)

    def used() -> bool:
        listed = json.loads(ozzie(home, "skills", "list", "--json").stdout)
        return next(each["used"] for each in listed if each["path"] == str(path))

    assert not used()
    assert ozzie(home, "skills", "trust", str(path)).returncode == 0
    assert used()
    path.write_text(DEPLOY_S1.replace("Run tests.", "Delete all."))
    assert not used()
    path.write_text(DEPLOY_S1)
    assert used()
    path.unlink()
    assert ozzie(home, "skills", "untrust", str(path)).returncode == 0
    path.write_text(DEPLOY_S1)
    assert not used()


def test_a_project_can_not_bring_folders_of_skills_that_nobody_trusted(home: GatewayHome) -> None:
    config = home.project / ".ozzie" / "config.jsonc"
    config.parent.mkdir(exist_ok=True)
    config.write_text('{"skills": {"dirs": ["tools"]}}')
    done = ozzie(home, "config", "trust")
    assert done.returncode == 1
    assert "skills: a project can't set this: its skills lie in .ozzie/skills" in done.stderr


def test_more_folders_of_the_users_own_are_looked_into(home: GatewayHome) -> None:
    folder = home.home.parent / "more"
    folder.mkdir()
    (folder / "deploy.jsonc").write_text(DEPLOY_S1)
    home.configure({"skills": {"dirs": [str(folder)]}})
    listed = json.loads(ozzie(home, "skills", "list", "--json").stdout)
    assert [each["path"] for each in listed if each["name"] == "deploy"] == [str(folder / "deploy.jsonc")]


def test_a_run_tells_the_model_tokens_and_cost_of_its_steps(home: GatewayHome, fake_openai: FakeOpenAI) -> None:
    home.use_provider(fake_openai.url, "echo")
    steps = [{"id": "a", "instruction": "One."}, {"id": "b", "instruction": "Two {{steps.a.output}}.", "needs": ["a"]}]
    write(home, "two", json.dumps({"name": "two", "type": "workflow", "steps": steps}))
    with start_gateway(home):
        told = json.loads(ozzie(home, "skills", "run", "two", "--json").stdout)
        shown = ozzie(home, "skills", "run", "two").stdout

    assert (told["status"], told["model"], told["models"]) == ("Done", "echo/echo", ["echo/echo"])
    assert min(told["input_tokens"], told["output_tokens"]) > 0
    assert told["cost_nano_usd"] is None, "the fake provider has no price"
    assert f"{told['input_tokens'] + told['output_tokens']:,} tokens, cost unknown" in shown.splitlines()[-1]
