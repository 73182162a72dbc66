"""Looking for secrets takes time in proportion to the text, whoever wrote that."""

import json
import resource
import subprocess
import sys

import pytest

from tests.tiers import SOAK
from tests.unit.domain.test_redaction import DASHES, made

_LINEAR = """
import json, sys
from ozzie_server_ext.domain.redaction import redact, redact_text
units, ends = json.load(sys.stdin)
for unit in units:
    for end in ends:
        redact_text(unit * (65_536 // len(unit)) + end)
    redact([unit] * (65_536 // len(unit)))
print("done")
"""
ENDS = ("", "(", "[", "@", ".", '"', "'", "\n", "\\", "/", "]", ",") if SOAK else ("", "(")
HOSTILE = (
    "a",
    " ",
    "-",
    "=",
    "é",
    "\\n",
    "eyJ",
    "-eyJaaaaaaaa",
    "eyJaaaaaaaa.",
    "eyJaaaaaaaa.eyJaaaaaaaa",
    "sk-",
    "sk-proj-aaaa",
    "ghp_",
    "xoxb-a",
    "AIza",
    "SG.aaaaaaaaaaaaaaaaaaaa.",
    "12345678:AA",
    "://",
    "://a:",
    "://a:b",
    "password",
    "password=",
    "token: a1",
    "token:",
    "api_key",
    "Bearer ",
    "authorization: bearer ",
    f"{DASHES}BEGIN PRIVATE KEY{DASHES}",
    f"{DASHES}BEGIN PRIVATE KEY{DASHES}\n",
    f"{DASHES}BEGIN PRIVATE KEY{DASHES}\n" + made(39) + "\n",
    f"{DASHES}BEGIN PRIVATE KEY{DASHES}\n" + made(64) + "\n",
    f"{DASHES}END PRIVATE KEY{DASHES}\n",
    f"{made(64)}\n{DASHES}END PRIVATE KEY{DASHES}\n",
    made(64) + "\n",
    "token=",
    "token='token=\"token=`",
    "token='",
    "token: a = ",
    "token,",
    "token ",
    "token value: ",
    "token]= ",
    "--password a",
    "password a1b2c3d4=",
    "api_key=aB3dE6gH9jK2mN5p=",
    "<password>",
    "://a:b@",
    "://a:b$#/",
    "login a password ",
)


@pytest.mark.sampled
def test_no_text_makes_looking_at_it_expensive() -> None:
    """Each long text takes milliseconds, whatever it ends with. Time by the square would be hours: the limit on the
    processor's time ends it. The end counts: a search that finds no end of a match begins again."""
    done = subprocess.run(
        [sys.executable, "-c", _LINEAR],
        input=json.dumps([HOSTILE, ENDS]),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (60, 60)),
    )

    assert done.stdout == "done\n", done.stderr
