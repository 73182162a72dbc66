"""The table of docs/providers.md, played: each failure of each provider in a cell of a real kernel, then the next."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.foreign_worker import FakeForeignWorker
from tests.fakes.provider_server import FakeProvider
from tests.fakes.providers import WIRES, all_providers
from tests.fakes.replies import HOTEL, Answer, Behaviour, Blocked, Raw, Refusal, Silence, TooLong
from tests.fakes.token_server import FakeTokenServer
from tests.rig import GatewayHome, Kernel, Output, new_home, start_kernel

pytestmark = pytest.mark.timeout(120)

PAGE = Path(__file__).resolve().parents[3] / "docs" / "providers.md"
KEPT = "Your message is kept."
KEY = "sk-0123456789abcdef"
DEAD = "http://127.0.0.1:9"
# No label of a name may be that long, so it is known to be unknown without asking a name server.
UNKNOWN = f"http://{'x' * 64}"
SO_FAR = ("It ", "begins")
NAMES = {"OpenAI": "openai", "Anthropic": "anthropic", "Gemini": "gemini", "Ollama": "ollama", "a worker": "worker"}


@dataclass(frozen=True)
class Row:
    """A line of the page, for one of the providers that it names."""

    did: str
    driver: str
    says: str
    do: str


def rows() -> list[Row]:
    found: list[Row] = []
    for line in PAGE.read_text().splitlines():
        if line.startswith("| ") and not line.startswith("| What the provider did"):
            did, which, says, do = (cell.strip() for cell in line.strip("|").split(" | "))
            drivers = [*WIRES] if which == "all" else [NAMES[name] for name in which.split(", ")]
            found.extend(Row(did, driver, says, do) for driver in drivers)
    return found


DOES: dict[str, Behaviour] = {
    "it refuses the key": Refusal(status=401, message=f"Incorrect API key provided: {KEY}."),
    "it does not let the key use the model": Refusal(status=403),
    "it knows no such model": Refusal(status=404, code="model_not_found"),
    "it is asked too often, and says for how long": Refusal(status=429, retry_s=2),
    "it is overloaded": Refusal(status=529),
    "it fails": Refusal(status=500),
    "it does not take the request": Refusal(status=400),
    "the conversation is too long for it": TooLong(),
    "it refuses the content": Blocked(),
    "it withholds the rest of its answer": Answer(pieces=["It "], finish="content_filter"),
    "its answer reaches the limit of length": Answer(pieces=SO_FAR, finish="length"),
    "it answers nothing": Answer(),
    "it sends a page of some network": Raw(body=HOTEL),
    "it sends JSON of another kind": Raw(body=b'{"detail": "Not this"}', content_type="application/json"),
    "it sends a broken stream": Answer(garbage=True),
    "the connection drops before any text": Answer(breaks=True),
    "the connection drops after some text": Answer(pieces=SO_FAR, breaks=True),
    "its stream ends too early": Answer(pieces=SO_FAR, cut=True),
    "its stream breaks after some text": Answer(pieces=SO_FAR, garbage=True),
    "it fails after some text": Answer(pieces=SO_FAR, error=True),
    "it is silent": Silence(),
    "it falls silent after some text": Answer(pieces=(*SO_FAR, "never"), gap_s=600),
}
EMPTY_ACCOUNT: dict[str, Behaviour] = {
    "openai": Refusal(status=429, message="You exceeded your current quota.", code="insufficient_quota"),
    "anthropic": Refusal(status=400, message="Your credit balance is too low to access the Anthropic API."),
}
BY_ADDRESS = {
    "nothing listens at its address": "dead",
    "no computer has the name in its address": "unknown",
    "its address says https, and it speaks http": "https",
    "its address lacks the /v1": "no-path",
    "its key is not set": "no-key",
    "its token server refuses the client": "wrong-client",
    "nothing listens at its token server's address": "no-tokens",
}
"""Failures that lie in how a provider is configured: what its name ends in here."""

KEY_OF = {"no-key": "NOT_SET", "wrong-client": "CLIENT_SECRET"}

OF_WORKERS = {
    "it reports an error": "refuses",
    "it closes the connection before any text": "cut-at-once",
    "it fails after some text": "fails",
    "it does not speak as a worker does": "answers-in-prose",
    "it is silent": "silent",
    "no worker listens at the socket": "none",
}
"""Which model of the fake worker does so."""


@dataclass
class Desk:
    """A kernel in front of every provider."""

    kernel: Kernel
    home: GatewayHome
    fakes: dict[str, FakeProvider]
    addresses: dict[str, str]
    chosen: str = ""

    def choose(self, name: str) -> None:
        if self.chosen != name:
            assert self.kernel.run(f"%model {name}").status == "ok"
            self.chosen = name


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    home = new_home(tmp_path_factory.mktemp("failures"))
    with all_providers() as fakes, FakeForeignWorker() as worker, FakeTokenServer() as tokens:
        providers: dict[str, Any] = {}
        addresses: dict[str, str] = {}
        for driver, fake in fakes.items():
            auth = {"type": "api_key", "env": f"{driver.upper()}_KEY"}
            common = {"driver": driver, "model": "echo", "auth": auth}
            places = {
                "": fake.base_url,
                "-hasty": fake.base_url,
                "-dead": DEAD,
                "-unknown": UNKNOWN,
                "-https": fake.base_url.replace("http:", "https:"),
                "-no-path": fake.url,
            }
            for ending, base_url in places.items():
                providers[f"{driver}{ending}"] = {**common, "base_url": base_url}
                addresses[f"{driver}{ending}"] = re.sub(r"(?<=[^/:])/.*", "", base_url)
            providers[f"{driver}-hasty"]["timeout_s"] = 0.5
            providers[f"{driver}-no-key"] = {**common, "auth": {"type": "api_key", "env": "NOT_SET"}}
        for ending, url in (("wrong-client", tokens.url), ("no-tokens", f"{DEAD}/token")):
            client = {"client_id_env": "CLIENT_ID", "client_secret_env": "CLIENT_SECRET", "token_url": url}
            providers[f"openai-{ending}"] = {
                "driver": "openai",
                "model": "echo",
                "base_url": fakes["openai"].base_url,
                "auth": {"type": "oauth2", **client},
            }
        for model in OF_WORKERS.values():
            socket = str(worker.folder / "none.sock") if model == "none" else worker.path
            timeout_s = 0.5 if model == "silent" else 20
            name = f"worker-{model}"
            providers[name] = {"driver": "worker", "model": model, "socket": socket, "timeout_s": timeout_s}
            addresses[name] = socket
        # The page is about what failed for good. What is tried before is of tests/integration/tasks/test_chains.py.
        models = {"default": "openai", "providers": providers, "retry": {"max_attempts": 1}}
        # All rows share a session: a summary of it would take the next answer of a fake.
        home.configure({"models": models, "sessions": {"max_history": 1000}})
        keys = "".join(f"{driver.upper()}_KEY={KEY}\n" for driver in fakes)
        keys += f"CLIENT_ID=nobody\nCLIENT_SECRET={KEY}\n"
        (home.home / ".env").write_text(keys)
        (home.home / ".env").chmod(0o600)
        kernel = start_kernel(home)
        yield Desk(kernel, home, fakes, addresses)
        kernel.stop()
        home.stop_gateways()


def shown(output: Output) -> tuple[str, str]:
    """The sentence, and what to do; checked to be all that a cell says of a failure."""
    assert output.status == "error"
    assert "error" not in output.messages, "a traceback reached the cell"
    assert "Traceback" not in output.markdown + output.streamed
    assert output.markdown.startswith("**Failed.** ")
    assert KEY not in json.dumps(output.bundles)
    error = output.turn["error"]
    return error["message"], error["hint"].replace(KEPT, "").strip()


def expected(row: Row, name: str, desk: Desk) -> tuple[str, str]:
    words = {
        "NAME": name,
        "MODEL": "echo",
        "KEY": KEY_OF.get(name.partition("-")[2], f"{row.driver.upper()}_KEY"),
        "ADDRESS": desk.addresses.get(name, ""),
    }

    def fill(text: str) -> str:
        return re.sub(r"\b(NAME|MODEL|KEY|ADDRESS)\b", lambda match: words[match[1]], text)

    return fill(row.says), fill(row.do)


def sampled() -> list[Any]:
    """All rows; `make test` tries each failure with the first driver that has it."""
    seen: set[str] = set()
    found: list[Any] = []
    for row in rows():
        marks = [pytest.mark.soak] if row.did in seen else []
        seen.add(row.did)
        found.append(pytest.param(row, marks=marks, id=f"{row.driver}: {row.did}"))
    return found


@pytest.mark.parametrize("row", sampled())
def test_a_failure_is_told_as_the_page_says_and_the_next_cell_works(desk: Desk, row: Row) -> None:
    message = f"Tell me what happens when {row.did}."
    if row.driver == "worker":
        name = f"worker-{OF_WORKERS[row.did]}"
        desk.choose(name)
        assert shown(desk.kernel.run(message)) == expected(row, name, desk)
        desk.choose("openai")
        fake = desk.fakes["openai"]
    elif row.did in BY_ADDRESS:
        name = f"{row.driver}-{BY_ADDRESS[row.did]}"
        if row.did == "its key is not set":
            refused = desk.kernel.run(f"%model {name}")
            sentence, hint = expected(row, name, desk)
            assert refused.status == "error"
            assert sentence in refused.markdown
            assert hint in refused.markdown
            return
        desk.choose(name)
        assert shown(desk.kernel.run(message)) == expected(row, name, desk)
        desk.choose(row.driver)
        fake = desk.fakes[row.driver]
    else:
        name = f"{row.driver}-hasty" if "silent" in row.did else row.driver
        desk.choose(name)
        fake = desk.fakes[row.driver]
        fake.queue(EMPTY_ACCOUNT[row.driver] if row.did == "its account is empty" else DOES[row.did])
        output = desk.kernel.run(message)
        assert shown(output) == expected(row, name, desk)
        if "after some text" in row.did or "too early" in row.did:
            assert "It begins" in output.markdown or "silent" in row.did
        desk.choose(row.driver)

    again = desk.kernel.run(f"And after {row.did}?")

    assert again.status == "ok"
    assert f"And after {row.did}?" in again.turn["parts"][-1]["text"]
    assert fake.misread == []
    assert message in json.dumps(fake.requests[-1].body), "The message that failed was kept."


def test_the_providers_own_words_are_in_the_log_without_the_key(desk: Desk) -> None:
    desk.choose("anthropic")
    desk.fakes["anthropic"].queue(Refusal(status=401, message=f"Wrong key {KEY}."))

    desk.kernel.run("hello")

    log = desk.home.home / "logs" / "app" / "gateway.jsonl"
    assert "a call of anthropic failed: provider.auth, Wrong key [key]." in log.read_text()
    assert KEY not in log.read_text()


def test_the_page_names_every_failure_that_is_played_here() -> None:
    named = {row.did for row in rows()}

    assert named == {*DOES, *BY_ADDRESS, *OF_WORKERS, "its account is empty"}
