"""Python's parser for what people write: every text is an expression or an error, and nothing else is left behind."""

import ast
import sys
import threading
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ozzie_server_ext.domain.expressions import Language, NotAllowed, parsed


@pytest.mark.parametrize("text", ["", "1 +", "a = 1", "1 2", "1if 2 else 3", "0_7", "yield", "lambda: (", "'\\d'"])
def test_what_is_no_expression_or_warned_of_is_an_error_and_is_told_nowhere_else(text: str) -> None:
    with warnings.catch_warnings(record=True) as told, pytest.raises(SyntaxError):
        parsed(text)

    assert told == []


@pytest.mark.parametrize("text", ["(" * 5000 + ")" * 5000, "-" * 100_000 + "1", "+".join("1" * 200_000), "1\0"])
def test_what_is_too_deep_or_can_not_be_read_is_a_value_error_or_none(text: str) -> None:
    with pytest.raises((ValueError, SyntaxError)):
        parsed(text)


@given(st.text(alphabet="0123456789+-*/()[]{}.,'\"ab_ \n\\xe", max_size=60))
def test_every_text_is_an_expression_or_one_of_two_errors(text: str) -> None:
    try:
        found = parsed(text)
    except (SyntaxError, ValueError):
        return
    assert isinstance(found, ast.expr)


def test_threads_that_parse_at_the_same_time_leave_the_filters_of_warnings_as_they_were() -> None:
    begin = threading.Barrier(4)

    def parse_many() -> None:
        begin.wait()
        for number in range(2000):
            parsed(f"{number} + 1")

    threads = [threading.Thread(target=parse_many) for _ in range(4)]
    interval = sys.getswitchinterval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before = list(warnings.filters)
        sys.setswitchinterval(1e-6)
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            sys.setswitchinterval(interval)
        after = list(warnings.filters)

    assert after == before


LOGIC = Language[bool](
    literal=lambda value: _truth(value),
    names={"yes": True},
    comparisons={ast.Eq: lambda left, right: left == right},
    truth=bool,
)


def _truth(value: object) -> bool:
    if not isinstance(value, int):
        raise TypeError
    return value > 0


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes and not 0", True),
        ("it or 0", False),
        ("1 == yes == 2", True),
        ("0 == 1", False),
        ("not (yes and it)", True),
    ],
)
def test_a_language_means_what_its_tables_say(text: str, value: bool) -> None:
    assert LOGIC.value(parsed(text), {"it": False}) is value


@pytest.mark.parametrize(
    "text", ["1 + 1", "-yes", "1 < 2", "'text'", "no", "[yes]", "yes.no", "yes()", "yes if 1 else 0", "lambda: 1"]
)
def test_what_is_in_no_table_is_refused_before_and_at_evaluation(text: str) -> None:
    tree = parsed(text)

    assert LOGIC.refused(tree) is not None
    with pytest.raises(NotAllowed):
        LOGIC.value(tree)


WORDS = st.sampled_from(
    ["yes", "it", "no", "1", "0", "'a'", "-", "+", "not ", " and ", " or ", "==", "<", "(", ")", "[", "]"]
)


@given(st.lists(WORDS, max_size=12).map("".join))
def test_what_is_not_refused_has_a_value(text: str) -> None:
    try:
        tree = parsed(text)
    except (SyntaxError, ValueError):
        return
    if LOGIC.refused(tree, {"it"}) is None:
        assert LOGIC.value(tree, {"it": True}) in (True, False)
