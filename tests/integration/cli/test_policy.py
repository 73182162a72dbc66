"""`ozzie policy` and `ozzie tools`: what the rules say, and what a broken file does to a gateway that runs."""

import json
from pathlib import Path
from typing import Any

import pytest

from ozzie_server_ext.policy.files import PROJECT_FILE
from tests.rig import GatewayHome, new_home, ozzie, start_gateway

SHIPPED_SKILLS = ("code-review", "daily-digest", "daily-report", "incident-analysis", "quick-translate", "researcher")

DOCUMENT = Path(__file__).parents[3] / "docs" / "policy.md"


@pytest.fixture
def home(tmp_path: Path) -> GatewayHome:
    return new_home(tmp_path)


RUN = (
    "These classes of calls run if you asked for them: "
    "class.message, class.own-named, class.own-new, class.file-named, class.payment."
)


def write(home: GatewayHome, *rules: dict[str, Any]) -> None:
    (home.home / "policy.jsonc").write_text(json.dumps({"rules": rules}, indent=1))


def example(rule_id: str) -> str:
    """The example of the document that begins with that rule."""
    texts = [text.split("```")[0] for text in DOCUMENT.read_text().split("```jsonc\n")[1:]]
    (found,) = [text for text in texts if f'"id": "{rule_id}"' in text]
    return found


def rule(rule_id: str, decision: str, **when: Any) -> dict[str, Any]:
    return {
        "id": rule_id,
        "decision": decision,
        "reason": "Those files are private.",
        "when": when,
        "examples": {"match": [{"tool": "read_file", "args": {"path": "private/a"}, "channel": "cli"}]},
    }


def test_the_rules_of_the_document_are_taken_as_they_stand(home: GatewayHome) -> None:
    text = example("private")
    (home.home / "policy.jsonc").write_text(text)

    done = ozzie(home, "policy", "check")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        f"{home.home / 'policy.jsonc'}: 3 rules, all examples hold.",
        "  private (line 3): never runs",
        "  notes (line 14): runs",
        "  ask-for-raw (line 25): asks first",
        RUN,
    ]


def test_the_rule_of_the_document_on_a_second_model_is_taken_and_explained(home: GatewayHome) -> None:
    text = example("notes-checked")
    (home.home / "policy.jsonc").write_text(text)
    note = '{"path": "notes/a.md", "text": ""}'

    checked = ozzie(home, "policy", "check").stdout.splitlines()
    explained = ozzie(home, "policy", "explain", "write_file", note).stdout.splitlines()
    alone = ozzie(home, "policy", "explain", "write_file", note, "--unattended").stdout
    found = json.loads(ozzie(home, "policy", "explain", "write_file", note, "--json").stdout)

    assert checked[1] == "  notes-checked (line 3): is checked first"
    assert explained[0] == "write_file is checked first. Notes may be changed where that was asked for."
    assert alone.startswith("write_file is checked by a second model, and runs unattended only if that approves")
    assert (found["decision"], found["considered"][0]["decision"]) == ("CHECK", "CHECK")


def test_the_rule_of_the_document_on_content_from_outside_is_taken_and_explained(home: GatewayHome) -> None:
    text = example("docs-to-notes")
    (home.home / "policy.jsonc").write_text(text)
    note = '{"path": "notes/a.md", "text": ""}'

    def explained(*more: str) -> list[str]:
        return ozzie(home, "policy", "explain", "write_file", note, *more).stdout.splitlines()

    assert ozzie(home, "policy", "check").returncode == 0
    assert explained("--source", "web:docs.python.org")[1].startswith("  by docs-to-notes in ")
    assert explained("--source", "web:docs.python.org", "--source", "web:evil.example")[:2] == [
        "write_file asks first. It changes something of yours.",
        "  by default.changes",
    ]


