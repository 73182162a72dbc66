"""Files of rules: whose count, what is wrong with a broken one, and that nothing in one is ever passed over."""

import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ozzie_server_ext.config.home import Home
from ozzie_server_ext.config.trust import standing, trust
from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.policy.decision import Decision
from ozzie_server_ext.policy.engine import decide
from ozzie_server_ext.policy.files import CLASSES, PROJECT_FILE, Policy, load, read, trust_rules, untrust_rules
from tests.unit.policy.rig import READ, WRITE, action, find

FILE = Path("/home/ana/.ozzie/policy.jsonc")
GOOD: dict[str, Any] = {
    "id": "private",
    "decision": "deny",
    "reason": "Those files are private.",
    "when": {"paths": ["private/**"]},
    "examples": {
        "match": [{"tool": "read_file", "args": {"path": "private/a.txt"}}],
        "no_match": [{"tool": "read_file", "args": {"path": "a.txt"}}],
    },
}


def text_of(*rules: dict[str, Any]) -> bytes:
    return json.dumps({"rules": rules}, indent=1).encode()


@pytest.fixture
def home(tmp_path: Path) -> Home:
    found = Home(tmp_path / "home")
    found.create()
    return found


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project" / PROJECT_FILE).parent.mkdir(parents=True)
    return tmp_path / "project"


def loaded(home: Home, project: Path, system: Path | None = None) -> Policy:
    """Without the classes that come with Ozzie."""
    found = load(home, project, find, system_file=system or home.root / "none")
    return Policy(files=tuple(file for file in found.files if file.path != CLASSES), ignored=found.ignored)


# --- whose rules count ---------------------------------------------------------------------------------------


def test_without_files_there_are_no_rules(home: Home, project: Path) -> None:
    assert loaded(home, project) == Policy()


def test_the_systems_the_users_and_the_trusted_projects_rules_count_together(
    home: Home, project: Path, tmp_path: Path
) -> None:
    system = tmp_path / "system.jsonc"
    system.write_bytes(text_of(GOOD | {"id": "system"}))
    home.policy_file.write_bytes(text_of(GOOD | {"id": "user", "decision": "ask"}))
    (project / PROJECT_FILE).write_bytes(text_of(GOOD | {"id": "project", "decision": "ask"}))
    trust_rules(home, project, find)

    policy = loaded(home, project, system)

    assert [rule.verdict.rule for rule in policy.rules] == ["system", "user", "project"]
    assert [rule.verdict.place for rule in policy.rules] == [
        f"{system}, line 3",
        f"{home.policy_file}, line 3",
        f"{project / PROJECT_FILE}, line 3",
    ]
    assert decide(action(READ, path="private/x"), policy.rules).rule == "system"


def test_a_cloned_projects_rules_count_for_nothing_until_they_are_trusted(home: Home, project: Path) -> None:
    (project / PROJECT_FILE).write_bytes(text_of(GOOD))

    assert loaded(home, project) == Policy(ignored=(project / PROJECT_FILE,))
    trust_rules(home, project, find)
    assert [rule.verdict.rule for rule in loaded(home, project).rules] == ["private"]


def test_what_a_trusted_project_forbade_is_not_allowed_by_changing_its_file(home: Home, project: Path) -> None:
    (project / PROJECT_FILE).write_bytes(text_of(GOOD))
    trust_rules(home, project, find)
    (project / PROJECT_FILE).write_bytes(text_of())

    with pytest.raises(InputError, match="have changed since they were trusted") as refused:
        loaded(home, project)

    assert refused.value.hint == f"Read them, then run: ozzie policy trust {project}"


def remove(project: Path) -> None:
    (project / PROJECT_FILE).unlink()


def rename(project: Path) -> None:
    (project / PROJECT_FILE).rename(project / ".ozzie" / "rules.jsonc")


def move_the_folder(project: Path) -> None:
    (project / ".ozzie").rename(project / "ozzie")


def put_a_file_in_the_place_of_the_folder(project: Path) -> None:
    move_the_folder(project)
    (project / ".ozzie").write_text("")


def put_a_link_in_the_place_of_the_folder(project: Path) -> None:
    move_the_folder(project)
    (project / "empty").mkdir()
    (project / ".ozzie").symlink_to("empty")


