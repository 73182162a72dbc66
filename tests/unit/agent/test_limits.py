"""What stops a turn that does not stop by itself."""

import pytest

from ozzie_server_ext.agent.rounds import MAX_CALLS_A_ROUND, MAX_REPEATS, LimitExceeded, LimitGuard
from ozzie_server_ext.domain.events import Limits, ToolUse
from ozzie_server_ext.domain.ids import CallId


def uses(*asked: str) -> tuple[ToolUse, ...]:
    return tuple(ToolUse(call_id=CallId(str(i)), name="probe", arguments=text) for i, text in enumerate(asked))


def code(guard: LimitGuard, number: int) -> str:
    try:
        guard.expect_round(number)
    except LimitExceeded as error:
        assert error.hint  # noqa: PT017 - every refusal says what to do
        return error.code
    return ""


def test_the_last_round_allowed_is_allowed() -> None:
    guard = LimitGuard(Limits(max_rounds=3))

    assert [code(guard, number) for number in (1, 3, 4)] == ["", "", "limit.rounds"]


def test_the_same_calls_again_and_again_are_a_circle() -> None:
    guard = LimitGuard(Limits())

    for _ in range(MAX_REPEATS - 1):
        guard.expect_uses(uses("{}", "x"))
    with pytest.raises(LimitExceeded, match="probe 3 times in a row") as refused:
        guard.expect_uses(uses("{}", "x"))
    assert refused.value.code == "limit.loop"


def test_anything_else_in_between_breaks_the_circle() -> None:
    guard = LimitGuard(Limits())

    passed = 0
    for number in range(4 * MAX_REPEATS):
        guard.expect_uses(uses("{}") if number % MAX_REPEATS else uses("{}", "{}"))
        passed += 1

    assert passed == 4 * MAX_REPEATS


def test_a_round_may_ask_for_so_many_calls_and_not_more() -> None:
    LimitGuard(Limits()).expect_uses(uses(*map(str, range(MAX_CALLS_A_ROUND))))
    with pytest.raises(LimitExceeded) as refused:
        LimitGuard(Limits()).expect_uses(uses(*map(str, range(MAX_CALLS_A_ROUND + 1))))
    assert refused.value.code == "limit.calls"