def test_a_rule_that_says_nothing_of_sources_is_not_enough_for_content_from_outside(home: GatewayHome) -> None:
    allows = rule("notes", "allow", paths=["notes/**"], tools=["write_file"])
    write(home, {**allows, "examples": {"match": [{"tool": "write_file", "args": {"path": "notes/a"}}]}})
    note = '{"path": "notes/a.md", "text": ""}'

    plain = ozzie(home, "policy", "explain", "write_file", note).stdout.splitlines()
    asked = ozzie(home, "policy", "explain", "write_file", note, "--source", "web:example.org").stdout.splitlines()
    misspelt = ozzie(home, "policy", "explain", "write_file", note, "--source", "example.org")

    assert plain[0].startswith("write_file runs.")
    assert asked[:3] == [
        "write_file asks first. Content from outside may be behind it.",
        "  by floor.outside",
        "  Rule notes would let it run, but does not say which outside content it covers: name fs.write and state "
        '"sources".',
    ]
    assert misspelt.returncode != 0
    assert '"example.org" is not a source: write the kind and the place' in misspelt.stderr


def test_the_rule_of_the_document_on_recipients_is_taken_and_its_tool_is_missed(home: GatewayHome) -> None:
    (home.home / "policy.jsonc").write_text(example("mail-in-the-firm"))

    checked = ozzie(home, "policy", "check")

    assert checked.returncode == 0
    assert checked.stdout.splitlines()[1:] == [
        "  mail-in-the-firm (line 3): runs",
        f"{home.home / 'policy.jsonc'}, line 3: rule mail-in-the-firm names the tool mail.send, which is not here now.",
        RUN,
    ]


def test_a_file_is_tried_on_what_the_log_has(home: GatewayHome) -> None:
    with start_gateway(home):
        assert ozzie(home, "ask", "What is 2+2? Use the calculator.").returncode == 0
    careful = {**rule("careful", "ask", tools=["calculator"]), "reason": "Numbers are checked by a person."}
    careful["examples"] = {"match": [{"tool": "calculator", "args": {"expr": "2+2"}}]}
    file = home.project / "careful.jsonc"
    file.write_text(json.dumps({"rules": [careful]}, indent=1))

    tried = ozzie(home, "policy", "simulate", str(file), "--since", "2020-01-31")
    as_json = json.loads(ozzie(home, "policy", "simulate", str(file), "--json").stdout)
    file.write_text('{"rules": []}')
    same = ozzie(home, "policy", "simulate", str(file), "--since", "2020-01-31")
    none = ozzie(home, "policy", "simulate", str(file), "--since", "2999-01-01")

    assert (tried.returncode, tried.stderr) == (0, "")
    head, row, empty, call, how, total = tried.stdout.splitlines()
    assert head == "CALLS  TOOL              WAS               WITH THIS FILE    RULE"
    assert row == "    1  calculator        runs              asks first        careful (line 3)"
    assert (empty, call.split("  ")[-1]) == ("", "cli")
    assert how == "    calculator (2+2): asks first. Numbers are checked by a person."
    assert total == "Of 1 call of 1 session since 2020-01-31, 1 would be decided differently."
    (change,) = as_json["changes"]
    assert (change["tool"], change["was"]["decision"], change["would"]["rule"]) == ("calculator", "ALLOW", "careful")
    assert same.stdout == "All decisions stay the same: 1 call of 1 session since 2020-01-31.\n"
    assert none.stdout == "No call has been decided since 2999-01-01.\n"


def test_what_can_not_be_tried_is_said_in_a_sentence(home: GatewayHome) -> None:
    (home.project / "rules.jsonc").write_text('{"rules": []}')
    rules = str(home.project / "rules.jsonc")

    without_log = ozzie(home, "policy", "simulate", rules)
    without_file = ozzie(home, "policy", "simulate", str(home.project / "none.jsonc"))
    no_day = ozzie(home, "policy", "simulate", rules, "--since", "yesterday")

    assert [each.returncode for each in (without_log, without_file, no_day)] == [1, 1, 1]
    assert without_log.stderr.endswith("Start Ozzie once; it creates one.\n")
    assert without_file.stderr.startswith(f"ozzie: {home.project / 'none.jsonc'}: does not exist.")
    assert no_day.stderr.startswith("ozzie: yesterday is no day.")


