"""Keys stay where they belong: after a day with every kind of provider, each is found in the vault's file and nowhere.

The search is held to finding things: a word of the user's that did go everywhere has to turn up in each of the places.
"""

import base64
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import nbformat
import psutil
import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook, new_output

from tests.fakes.provider_server import FakeProvider
from tests.fakes.providers import WIRES
from tests.fakes.replies import Refusal
from tests.fakes.token_server import FakeTokenServer, TokenAnswer
from tests.rig import GatewayHome, Kernel, Output, start_jupyter, start_kernel
from tests.traces import Search, program, running

pytestmark = [pytest.mark.cold, pytest.mark.timeout(240)]

IN_VAULT = {
    "OPENAI_KEY": "sk-proj-Vq7Zt3nB9cXw5LmK2rGd8HsJ4fPyQa6E",
    "ANTHROPIC_KEY": "sk-ant-api03-uN4bTq9RzW2xKp7Jd5Vc8Lm3GyHs6Fa",
    "GEMINI_KEY": "AIzaSyD3kQ8wN5tZr2VbX7mJc9LpGf4HsYu6Ea",
    "OLLAMA_KEY": "9wE2rT5yU8iO3pA6sD1fG4hJ7kL0zXcVb",
    "PROXY_KEY": "lp_Hy6Tg3Rf9Ed2Ws5Qa8Zx1Cv4Bn7Mk",
    "COMPATIBLE_KEY": "Jn5Hb8Gv2Fc6Dx9Sz3Aq7Wp4Eo1Ri",
    "CLIENT_ID": "ozzie: 5Gz8Kx2Wm7Qb4Vn9",
    # With every character that some encoding spells in another way.
    "CLIENT_SECRET": 's3cret/+&="%:é<Jt6Rw9Zq2Xv5Bn8Mk',
}
CLAUDE_TOKEN = "sk-ant-oat01-Pz4Yx9Wv2Ut7Sr5Qp8On3Ml6Kj"
ACCESS_TOKEN = "at-Kd82Qm5Vx9Ln3Rz7Wb4Tc6"
PASSPHRASE = "horse staple correct battery"
SECRETS = {**IN_VAULT, "CLAUDE_TOKEN": CLAUDE_TOKEN, "ACCESS_TOKEN": ACCESS_TOKEN, "PASSPHRASE": PASSPHRASE}
PLANTED = "Zebra7Quilt2Marble9Lantern4"
"""What everybody is told."""
SEARCHED = (
    "data/ozzie.db",
    "logs/app/gateway.jsonl",
    "saved.ipynb",
    "unwatched.ipynb",
    "iopub",
    "terminal",
    "environ of ",
    "cmdline of ",
)
"""Where that has to be found."""
WORKER = "ozzie_server_ext.programs.model_worker"


@dataclass(frozen=True)
class Way:
    """How a key reaches a provider: `sent` has to stand in its `header`."""

    wire: str
    auth: Mapping[str, Any]
    header: str
    sent: str
    driver: str = ""


def by_key(name: str, header: str = "") -> dict[str, str]:
    return {"type": "api_key", "vault": name, **({"header": header} if header else {})}


OAUTH2 = {"type": "oauth2", "client_id_env": "CLIENT_ID", "client_secret_env": "CLIENT_SECRET"}
WAYS = {
    "openai": Way("openai", by_key("OPENAI_KEY"), "authorization", f"Bearer {IN_VAULT['OPENAI_KEY']}"),
    "anthropic": Way("anthropic", by_key("ANTHROPIC_KEY"), "x-api-key", IN_VAULT["ANTHROPIC_KEY"]),
    "gemini": Way("gemini", by_key("GEMINI_KEY"), "x-goog-api-key", IN_VAULT["GEMINI_KEY"]),
    "ollama": Way("ollama", by_key("OLLAMA_KEY", "X-Proxy-Key"), "x-proxy-key", IN_VAULT["OLLAMA_KEY"]),
    "proxy": Way("openai", by_key("PROXY_KEY"), "authorization", f"Bearer {IN_VAULT['PROXY_KEY']}", "litellm"),
    "compatible": Way(
        "openai", by_key("COMPATIBLE_KEY", "Api-Key"), "api-key", IN_VAULT["COMPATIBLE_KEY"], "openai-compatible"
    ),
    "corporate": Way("openai", OAUTH2, "authorization", f"Bearer {ACCESS_TOKEN}-1"),
    "claude": Way("anthropic", {"type": "claude_code_token"}, "authorization", f"Bearer {CLAUDE_TOKEN}"),
}


