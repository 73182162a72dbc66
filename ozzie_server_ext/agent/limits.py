"""What stops a turn that does not stop by itself: rounds, going in circles (AG-1)."""

from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.domain.events import Limits, ToolUse

MAX_REPEATS = 3
MAX_CALLS_A_ROUND = 50


class LimitExceeded(OzzieError):
    """The turn used up what it was allowed."""

    code = "limit.exceeded"


class OutOfTime(Exception):
    """A task has worked for all of its `limit_s`."""

    def __init__(self, limit_s: float) -> None:
        super().__init__(f"{limit_s:g} s")
        self.limit_s = limit_s


class LimitGuard:
    """Watches one run of a turn."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._last: tuple[tuple[str, str], ...] = ()
        self._repeats = 0

    def check_round(self, number: int) -> None:
        """Before the model is asked again. Raises LimitExceeded."""
        if number > self._limits.max_rounds:
            raise LimitExceeded(
                f"This turn asked the model {self._limits.max_rounds} times without coming to an end.",
                hint="Ask for a smaller step, or raise agent.max_rounds in the configuration.",
                code="limit.rounds",
            )

    def check_uses(self, uses: tuple[ToolUse, ...]) -> None:
        """When the model asks for tools. Raises LimitExceeded for too many at once, and the third time in a row that
        it asks for the same."""
        if len(uses) > MAX_CALLS_A_ROUND:
            raise LimitExceeded(
                f"The model asked for {len(uses)} tool calls at once; at most {MAX_CALLS_A_ROUND} are carried out.",
                hint="Ask for a smaller step, or choose another model with %model.",
                code="limit.calls",
            )
        asked = tuple((use.name, use.arguments) for use in uses)
        self._repeats = self._repeats + 1 if asked == self._last else 1
        self._last = asked
        if self._repeats >= MAX_REPEATS:
            raise LimitExceeded(
                f"The model asked for the same call of {asked[0][0][:64]} {MAX_REPEATS} times in a row.",
                hint="Say it differently, or choose another model with %model.",
                code="limit.loop",
            )