def test_without_rules_that_is_said(home: GatewayHome) -> None:
    done = ozzie(home, "policy", "check")

    assert done.stdout == f"Only Ozzie's built-in rules apply: reading runs, changes ask first.\n{RUN}\n"


def test_a_broken_file_is_named_with_its_line_and_the_status_is_1(home: GatewayHome) -> None:
    (home.home / "policy.jsonc").write_text('{\n "rules": [{"id": "x"}]\n}')

    done = ozzie(home, "policy", "check")

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"ozzie: {home.home / 'policy.jsonc'}, line 2, column 12: rules.0: the key")
    assert done.stderr.endswith("Correct the file there and try again.\n")


def test_a_decision_is_explained_rule_by_rule(home: GatewayHome) -> None:
    write(home, rule("private", "deny", paths=["private/**"]), rule("cli", "ask", channels=["cli"], tools=["fs.*"]))

    denied = ozzie(home, "policy", "explain", "read_file", '{"path": "private/a"}')
    asked = ozzie(home, "policy", "explain", "file_read", '{"path": "b"}', "--json")
    unattended = ozzie(home, "policy", "explain", "fs.list", "--channel", "notebook", "--unattended")
    moving = '{"path": "b", "version": "0123"}'
    never = ozzie(home, "policy", "explain", "fs.trash", moving, "--channel", "page", "--unattended")
    unknown = ozzie(home, "policy", "explain", "fs.list", "--channel", "telegraph")

    file = home.home / "policy.jsonc"
    assert denied.stdout.splitlines() == [
        "read_file never runs. Those files are private.",
        f"  by private in {file}, line 3",
        "  private (line 3): never runs: applies",
        "  cli (line 24): asks first: applies",
    ]
    found = json.loads(asked.stdout)
    assert (found["decision"], found["rule"]) == ("ASK", "cli")
    assert found["considered"][0] == {
        "rule": "private",
        "decision": "DENY",
        "applies": False,
        "why_not": "its path is another one",
    }
    assert never.stdout.startswith("trash_file never runs unattended: it would ask first. It")
    assert (unknown.returncode, "telegraph" in unknown.stderr) == (2, True)
    assert unattended.stdout.splitlines()[:2] == ["list_files runs. It changes nothing.", "  by default.read_only"]


def test_it_is_told_how_a_yes_has_to_come(home: GatewayHome) -> None:
    write(home, {**rule("in-page", "ask", tools=["fs.*"]), "needs": "browser"})

    told = ozzie(home, "policy", "explain", "read_file", '{"path": "b"}').stdout.splitlines()
    found = json.loads(ozzie(home, "policy", "explain", "read_file", '{"path": "b"}', "--json").stdout)
    usual = json.loads(ozzie(home, "policy", "explain", "current_time", "--json").stdout)

    assert told[0] == "read_file asks first. Those files are private."
    assert told[2] == "  approval has to be given in the page"
    assert (found["needs"], usual["needs"]) == ("browser", None)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nonesuch",), "There is no tool nonesuch."),
        (("read_file", "{"), "The arguments are not a JSON object"),
        (("read_file", "{}"), "The arguments of read_file do not fit: path: field required."),
        (("read_file", '{"pth": "a"}'), "pth: extra inputs are not permitted"),
    ],
)
def test_what_can_not_be_explained_is_said_in_a_sentence(home: GatewayHome, words: tuple[str, ...], said: str) -> None:
    done = ozzie(home, "policy", "explain", *words)

    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_projects_rules_are_trusted_by_hand(home: GatewayHome) -> None:
    file = home.project / PROJECT_FILE
    file.parent.mkdir()
    file.write_text(json.dumps({"rules": [rule("private", "deny", paths=["private/**"])]}))

    before = ozzie(home, "policy", "check", "--project", str(home.project))
    trusted = ozzie(home, "policy", "trust", str(home.project))
    after = ozzie(home, "policy", "explain", "read_file", '{"path": "private/a"}', "--project", str(home.project))
    both = [rule(name, "deny", paths=["private/**"]) for name in ("private", "again")]
    file.write_text(json.dumps({"rules": both}))
    more = ozzie(home, "policy", "trust", str(home.project))
    file.write_text('{"rules": []}')
    changed = ozzie(home, "policy", "check", "--project", str(home.project))

    assert before.stdout == f"{file} is not used: nobody has trusted it yet (ozzie policy trust).\n{RUN}\n"
    assert trusted.stdout.startswith(f"The rule in {file} applies from now on, as written. ")
    assert more.stdout.startswith(f"The 2 rules in {file} apply from now on, as written. ")
    assert after.stdout.startswith("read_file never runs.")
    assert changed.returncode == 1
    assert changed.stderr.splitlines() == [
        f"ozzie: {file}: the rules of this project have changed since they were trusted.",
        f"Read them, then run: ozzie policy trust {home.project}",
    ]