@dataclass
class Providers:
    """One of each kind, and the server that gives tokens for one of them."""

    fakes: Mapping[str, FakeProvider]
    tokens: FakeTokenServer

    def settings(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            name: {
                "driver": way.driver or way.wire,
                "model": "tools",
                "base_url": self.fakes[name].base_url,
                "auth": {**way.auth, **({"token_url": self.tokens.url} if way.auth is OAUTH2 else {})},
            }
            for name, way in WAYS.items()
        }
        return found | {model: {**found["openai"], "model": model} for model in ("echo", "endless")}

    def refuse(self, name: str) -> None:
        """Have a provider refuse the next call, and quote the key in every way that one might."""
        key = ACCESS_TOKEN if name == "corporate" else WAYS[name].sent.removeprefix("Bearer ")
        quoted = f"{key}, {quote(key, safe='')}, {base64.b64encode(f'user:{key}'.encode()).decode()}, {key[3:-3]}"
        words = f"Incorrect API key provided: {quoted}. {PLANTED}"
        # Twice, because a token that is refused is replaced once.
        self.fakes[name].queue(*[Refusal(status=401, message=words, code="invalid_api_key")] * 2)

    def refuse_client(self) -> None:
        """Have a new token asked for, and the client refused, in the header and in the body."""
        self.refuse("corporate")
        said = f"No client {IN_VAULT['CLIENT_ID']} has {IN_VAULT['CLIENT_SECRET']}."
        answer = json.dumps({"error": "invalid_client", "error_description": said}).encode()
        self.tokens.answers.extend([TokenAnswer(401, answer)] * 2)


@contextmanager
def all_kinds() -> Iterator[Providers]:
    client = (IN_VAULT["CLIENT_ID"], IN_VAULT["CLIENT_SECRET"])
    with ExitStack() as stack:
        tokens = stack.enter_context(FakeTokenServer(client=client, name=ACCESS_TOKEN))
        fakes = {name: stack.enter_context(FakeProvider(WIRES[way.wire]())) for name, way in WAYS.items()}
        yield Providers(fakes, tokens)


