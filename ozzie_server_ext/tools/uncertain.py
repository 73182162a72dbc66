"""What is said where nobody knows whether something was done (DESIGN §2.5)."""

from ozzie_server_ext.domain.errors import OzzieError


class ToolUncertain(OzzieError):
    """A call was begun, and whether it did what it was for is not known. The turn must not go on as if it were."""

    code = "tool.uncertain"


def uncertain(calls: str, reason: str = "") -> ToolUncertain:
    """What ends a turn in which these calls may or may not have done something (string 13 of UX §10)."""
    said = f" {reason}" if reason else ""
    return ToolUncertain(
        f"{calls} may or may not have happened.{said} Ozzie will not try again by itself.",
        hint="Find out whether it did; where it did not, run the cell again. Your message is kept.",
    )