def test_rules_that_are_gone_are_let_go_by_hand_and_not_by_a_pull(home: GatewayHome) -> None:
    file = home.project / PROJECT_FILE
    file.parent.mkdir()
    file.write_text(json.dumps({"rules": [rule("private", "deny", paths=["private/**"])]}))
    ozzie(home, "policy", "trust", str(home.project))
    file.unlink()

    gone = ozzie(home, "policy", "check", "--project", str(home.project))
    let_go = ozzie(home, "policy", "untrust", str(home.project))
    after = ozzie(home, "policy", "check", "--project", str(home.project))
    again = ozzie(home, "policy", "untrust", str(home.project))

    assert gone.returncode == 1
    assert gone.stderr.splitlines() == [
        f"ozzie: {file}: the rules of this project were trusted, and the file is gone.",
        f"Put it back. Or, to go on without those rules, run: ozzie policy untrust {home.project}",
    ]
    assert let_go.stdout.startswith(f"{file} is no longer used.")
    assert after.stdout.startswith("Only Ozzie's built-in rules apply")
    assert (again.returncode, "are not trusted" in again.stderr) == (1, True)


def test_a_rule_that_was_made_on_a_card_is_listed_and_taken_back(home: GatewayHome) -> None:
    file = home.home / "standing.jsonc"
    file.write_text(example("standing.notes"))

    listed = ozzie(home, "policy", "check")
    back = ozzie(home, "policy", "revoke", "standing.notes")
    again = ozzie(home, "policy", "revoke", "standing.notes")
    left = ozzie(home, "policy", "check")

    assert listed.stdout.splitlines()[:2] == [
        f"{file}: 1 rule, made on cards.",
        "  standing.notes (line 3): runs. Ana let changes in `notes/` of /home/ana/thesis through on a card on "
        "2026-11-30.",
    ]
    assert back.stdout == "Taken back. Such calls ask again, unless another rule lets them run.\n"
    assert (again.returncode, again.stderr.splitlines()) == (
        1,
        [
            "ozzie: No rule standing.notes was made on a card.",
            "ozzie policy check lists them, below standing.jsonc.",
        ],
    )
    assert left.stdout.splitlines()[0] == f"{file}: 0 rules, made on cards."


