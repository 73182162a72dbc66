"""Ozzie as a server, by the MCP's own tests (`@modelcontextprotocol/conformance`), in both eras of the protocol,
through a gateway that lets nobody in without a token.

`tests/conformance/gateway.py` has the tools that the tests call, as far as Ozzie has such tools.
"""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.proxy import adding_token
from tests.conformance.test_client import NODE, SUITE
from tests.rig import new_home, start_gateway
from tests.tiers import rows

pytestmark = pytest.mark.timeout(120)

BOTH = (
    *("tools-list", "tools-call-simple-text", "tools-call-image", "tools-call-error", "tools-call-with-progress"),
    *("json-schema-2020-12", "server-sse-multiple-streams", "resources-list", "dns-rebinding-protection"),
)
ERAS = {
    "2025-11-25": ("server-initialize", "server-session-lifecycle", "ping", "server-sse-polling", *BOTH),
    "2026-07-28": (
        *("server-stateless", "sep-2164-resource-not-found", "caching"),
        *("http-header-validation", "http-custom-header-server-validation", *BOTH),
    ),
}
NO_PROMPTS = "Ozzie has no prompts: its skills are tools"
NEVER_ASKS = "Ozzie asks a client for nothing: a person answers in Ozzie"
NO_TOOL = "none of Ozzie's tools gives such a result"
LEFT_OUT = {
    **dict.fromkeys(("prompts-list", "prompts-get-simple", "prompts-get-with-args"), NO_PROMPTS),
    **dict.fromkeys(("prompts-get-embedded-resource", "prompts-get-with-image"), NO_PROMPTS),
    "completion-complete": "there are neither prompts nor templates with values to choose from",
    **dict.fromkeys(("logging-set-level", "tools-call-with-logging"), "Ozzie sends no log to clients"),
    **dict.fromkeys(("tools-call-audio", "tools-call-embedded-resource", "tools-call-mixed-content"), NO_TOOL),
    **dict.fromkeys(("tools-call-sampling", "tools-call-elicitation"), NEVER_ASKS),
    **dict.fromkeys(("elicitation-sep1034-defaults", "elicitation-sep1330-enums"), NEVER_ASKS),
    **dict.fromkeys(
        ("resources-read-text", "resources-read-binary", "resources-templates-read"),
        "they read test://…, and Ozzie's resources are sessions and artifacts",
    ),
    **dict.fromkeys(("resources-subscribe", "resources-unsubscribe"), "resources can't be subscribed to"),
}
LEFT_OUT_BEGINNINGS = {
    "input-required-result-": NEVER_ASKS,
    "tasks-": "an extension, which Ozzie does not offer",
    "sep-2640-": "an extension, which Ozzie does not offer",
}
CANT_SHOW = {
    "2026-07-28 server-stateless": {
        **dict.fromkeys(
            (
                "sep-2575-server-rejects-undeclared-capability",
                "sep-2575-missing-capability-http-400",
                "sep-2575-http-server-no-independent-requests-on-stream",
                "sep-2575-server-no-log-without-loglevel",
            ),
            f"they want tools that ask the client or log: {NEVER_ASKS}",
        ),
        "sep-2575-server-sends-tools-list-changed-on-subscription": "it wants a tool that changes the list; "
        "tests/integration/gateway/test_mcp_clients.py shows it",
    },
    "2026-07-28 caching": {"sep-2549-prompts-list-caching-hints": NO_PROMPTS},
    "2025-11-25 server-sse-polling": {
        "server-sse-disconnect-resume": "it wants a tool that ends its own stream; Ozzie never does that"
    },
}
"""Single checks of a scenario that can't be shown, with the reason."""
CASES = rows(
    (f"{era} {name}" for era, names in ERAS.items() for name in names),
    *("2025-11-25 server-initialize", "2025-11-25 tools-call-with-progress", "2025-11-25 dns-rebinding-protection"),
    *("2026-07-28 server-stateless", "2026-07-28 http-header-validation"),
)
_CHECK = re.compile(r"\[([a-z0-9-]+)\s*\] (FAILURE|WARNING|SUCCESS)")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    home = new_home(tmp_path_factory.mktemp("conformance"))
    with (
        start_gateway(home, program="tests.conformance.gateway") as gateway,
        adding_token(f"{gateway.url}ozzie/mcp", gateway.token) as address,
    ):
        yield address


def harness(*words: str, home: Path) -> str:
    env = {**os.environ, "HOME": str(home)}
    done = subprocess.run([str(NODE), str(SUITE), *words], capture_output=True, text=True, timeout=100, env=env)
    return _COLOUR.sub("", done.stdout + done.stderr)


@pytest.mark.parametrize("case", CASES)
def test_a_scenario_passes_but_for_what_ozzie_does_not_have(case: str, url: str, tmp_path: Path) -> None:
    era, name = case.split()
    options = ["--scenario", name, "--spec-version", era, "--output-dir", str(tmp_path)]

    said = harness("server", "--url", url, *options, home=tmp_path)

    checks = dict(_CHECK.findall(said))
    wrong = {check for check, result in checks.items() if result != "SUCCESS"}
    assert "SUCCESS" in checks.values(), said
    assert wrong == set(CANT_SHOW.get(case, {})), said


def test_each_scenario_of_the_harness_is_run_or_left_out_for_a_reason(tmp_path: Path) -> None:
    said = harness("list", "--server", home=tmp_path)
    names = re.findall(r"^  - ([a-z0-9-]+) \[", said.partition("Client scenarios")[0], re.MULTILINE)
    run = {name for era in ERAS.values() for name in era}

    assert len(names) > 50
    for name in names:
        is_left_out = name in LEFT_OUT or any(map(name.startswith, LEFT_OUT_BEGINNINGS))
        assert (name in run) is not is_left_out, name
