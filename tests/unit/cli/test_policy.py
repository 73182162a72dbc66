"""Why a rule that allows was not enough, in a sentence."""

import pytest

from ozzie_server_ext.cli.policy import overruled
from ozzie_server_ext.domain.toolmeta import ToolMeta
from tests.unit.policy.rig import COMMAND, KERNEL, SEND


def test_of_most_tools_a_rule_has_to_name_the_very_tool() -> None:
    assert "does not name mail.send" in overruled("mine", SEND)


@pytest.mark.parametrize("tool", [COMMAND, KERNEL])
def test_of_commands_and_live_kernels_no_rule_is_said_to_be_enough(tool: ToolMeta) -> None:
    assert overruled("mine", tool).endswith("ask first whatever a rule says.")