def link_to_the_users_own(project: Path) -> None:
    remove(project)
    own = project.parent / "home" / "policy.jsonc"
    own.write_bytes(text_of())
    (project / PROJECT_FILE).symlink_to(own)


def put_a_pipe_there(project: Path) -> None:
    remove(project)
    os.mkfifo(project / PROJECT_FILE)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (remove, "the file is gone"),
        (rename, "the file is gone"),
        (move_the_folder, "the file is gone"),
        (put_a_file_in_the_place_of_the_folder, "the file is gone"),
        (put_a_link_in_the_place_of_the_folder, "the file is gone"),
        (link_to_the_users_own, "have changed since"),
        (put_a_pipe_there, "is not a file"),
    ],
)
def test_a_trusted_project_is_not_rid_of_its_rules_by_what_becomes_of_the_file(
    home: Home, project: Path, change: Callable[[Path], None], said: str
) -> None:
    (project / PROJECT_FILE).write_bytes(text_of(GOOD))
    trust_rules(home, project, find)
    change(project)

    with pytest.raises(InputError, match=said) as refused:
        loaded(home, project)

    if change is remove:
        assert refused.value.hint == (
            f"Put it back. Or, to go on without those rules, run: ozzie policy untrust {project}"
        )
    assert untrust_rules(home, project) == project / PROJECT_FILE
    assert loaded(home, project).rules == ()
    assert untrust_rules(home, project) is None


def test_a_project_is_trusted_by_whichever_link_it_is_reached(home: Home, project: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(project)
    (project / PROJECT_FILE).write_bytes(text_of(GOOD))

    trust_rules(home, link, find)
    assert len(loaded(home, project).rules) == len(loaded(home, link).rules) == 1
    (project / PROJECT_FILE).unlink()
    with pytest.raises(InputError, match="the file is gone"):
        loaded(home, link)
    assert untrust_rules(home, link) is not None
    assert loaded(home, project) == Policy()


def test_where_the_project_is_the_home_folder_the_users_rules_are_not_the_projects(tmp_path: Path) -> None:
    home = Home(tmp_path / ".ozzie")
    home.create()
    home.policy_file.write_bytes(text_of(GOOD | {"decision": "allow"}))

    policy = loaded(home, tmp_path)

    assert (len(policy.files), policy.ignored) == (1, ())
    with pytest.raises(InputError, match="your own"):
        trust_rules(home, tmp_path, find)


def make_a_folder(file: Path) -> None:
    file.mkdir()


def make_a_dangling_link(file: Path) -> None:
    file.symlink_to("nowhere")


def make_20_gigabytes_of_nothing(file: Path) -> None:
    with file.open("wb") as opened:
        opened.truncate(20 << 30)


@pytest.mark.parametrize("make", [os.mkfifo, make_a_folder, make_a_dangling_link, make_20_gigabytes_of_nothing])
def test_whatever_stands_in_a_project_that_nobody_has_trusted_harms_nothing(
    home: Home, project: Path, make: Callable[[Path], None]
) -> None:
    make(project / PROJECT_FILE)

    assert loaded(home, project) == Policy(ignored=(project / PROJECT_FILE,))
    with pytest.raises(InputError, match=r"is not a file|is a broken link|is larger than 4 MiB"):
        trust_rules(home, project, find)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"/a": 1}', "[" * 100_000, "\xff"])
def test_where_the_list_of_what_is_trusted_is_damaged_that_is_said_and_no_rules_are_taken(
    home: Home, project: Path, text: str
) -> None:
    (project / PROJECT_FILE).write_bytes(text_of(GOOD))
    trust_rules(home, project, find)
    home.trusted_file.write_bytes(text.encode("latin-1"))

    with pytest.raises(InputError, match=r"trusted\.json: the list of trusted project files is damaged"):
        loaded(home, project)
    with pytest.raises(InputError, match="damaged"):
        trust_rules(home, project, find)
    assert home.trusted_file.read_bytes() == text.encode("latin-1"), "what was in it is not written over"


def test_a_list_of_what_is_trusted_that_can_not_be_read_is_not_taken_for_none(home: Home, project: Path) -> None:
    home.trusted_file.mkdir()

    with pytest.raises(InputError, match=r"trusted\.json: is not a file"):
        loaded(home, project)