def test_a_gateway_that_runs_follows_its_rules_and_says_what_holds_now(home: GatewayHome) -> None:
    with start_gateway(home):
        listed = ozzie(home, "tools", "list").stdout.splitlines()
        write(home, rule("private", "deny", paths=["private/**"]) | {"when": {"tools": ["fs.*", "fs.raed"]}})
        warned = ozzie(home, "status").stdout
        listed_now = ozzie(home, "tools", "list").stdout.splitlines()
        shown = ozzie(home, "tools", "show", "file_read").stdout
        (home.home / "policy.jsonc").write_text("{")
        broken = ozzie(home, "tools", "list").stdout
        status = ozzie(home, "status").stdout
        nonesuch = ozzie(home, "tools", "show", "nonesuch")

    before, after = ([line for line in lines if not line.startswith(" ")] for lines in (listed, listed_now))
    assert max(map(len, listed)) <= 80
    (reading,) = (line for line in before if line.startswith("read_file"))
    assert listed[listed.index(reading) + 1] == "  Read a text file of the project, or a part of it."
    assert "`next` says where to read on, and is null at its end" in shown
    assert [line.split()[:3] for line in before] == [
        ["read_artifact", "artifact.read", "runs"],
        ["calculator", "calc.eval", "runs"],
        ["python", "code.python", "runs"],
        *(["skill_" + name, "delegate." + name.replace("-", "_"), "runs"] for name in SHIPPED_SKILLS),
        ["apply_changes", "fs.apply", "asks"],
        ["edit_file", "fs.edit", "asks"],
        ["find_files", "fs.find", "runs"],
        ["list_files", "fs.list", "runs"],
        ["read_file", "fs.read", "runs"],
        ["search", "fs.search", "runs"],
        ["trash_file", "fs.trash", "asks"],
        ["write_file", "fs.write", "asks"],
        ["host_command", "host.run", "asks"],
        ["inspect_kernel", "kernel.inspect", "runs"],
        ["list_kernels", "kernel.list", "runs"],
        ["run_in_kernel", "kernel.run", "asks"],
        ["read_note", "note.read", "runs"],
        ["write_note", "note.write", "runs"],
        ["delete_cell", "notebook.delete", "asks"],
        ["edit_cell", "notebook.edit", "asks"],
        ["insert_cell", "notebook.insert", "asks"],
        ["move_cell", "notebook.move", "asks"],
        ["read_notebook", "notebook.read", "runs"],
        ["run_cell", "notebook.run", "asks"],
        ["undo_cell_edit", "notebook.undo", "asks"],
        ["ozzie_artifact_read", "session.artifact", "runs"],
        ["ozzie_sessions", "session.list", "runs"],
        ["ozzie_session_read", "session.read", "runs"],
        ["shell", "shell.run", "runs"],
        ["gate", "skill.gate", "runs"],
        ["cancel_task", "task.cancel", "asks"],
        ["list_tasks", "task.list", "runs"],
        ["current_time", "time.now", "runs"],
        ["find_tools", "tool.find", "runs"],
        ["ask_user", "user.ask", "runs"],
        ["fetch_url", "web.fetch", "runs"],
        ["web_search", "web.search", "runs"],
    ]
    names = [line.split()[0] for line in after if line.split()[2] == "never"]
    assert names == [line.split()[0] for line in before if line.split()[1].startswith("fs.")]
    assert [line.split()[:3] for line in after if line.split()[0] not in names] == [
        line.split()[:3] for line in before if line.split()[0] not in names
    ]
    file = home.home / "policy.jsonc"
    assert f"A call        never runs. Those files are private. (rule private in {file}, line 3)" in shown
    assert "path          needed. Relative to the project folder." in shown
    assert f"{file}, line 3: rule private names the tool fs.raed, which is not here now." in warned
    assert broken.count("never runs") == len(before)
    assert "The rules were rejected, so nothing runs:" in broken
    assert broken.endswith("Correct the file there and try again.\n")
    assert f"{file}, line 1, column 2" in status
    assert (nonesuch.returncode, nonesuch.stderr.splitlines()[0]) == (1, "ozzie: There is no tool nonesuch.")


def test_a_turn_is_told_why_a_call_was_refused_and_goes_on(home: GatewayHome) -> None:
    (home.project / "private").mkdir()
    (home.project / "private" / "a.csv").write_text("x\n1\n")
    write(
        home,
        rule("other", "ask", channels=["notebook", "page", "rest"], tools=["fs.*"])
        | {"examples": {"match": [{"tool": "read_file", "args": {"path": "a"}, "channel": "page"}]}},
        rule("private", "deny", channels=["cli"], paths=["private/**"]),
    )
    with start_gateway(home) as gateway:
        done = ozzie(home, "ask", "How many rows has @private/a.csv?", "--json")
        decided = ozzie(home, "events", "tail", "--type", "tool.call.decided", "--json")

    assert done.returncode == 0, (done.stderr, gateway)
    assert "Not allowed: those files are private. Rule private in" in done.stdout
    (event,) = json.loads(decided.stdout)
    body = event["payload"]
    assert (body["decision"], body["rule"], len(body["policy"])) == ("DENY", "private", 16)