@dataclass
class Watch:
    """A home, and all that was printed, drawn and to be seen of its processes."""

    home: GatewayHome
    search: Search
    said: dict[str, list[str]] = field(default_factory=lambda: {"terminal": [], "iopub": []})
    found: list[str] = field(default_factory=list[str])

    def ozzie(self, *words: str, given: str = "") -> str:
        """Run a command; what it printed."""
        done = subprocess.run(
            [sys.executable, "-m", "ozzie_server_ext.cli.main", *words],
            env=dict(self.home.env),
            cwd=self.home.project,
            input=given,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        self.said["terminal"] += [done.stdout, done.stderr]
        return done.stdout

    def kernel(self) -> Kernel:
        """One of whom everything that goes out on its iopub channel is kept."""
        kernel = start_kernel(self.home)
        receive, heard = kernel.client.get_iopub_msg, self.said["iopub"]

        def listening(*args: Any, **more: Any) -> dict[str, Any]:
            message = receive(*args, **more)
            heard.append(json.dumps(message, default=str))
            return message

        kernel.client.get_iopub_msg = listening
        return kernel

    def look_at_processes(self, *expected: str) -> None:
        """Search every process that runs, as soon as the expected ones are among them."""
        end = time.monotonic() + 40
        while not set(expected) <= {program(process) for process in running(self.home.home)}:
            assert time.monotonic() < end, running(self.home.home)
            time.sleep(0.05)
        self.found += self.search.processes(running(self.home.home))

    def look_back(self) -> None:
        """All that commands tell of it."""
        for command in ("models list", "models usage", "secrets list", "status", "status --json"):
            self.ozzie(*command.split())
        tasks = json.loads(self.ozzie("tasks", "list", "--json", "--limit", "100"))
        for task in [task for task in tasks if task["status"] == "FAILED"][:3]:
            self.ozzie("tasks", "show", task["task_id"])
        for session in json.loads(self.ozzie("sessions", "list", "--json")):
            self.ozzie("sessions", "show", session["id"], "--json")
        self.ozzie("events", "tail", "--json", "--limit", "2000")
        self.ozzie("events", "verify")

    def everywhere(self, folder: Path, *, but: Sequence[Path] = ()) -> list[str]:
        """What was found in the processes, in all that was said, and in every file but those."""
        said = [found for place, texts in self.said.items() for found in self.search.texts(texts, place)]
        return [*self.found, *said, *self.search.files(folder, but=but)]


def ask_everybody(providers: Providers, kernel: Kernel) -> None:
    for name, way in WAYS.items():
        assert kernel.run(f"%model {name}").status == "ok"
        output = kernel.run(f"What is 17.5 % of 2480, {name}?")
        assert "434" in output.turn["parts"][-1]["text"], output
        assert providers.fakes[name].requests[-1].headers[way.header] == way.sent


def be_refused_by_everybody(providers: Providers, kernel: Kernel) -> None:
    for name in WAYS:
        providers.refuse(name)
        assert kernel.run(f"%model {name}").status == "ok"
        assert "refused the key" in kernel.run("And now?").turn["error"]["message"]
        providers.fakes[name].forget()
    providers.refuse_client()
    kernel.run("%model corporate")
    assert "gives no token" in kernel.run("And without a token?").turn["error"]["message"]
    providers.fakes["corporate"].forget()


def run_notebook(home: GatewayHome, providers: Providers) -> None:
    """One that nobody watches: it fails, and is saved with what it gave."""
    spec = {"display_name": "Ozzie", "language": "markdown", "name": "ozzie"}
    cells = [new_code_cell(source) for source in ("%model anthropic", "Hello?", f"Say {PLANTED}.")]
    notebook = new_notebook(cells=cells, metadata={"kernelspec": spec})
    providers.refuse("anthropic")
    NotebookClient(notebook, timeout=60, allow_errors=True).execute(env=dict(home.env), cwd=str(home.project))
    providers.fakes["anthropic"].forget()
    assert "refused the key" in str(notebook["cells"][1]["outputs"])
    nbformat.write(notebook, home.project / "unwatched.ipynb")


ANSWERING = "jp-RenderedHTMLCommon"
"""What the live form of a cell has once there is text."""


def begin_without_end(kernel: Kernel) -> str:
    """A turn that is in the middle of its answer."""
    request = kernel.send("Go on for ever.")
    kernel.output(request, until_live=ANSWERING)
    return request


def worker_of(home: GatewayHome) -> psutil.Process:
    found = home.handshake()
    assert found is not None
    # Not any process of this test run: the gateway that tests share has a worker too.
    below = psutil.Process(found.pid).children(recursive=True)
    (worker,) = (process for process in below if program(process) == WORKER)
    return worker


def cut_off_twice(home: GatewayHome, kernel: Kernel) -> Output:
    """A turn whose worker dies in the middle of its answer, as the one does that is then asked for it again."""
    request = begin_without_end(kernel)
    worker_of(home).kill()
    kernel.output(request, until_live="asking again")
    kernel.output(request, until_live=ANSWERING)
    worker_of(home).kill()
    return kernel.output(request)


def save(path: Path, *outputs: Output) -> None:
    """As a page saves what a kernel gave."""
    cells = [new_code_cell("", outputs=[new_output("display_data", data=of) for of in one.bundles]) for one in outputs]
    nbformat.write(new_notebook(cells=cells), path)


@contextmanager
def shouting(home: GatewayHome) -> Iterator[None]:
    """A process that shows the planted word in its environment and on its command line."""
    command = [sys.executable, "-c", "input()", PLANTED]
    with subprocess.Popen(command, env={**home.env, "SHOUTED": PLANTED}, stdin=subprocess.PIPE, text=True) as process:
        yield
        process.communicate("\n")


@pytest.mark.soak
def test_no_key_is_found_outside_the_vault(
    home: GatewayHome, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    login = tmp_path / "claude" / ".credentials.json"
    login.parent.mkdir()
    login.write_text(json.dumps({"claudeAiOauth": {"accessToken": CLAUDE_TOKEN}}))
    home = replace(home, env={**home.env, "CLAUDE_CONFIG_DIR": str(login.parent)})
    watch = Watch(home, Search({**SECRETS, "PLANTED": PLANTED}))
    with all_kinds() as providers:
        home.configure({"models": {"default": "openai", "providers": providers.settings(), "workers": 1}})
        for name, value in IN_VAULT.items():
            watch.ozzie("secrets", "set", name, "--stdin", given=f"{value}\n")
        with start_jupyter(home) as jupyter:
            kernel = watch.kernel()
            ask_everybody(providers, kernel)
            with shouting(home):
                watch.look_at_processes("jupyter_server", "ozzie_kernel", WORKER)
            be_refused_by_everybody(providers, kernel)
            run_notebook(home, providers)
            watch.ozzie("secrets", "export", str(tmp_path / "export"), "--stdin", given=f"{PASSPHRASE}\n")
            kernel.run("%model endless")
            cut_off = cut_off_twice(home, kernel)
            request = begin_without_end(kernel)
            watch.look_at_processes("jupyter_server", "ozzie_kernel", WORKER)
            jupyter.kill()
        kernel.output(request, until_live="continued after a restart")
        watch.look_at_processes("ozzie_kernel", "ozzie_server_ext.programs.gateway", WORKER)
        kernel.interrupt()
        stopped = kernel.output(request)
        kernel.run("%model echo")
        save(home.project / "saved.ipynb", cut_off, stopped, kernel.run(f"What is {PLANTED}?"))
        watch.look_back()
        kernel.stop()
        home.stop_gateways()
    watch.said["output of kernels"] = [*capfd.readouterr()]

    assert "stopped in the middle of its answer" in cut_off.markdown
    found = watch.everywhere(tmp_path, but=[login])
    assert [trace for trace in found if not trace.startswith("PLANTED in ")] == []
    for place in SEARCHED:
        assert any(place in trace for trace in found), f"The search is blind there: {place}"


@pytest.mark.soak
def test_a_key_of_the_environment_is_seen_where_the_page_on_secrets_says_and_nowhere_else(
    home: GatewayHome, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """One in the environment of Jupyter, one in `.env`."""
    in_environment, in_file = IN_VAULT["OPENAI_KEY"], IN_VAULT["ANTHROPIC_KEY"]
    home = replace(home, env={**home.env, "OPENAI_KEY": in_environment})
    (home.home / ".env").write_text(f"ANTHROPIC_KEY={in_file}\n")
    (home.home / ".env").chmod(0o600)
    watch = Watch(home, Search({"OPENAI_KEY": in_environment, "ANTHROPIC_KEY": in_file}))
    with FakeProvider(WIRES["openai"]()) as openai, FakeProvider(WIRES["anthropic"]()) as anthropic:
        providers = {
            driver: {
                "driver": driver,
                "model": "tools",
                "base_url": fake.base_url,
                "auth": {"type": "api_key", "env": f"{driver.upper()}_KEY"},
            }
            for driver, fake in (("openai", openai), ("anthropic", anthropic))
        }
        home.configure({"models": {"default": "openai", "providers": providers}})
        with start_jupyter(home):
            kernel = watch.kernel()
            for name in providers:
                kernel.run(f"%model {name}")
                assert kernel.run("What is 17.5 % of 2480?").status == "ok"
            watch.look_at_processes("jupyter_server", "ozzie_kernel", WORKER)
            own = kernel.run("%%python\nimport os; print(len(os.environ['OPENAI_KEY']), 'ANTHROPIC_KEY' in os.environ)")
            watch.look_back()
            kernel.stop()
    watch.said["output of kernels"] = [*capfd.readouterr()]

    assert openai.requests[-1].headers["authorization"] == f"Bearer {in_environment}"
    assert anthropic.requests[-1].headers["x-api-key"] == in_file
    assert own.streamed == f"{len(in_environment)} False\n"
    # Jupyter and what it starts as the user has it, kernels above all; never the model worker.
    assert sorted(watch.everywhere(tmp_path)) == [
        "ANTHROPIC_KEY in home/.env",
        "OPENAI_KEY in environ of jupyter_server",
        "OPENAI_KEY in environ of ozzie_kernel",
    ]