def test_of_many_who_trust_at_once_none_is_forgotten(home: Home, tmp_path: Path) -> None:
    files = [tmp_path / f"{number}" / PROJECT_FILE for number in range(24)]

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda file: trust(home, file, b""), files))

    assert [standing(home, file, b"") for file in files] == ["trusted"] * 24


def test_a_project_can_not_allow_even_where_it_is_trusted(home: Home, project: Path) -> None:
    allows = text_of(GOOD | {"decision": "allow"})
    (project / PROJECT_FILE).write_bytes(allows)

    with pytest.raises(InputError, match="can only check, ask or deny, never allow"):
        trust_rules(home, project, find)

    trust(home, project / PROJECT_FILE, allows)
    with pytest.raises(InputError, match="can only check, ask or deny, never allow"):
        loaded(home, project)


def test_the_version_is_that_of_the_texts_that_count(home: Home, project: Path) -> None:
    home.policy_file.write_bytes(text_of(GOOD))
    before = loaded(home, project).version
    (project / PROJECT_FILE).write_bytes(text_of(GOOD))
    assert loaded(home, project).version == before, "what nobody has trusted changes nothing"
    trust_rules(home, project, find)

    assert len({before, loaded(home, project).version, ""}) == 3


def test_a_rule_may_name_a_tool_that_is_not_here_and_its_author_is_told(home: Home, project: Path) -> None:
    home.policy_file.write_bytes(
        text_of(GOOD | {"when": {"tools": ["fs.raed", "plug.*"]}, "examples": {"match": [{"tool": "plug.in"}]}})
    )

    (file,) = loaded(home, project).files

    assert file.warnings == (
        f"{home.policy_file}, line 3: rule private names the tool fs.raed, which is not here now.",
        f"{home.policy_file}, line 3: rule private names the tool plug.in, which is not here now.",
    )
    assert len(file.rules) == 1


# --- what can't be taken -------------------------------------------------------------------------------------


def without(key: str) -> dict[str, Any]:
    return {name: value for name, value in GOOD.items() if name != key}


