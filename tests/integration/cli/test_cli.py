"""The command line as a user meets it: words, JSON, exit statuses."""

import contextlib
import dataclasses
import io
import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ozzie_server_ext.cli.main import main
from tests.fakes.openai_server import FakeOpenAI
from tests.integration.gateway.test_rest import get, post, until
from tests.rig import Gateway, GatewayHome, ozzie, start_gateway, start_jupyter
from tests.warm import WarmPopen, run_warm


def test_ask_prints_the_answer(shared_gateway: Gateway) -> None:
    done = ozzie(shared_gateway.home, "ask", "What is 17.5 % of 2,480? Use the calculator.")

    assert done.returncode == 0
    assert "434" in done.stdout
    assert "calculator" in done.stdout
    assert done.stderr == ""


def test_ask_as_json_is_one_object(shared_gateway: Gateway) -> None:
    done = ozzie(shared_gateway.home, "ask", "Say hello.", "--json")

    answer = json.loads(done.stdout)
    assert answer["status"] == "Done"
    assert "Offline script" in answer["text"]
    assert answer["cost_nano_usd"] == 0
    assert answer["error"] is None


def test_ask_starts_a_gateway_where_none_runs(home: GatewayHome) -> None:
    done = ozzie(home, "ask", "Say hello.")
    home.stop_gateways()

    assert done.returncode == 0
    assert "Offline script" in done.stdout


def test_ask_of_an_unknown_model_fails_in_words(shared_gateway: Gateway) -> None:
    done = ozzie(shared_gateway.home, "ask", "hello", "--model", "nonesuch")

    assert done.returncode == 1
    assert 'There is no model "nonesuch".' in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_status_tells_how_the_gateway_is(shared_gateway: Gateway) -> None:
    said = ozzie(shared_gateway.home, "status")
    health = json.loads(ozzie(shared_gateway.home, "status", "--json").stdout)

    assert said.returncode == 0
    assert str(shared_gateway.process.pid) in said.stdout
    assert health["status"] == "ok"


def test_status_without_a_gateway_says_how_to_start_one(home: GatewayHome) -> None:
    done = ozzie(home, "status")

    assert done.returncode == 1
    assert "ozzie gateway" in done.stderr
    assert done.stdout == ""


def test_tasks_are_listed_newest_first(shared_gateway: Gateway) -> None:
    ozzie(shared_gateway.home, "ask", "the earlier one")
    ozzie(shared_gateway.home, "ask", "the later one")

    tasks = json.loads(ozzie(shared_gateway.home, "tasks", "list", "--json").stdout)
    said = ozzie(shared_gateway.home, "tasks", "list", "--limit", "1").stdout

    assert [task["title"] for task in tasks[:2]] == ["the later one", "the earlier one"]
    assert "the later one" in said
    assert "the earlier one" not in said


def test_a_limit_out_of_range_is_refused(shared_gateway: Gateway) -> None:
    done = ozzie(shared_gateway.home, "tasks", "list", "--limit", "0")

    assert done.returncode == 1
    assert "limit must be a number from 1 on" in done.stderr


def test_verify_works_while_the_gateway_runs_and_changes_nothing(shared_gateway: Gateway) -> None:
    ozzie(shared_gateway.home, "ask", "hello")

    done = ozzie(shared_gateway.home, "events", "verify")
    after = ozzie(shared_gateway.home, "ask", "hello again")

    assert done.returncode == 0
    assert "The log is what was written" in done.stdout
    assert after.returncode == 0


def test_verify_without_a_log_says_where_it_looked(home: GatewayHome) -> None:
    done = ozzie(home, "events", "verify")

    assert done.returncode == 1
    assert str(home.home) in done.stderr


def test_a_second_gateway_on_the_same_home_says_who_owns_it(gateway: Gateway) -> None:
    second = ozzie(gateway.home, "gateway", "--port", "0")

    assert second.returncode == 1
    assert f"A gateway runs already (process {gateway.process.pid})." in second.stderr
    assert "ozzie gateway --stop" in second.stderr


def test_a_gateway_for_a_while_that_begins_at_the_same_moment_says_who_owns_the_home(gateway: Gateway) -> None:
    command = [sys.executable, "-m", "ozzie_server_ext.programs.gateway", "--port", "0", "--temporary"]
    second = run_warm(command, env=gateway.home.env, cwd=gateway.home.project)

    assert second.returncode == 1
    assert f"belongs to another server already (process {gateway.process.pid})" in second.stderr
    assert "Traceback" not in second.stderr


