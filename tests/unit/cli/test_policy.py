"""Why a rule that allows was not enough, in a sentence."""

import pytest

from ozzie_server_ext.cli.policy import overruled
from ozzie_server_ext.domain.toolmeta import ToolMeta
from ozzie_server_ext.policy.decision import Decision, Verdict
from ozzie_server_ext.policy.engine import IRREVERSIBLE
from tests.unit.policy.rig import COMMAND, KERNEL, SEND

ALLOWS = Verdict(decision=Decision.ALLOW, rule="mine", reason="Because.")
CHECKS = Verdict(decision=Decision.CHECK, rule="mine", reason="Because.")


def test_of_most_tools_a_rule_has_to_name_the_very_tool() -> None:
    assert overruled(ALLOWS, SEND, IRREVERSIBLE).startswith("Rule mine would let it run, but does not name mail.send")
    assert overruled(CHECKS, SEND, IRREVERSIBLE).startswith(
        "Rule mine would have it checked, but does not name mail.send"
    )


@pytest.mark.parametrize("tool", [COMMAND, KERNEL])
def test_of_commands_and_live_kernels_no_rule_is_said_to_be_enough(tool: ToolMeta) -> None:
    assert overruled(ALLOWS, tool, IRREVERSIBLE).endswith("always ask first.")