def when(**changed: Any) -> dict[str, Any]:
    return GOOD | {"when": changed, "examples": {"match": [{"tool": "a.stranger"}]}}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"{", "line 1, column 2: expected a key in double quotes"),
        (b"[]", "line 1, column 1: expected an object in braces."),
        (b"\xff", "not UTF-8 text, byte 0 is wrong."),
        (b'{"rules": [], "rules": []}', 'the key "rules" appears twice.'),
        (b'{"ruels": []}', 'line 1, column 2: ruels: unknown key "ruels"; did you mean "rules"?'),
        (b'{"rules": [{}]}', 'rules.0: the key "id" is missing.'),
        (text_of(without("reason")), 'rules.0: the key "reason" is missing.'),
        (text_of(without("examples")), 'rules.0: the key "examples" is missing.'),
        (text_of(without("when")), 'rules.0: the key "when" is missing.'),
        (text_of(GOOD | {"examples": {"match": []}}), "rules.0.examples.match: needs at least one."),
        (text_of(GOOD | {"id": "A rule"}), "rules.0.id: may hold small letters, digits"),
        (text_of(GOOD | {"decision": "ALLOW"}), "rules.0.decision: must be one of 'allow', 'check', 'ask' or 'deny'"),
        (text_of(GOOD | {"desicion": "deny"}), 'unknown key "desicion"; did you mean "decision"?'),
        (text_of(when(toools=["x"])), 'unknown key "toools"; did you mean "tools"?'),
        (text_of(when(risks=["extreme"])), "rules.0.when.risks.0: must be one of 'low', 'medium' or 'high'"),
        (
            text_of(when(channels=["user"])),
            "rules.0.when.channels.0: must be one of 'notebook', 'cli', 'page', 'rest' or 'mcp'",
        ),
        (
            text_of(GOOD | {"examples": {"match": [{"tool": "a.stranger", "channel": "telegraph"}]}}),
            "rules.0.examples.match.0.channel: must be one of 'notebook', 'cli', 'page', 'rest' or 'mcp'",
        ),
        (text_of(when(tools=[])), "rules.0.when.tools: needs at least one."),
        (text_of(GOOD, GOOD), "rule private: another rule of this file has the same id."),
        (text_of(when(paths=["/etc/**"])), 'rule private: "/etc/**" matches no path: paths are relative'),
        (text_of(when(paths=["../x"])), 'rule private: "../x" matches no path'),
        (text_of(when(paths=["a/b**"])), 'rule private: in "a/b**", ** stands for whole folders'),
        (text_of(when(paths=["**/x/" * 17])), "rule private: a pattern has at most 32 folders, and one has 34."),
        (
            text_of(*(when(paths=[f"a{n}" for n in range(100)]) | {"id": f"r{each}"} for each in range(21))),
            "has 2,100 patterns; at most 2,000 are taken",
        ),
        (text_of(when(hosts=["https://example.org"])), 'rule private: "https://example.org" is not a host'),
        (text_of(when(commands=[["**"]])), "rule private: a command begins with a program"),
        (text_of(when(commands=[["git", "**", "x"]])), "rule private: ** is allowed only at the end of a command"),
        (text_of(when(projects=["work"])), 'rule private: "work" is not a folder: write it from the root, or with ~.'),
        (text_of(when() | {"decision": "allow"}), "rule private: a rule that allows has to state a condition"),
        (
            text_of(GOOD | {"needs": "browser"}),
            'rule private: "needs" tells how a yes has to come: only a rule with the decision "ask" can say it.',
        ),
        (
            text_of(GOOD | {"decision": "ask", "needs": "step_up"}),
            "needs: must be one of 'cli' or 'browser'; it is 'step_up'.",
        ),
        (
            text_of(GOOD | {"examples": {"match": [{"tool": "read_file", "args": {"path": "public/a"}}]}}),
            "it says that it matches read_file with path 'public/a', and does not: its path is another one.",
        ),
        (
            text_of(GOOD | {"when": {"paths": ["**"]}}),
            "rule private: it says that it does not match read_file with path 'a.txt', and does.",
        ),
        (
            text_of(
                GOOD | {"examples": GOOD["examples"] | {"no_match": [{"tool": "read_file", "args": {"pth": "a.txt"}}]}}
            ),
            "the example read_file with pth 'a.txt' names unknown arguments of that tool: pth.",
        ),
        (
            text_of(GOOD | {"examples": {"match": [{"tool": "read_file", "project": "work"}]}}),
            'rule private: "work" is not a folder',
        ),
    ],
)
def test_a_broken_file_says_where_and_what(content: bytes, said: str) -> None:
    with pytest.raises(InputError) as refused:
        read(FILE, content, find)

    assert str(refused.value).startswith(str(FILE))
    assert said in str(refused.value)
    assert refused.value.hint in (
        "Correct the file there and try again.",
        "Write fewer, for example one for a folder in place of one for each file in it.",
        "",
    )


def test_a_folder_whose_links_lead_in_a_circle_is_named(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")

    with pytest.raises(InputError, match=r"rule private: .*/a\" can't be followed"):
        read(FILE, text_of(when(projects=[str(tmp_path / "a")])), find)


def test_a_broken_file_of_the_users_stops_the_loading_of_all_rules(home: Home, project: Path, tmp_path: Path) -> None:
    system = tmp_path / "system.jsonc"
    system.write_bytes(text_of(GOOD))
    home.policy_file.write_bytes(b"{")

    with pytest.raises(InputError, match=r"policy\.jsonc, line 1"):
        loaded(home, project, system)


def test_a_file_that_can_not_be_read_is_not_taken_for_none(home: Home, project: Path) -> None:
    home.policy_file.symlink_to(home.root / "gone.jsonc")

    with pytest.raises(InputError, match="is a broken link"):
        loaded(home, project)


def test_an_example_with_comments_works_as_it_is_documented(home: Home, project: Path) -> None:
    home.policy_file.write_text(
        """{
          // Notes are mine to change, and Ozzie's to write.
          "rules": [
            {
              "id": "notes",
              "decision": "allow",
              "reason": "Notes are for Ozzie to keep.",
              "when": {"tools": ["fs.write"], "paths": ["notes/**"]},
              "examples": {
                "match": [{"tool": "write_file", "args": {"path": "notes/today.md"}}],
                "no_match": [{"tool": "write_file", "args": {"path": "notes/../thesis.tex"}}],
              },
            },
          ],
        }"""
    )

    rules = loaded(home, project).rules

    assert decide(action(WRITE, path="notes/today.md"), rules).decision is Decision.ALLOW
    assert decide(action(WRITE, path="thesis.tex"), rules).decision is Decision.ASK