def test_a_broken_configuration_is_named_with_its_line_and_the_old_one_stays(gateway: Gateway) -> None:
    (gateway.home.home / "config.jsonc").write_text('{\n  "gateway": {"prot": 1}\n}')

    assert ozzie(gateway.home, "ask", "hello").returncode == 0
    said = ozzie(gateway.home, "status").stdout

    assert "config.jsonc, line 2, column 15" in said
    assert 'did you mean "port"?' in said


def test_a_projects_configuration_counts_only_once_it_is_trusted(gateway: Gateway) -> None:
    folder = gateway.home.project / ".ozzie"
    folder.mkdir()
    (folder / "config.jsonc").write_text('{"agent": {"system_prompt": "from the project"}}')
    ozzie(gateway.home, "ask", "hello")
    before = ozzie(gateway.home, "status").stdout

    trusted = ozzie(gateway.home, "config", "trust", str(gateway.home.project))
    ozzie(gateway.home, "ask", "hello")
    after = ozzie(gateway.home, "status").stdout

    assert "nobody has trusted it yet" in before
    assert trusted.returncode == 0
    assert "nobody has trusted it yet" not in after


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"agent": {"prompt": "x"}}', 'unknown key "prompt"'),
        ('{"models": {"default": 3}}', "models.default:"),
        ('{"agent": {"system_prompt": "${OZZIE_NOT_SET}"}}', "the environment variable OZZIE_NOT_SET is not set."),
    ],
)
def test_a_projects_configuration_with_an_error_is_not_trusted(home: GatewayHome, text: str, complaint: str) -> None:
    file = home.project / ".ozzie" / "config.jsonc"
    file.parent.mkdir()
    file.write_text(text)
    done = ozzie(home, "config", "trust", ".")

    assert (done.returncode, done.stdout) == (1, "")
    assert f"{file}, line 1" in done.stderr
    assert complaint in done.stderr
    assert not (home.home / "trusted.json").exists()


def test_interrupting_ask_stops_the_turn(home: GatewayHome) -> None:
    home.configure({"models": {}})
    with start_gateway(home):
        command = [sys.executable, "-m", "ozzie_server_ext.cli.main", "ask", "Say hello and tell me what you are."]
        asking = WarmPopen(
            command, env=dict(home.env), cwd=home.project, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert asking.stdout is not None
        assert asking.stderr is not None
        first = asking.stdout.read(20)
        asking.send_signal(signal.SIGINT)
        rest, errors = asking.communicate(timeout=30)

    assert first.startswith("[working]")
    assert asking.returncode == 1
    assert "[stopped]" in rest
    assert errors == ""


def test_an_interrupt_while_a_loop_is_made_prints_nothing(home: GatewayHome) -> None:
    """The loop is then half made, and Python would say so with a traceback as it goes."""
    code = """
import asyncio.selector_events, sys
def interrupted(self): raise KeyboardInterrupt
asyncio.selector_events.BaseSelectorEventLoop._make_self_pipe = interrupted
from ozzie_server_ext.cli.main import main
sys.argv = ["ozzie", "ask", "hello"]
main()
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=home.env, cwd=home.project, capture_output=True, text=True, timeout=60)

    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def asking(home: GatewayHome, text: str) -> "subprocess.Popen[str]":
    """`ozzie ask`, as soon as its turn runs."""
    command = [sys.executable, "-m", "ozzie_server_ext.cli.main", "ask", text]
    process = WarmPopen(
        command, env=dict(home.env), cwd=home.project, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.read(9) == "[working]"
    return process


@pytest.mark.timeout(120)
def test_ask_goes_on_behind_a_gateway_that_died(home: GatewayHome, fake_openai: FakeOpenAI) -> None:
    home.use_provider(fake_openai.url, "paced-50-50-40")
    with start_gateway(home) as gateway:
        process = asking(home, "tell me")
        assert process.stdout is not None
        began = ""
        while "w3 " not in began:
            began += process.stdout.read(1)
        gateway.kill()
        rest, errors = process.communicate(timeout=90)
    home.stop_gateways()

    assert (process.returncode, errors) == (0, "")
    _, again = rest.split("\nContinued after a restart. Nothing was done twice.\n")
    assert again.splitlines()[0].rstrip() == " ".join(f"w{number}" for number in range(40))
    assert "[done]" in again


def test_a_second_interrupt_ends_ask_though_the_gateway_does_not_answer(
    home: GatewayHome, fake_openai: FakeOpenAI
) -> None:
    home.use_provider(fake_openai.url, "endless")
    with start_gateway(home) as gateway:
        process = asking(home, "go on for ever")
        gateway.process.send_signal(signal.SIGSTOP)
        try:
            # Two that come at the same moment are one; so they are sent until the program has ended.
            for _ in range(40):
                process.send_signal(signal.SIGINT)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(0.25)
                    break
            _, errors = process.communicate(timeout=1)
        finally:
            gateway.process.send_signal(signal.SIGCONT)

    # Where one more came while it was ending already, it is ended by the signal itself.
    assert process.returncode in (130, -signal.SIGINT)
    assert "Traceback" not in errors


def test_a_turn_can_be_stopped_by_its_tasks_id(home: GatewayHome, fake_openai: FakeOpenAI) -> None:
    home.use_provider(fake_openai.url, "endless")
    with start_gateway(home):
        process = asking(home, "go on for ever")
        (task,) = json.loads(ozzie(home, "tasks", "list", "--json").stdout)
        stopped = ozzie(home, "tasks", "cancel", task["task_id"])
        said, _ = process.communicate(timeout=30)
        again = ozzie(home, "tasks", "cancel", task["task_id"], "--json")

    assert (stopped.returncode, stopped.stderr) == (0, "")
    assert task["task_id"] in stopped.stdout
    assert "[stopped]" in said
    assert again.returncode == 1
    assert "has ended already" in again.stderr


def test_what_a_task_waits_to_be_told_is_shown_and_answered(home: GatewayHome) -> None:
    home.configure({"budgets": {"task": {"max_tokens": 1000}}})
    with start_gateway(home) as gateway:
        first, second, third = (
            post(gateway, "message", content=text, wait=True)["task_id"] for text in ("hello", "hello again", "hi")
        )
        asked = ozzie(home, "tasks", "answer", first)
        more = get(gateway, f"tasks/{first}")["question"]["options"][0]["label"]
        shown = ozzie(home, "tasks", "show", first)
        wrong = ozzie(home, "tasks", "answer", first, "yes")
        badly = [ozzie(home, "tasks", "answer", first, "allow", "--amount", amount) for amount in ("lots", "0", "-1")]
        allowed = ozzie(home, "tasks", "answer", first, more.upper(), "--amount", "20000")
        late = ozzie(home, "tasks", "answer", first, "stop")
        nothing = ozzie(home, "tasks", "answer", first)
        until(lambda: get(gateway, f"tasks/{first}")["finished_at"])
        stopped = ozzie(home, "tasks", "answer", second, "stop here", "--json")
        ended = ozzie(home, "tasks", "answer", third, "stop")
        ends = [get(gateway, f"tasks/{task_id}")["status"] for task_id in (first, second, third)]

    assert asked.stdout.splitlines()[0] == "This task has used 0 tokens of its 1,000 tokens."
    assert f"ozzie tasks answer {first} allow" in asked.stdout
    assert asked.stdout in shown.stdout
    assert wrong.returncode == 1
    assert f"There are: allow ({more}), stop (Stop here)." in wrong.stderr
    for each in badly:
        assert (each.returncode, each.stderr) == (1, "ozzie: --amount is a number of tokens above 0.\n")
    assert (allowed.returncode, allowed.stdout) == (0, "The task goes on.\n")
    assert (late.returncode, "Already answered: " in late.stderr) == (1, True)
    assert nothing.stdout == "The task asks no question.\n"
    assert ends == ["SUCCEEDED", "CANCELLED", "CANCELLED"]
    assert ended.stdout == "The task ends.\n"
    assert json.loads(stopped.stdout) == {"answered": second, "option": "stop"}


@pytest.mark.parametrize("task_id", ["none", "../health", "\x1b[31m", "01ARZ3NDEKTSV4RRFFQ69G5FAV"])
def test_a_task_that_there_is_not_can_not_be_stopped(shared_gateway: Gateway, task_id: str) -> None:
    done = ozzie(shared_gateway.home, "tasks", "cancel", task_id)

    assert done.returncode == 1
    assert done.stderr.startswith("ozzie: There is no task")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("ask hi >&-", "Standard output is closed, so nothing can be printed."),
        ("status >&-", "Standard output is closed, so nothing can be printed."),
        ("ask hi >/dev/full", "No space left on device."),
        ("status >/dev/full", "No space left on device."),
        ("ask $'\\xff'", "The message is not UTF-8 text."),
        ("ask - <<< $'\\xff'", "The message is not UTF-8 text."),
        ("ask - <&-", "Standard input is closed."),
        ("ask hi --session $'\\xff'", "The session is not UTF-8 text."),
        ("tasks cancel $'\\xff'", "The task id is not UTF-8 text."),
        ("events tail --type $'\\xff'", "The type is not UTF-8 text."),
        ("--help >/dev/full", "No space left on device."),
        ("tasks list --help >/dev/full", "No space left on device."),
        ("--version >/dev/full", "No space left on device."),
    ],
)
def test_what_the_shell_can_do_to_it_is_told_in_one_sentence(shared_gateway: Gateway, line: str, sentence: str) -> None:
    command = f"{shlex.quote(sys.executable)} -m ozzie_server_ext.cli.main {line}"
    env = dict(shared_gateway.home.env)

    done = subprocess.run(["bash", "-c", command], env=env, capture_output=True, text=True, timeout=60)

    assert done.returncode == 1
    assert done.stderr.splitlines() == [f"ozzie: {sentence}"]


def test_help_needs_no_gateway_and_is_quick_to_import(tmp_path: Path) -> None:
    code = "import sys, ozzie_server_ext.cli.main; print(sorted({m.split('.')[0] for m in sys.modules}))"
    env = {**os.environ, "OZZIE_PATH": str(tmp_path)}

    loaded = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60).stdout

    assert not {"tornado", "jupyter_server", "pydantic", "litellm"} & set(json.loads(loaded.replace("'", '"')))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["nonesuch"], "There is no command 'nonesuch' here, but ask, search, status"),
        (["tasks", "nonesuch"], "There is no command 'nonesuch' here, but list, show, wait, cancel, pause"),
        (["tasks"], "COMMAND"),
        (["tasks", "list", "--limit", "many"], "invalid int value: 'many'"),
        (["ask", "hi", "--nonesuch", "\x1b[31m"], "unrecognized arguments: --nonesuch \\u001b[31m"),
        (["gateway", "--stop", "--detach"], "--stop goes alone"),
        (["gateway", "--json"], "--json goes with --detach or --stop"),
    ],
)
def test_words_that_are_no_command_are_told_in_one_sentence(home: GatewayHome, words: list[str], says: str) -> None:
    done, as_json = ozzie(home, *words), ozzie(home, *words, "--json")

    assert (done.returncode, done.stdout) == (2, "")
    if "--json" not in words:
        assert says in done.stderr
        assert "--help" in done.stderr.splitlines()[-1]
    error = json.loads(as_json.stderr)
    assert error["code"] == "input.usage"
    assert says in error["message"]


def test_errors_are_an_object_where_json_is_asked_for(home: GatewayHome) -> None:
    done = ozzie(home, "status", "--json")

    assert (done.returncode, done.stdout) == (1, "")
    assert json.loads(done.stderr)["code"] == "gateway.not_running"
    assert set(json.loads(done.stderr)) == {"code", "message", "hint"}


def test_what_the_terminals_encoding_lacks_is_shown_escaped(home: GatewayHome) -> None:
    folder = home.project / "caf\u00e9" / ".ozzie"
    folder.mkdir(parents=True)
    (folder / "config.jsonc").write_text("{}")
    ascii_only = dataclasses.replace(home, env={**home.env, "PYTHONIOENCODING": "ascii"})

    done = ozzie(ascii_only, "config", "trust", "caf\u00e9")

    assert (done.returncode, done.stderr) == (0, "")
    assert "caf\\xe9/.ozzie/config.jsonc is now trusted" in done.stdout


def test_without_any_home_folder_it_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(path: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    for variable in ("OZZIE_PATH", "HOME", "JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(Path, "expanduser", none)
    said = io.StringIO()
    for home in ("", "/nonexistent"):
        monkeypatch.setenv("OZZIE_PATH", home)
        with contextlib.redirect_stderr(said), pytest.raises(SystemExit, match="1"):
            main(["status"])

    assert said.getvalue().count("home folder") == 2


def test_jupyter_ozzie_is_the_same_command(shared_gateway: Gateway) -> None:
    folder = str(Path(sys.executable).parent)
    env = {**shared_gateway.home.env, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    command = [f"{folder}/jupyter", "ozzie", "status", "--json"]

    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)

    assert done.returncode == 0
    assert json.loads(done.stdout)["pid"] == shared_gateway.process.pid


def test_a_gateway_with_a_certificate_of_its_own_is_reached(home: GatewayHome, tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"]
    subprocess.run([*made, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True, timeout=60)
    files = (f"--ServerApp.certfile={certificate}", f"--ServerApp.keyfile={key}")

    with start_jupyter(home, *files) as server:
        done = ozzie(home, "status", "--json")
        asked = ozzie(home, "ask", "hello")

    assert server.url.startswith("https://")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["headless"] is False
    assert asked.returncode == 0


@pytest.mark.parametrize("words", [["--help"], ["ask", "--help"], ["tasks", "list", "--help"], ["--version"]])
def test_help_is_there_for_every_command(home: GatewayHome, words: list[str]) -> None:
    done = ozzie(home, *words)

    assert done.returncode == 0
    assert "ozzie" in done.stdout
