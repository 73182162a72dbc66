"""Arithmetic: exact where it can be, bounded always, and nothing but arithmetic."""

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ozzie_server_ext.tools.base import InvalidArguments, ToolContext, ToolFailed
from ozzie_server_ext.tools.builtin.calc import MAX_CHARACTERS, TOOLS, calculate
from tests.unit.tools.test_base import carried_out


@pytest.mark.parametrize(
    ("expr", "value"),
    [
        ("17.5/100*2480", "434"),
        ("0.1 + 0.2", "0.3"),
        ("1.10 * 3", "3.3"),
        ("2+3*4", "14"),
        ("(2+3)*4", "20"),
        ("-(2+3)", "-5"),
        ("+-+5", "-5"),
        ("10/4", "2.5"),
        ("1/3", "0.333333333333333"),
        ("2/3*3", "2"),
        ("7//2", "3"),
        ("-7//2", "-4"),
        ("7%3", "1"),
        ("-7%3", "2"),
        ("0.3//0.1", "3"),
        ("5.5%2", "1.5"),
        ("2**10", "1024"),
        ("2^10", "1024"),
        ("2**-1", "0.5"),
        ("2**0.5", "1.4142135623731"),
        ("sqrt(16)", "4"),
        ("abs(-3)", "3"),
        ("round(2.5)", "2"),
        ("round(2.345, 2)", "2.34"),
        ("round(1234, -2)", "1200"),
        ("floor(-1.5)", "-2"),
        ("ceil(1.2)", "2"),
        ("max(1, 3, 2)", "3"),
        ("min(1, 3, 2)", "1"),
        ("exp(0)", "1"),
        ("ln(e)", "1"),
        ("log10(1000)", "3"),
        ("sin(0)", "0"),
        ("cos(0)", "1"),
        ("pi", "3.14159265358979"),
        ("tau/2 - pi", "0"),
        ("0x10 + 0b11", "19"),
        ("1_000", "1000"),
        ("1e3", "1000"),
        ("1e308*10", "1E+309"),
        ("10**40", "1E+40"),
        ("0*-1", "0"),
        ("100000000000000000000*3", "300000000000000000000"),
        ("  1 + 1\n", "2"),
    ],
)
def test_an_expression_has_its_value(expr: str, value: str) -> None:
    assert calculate(expr) == value


@pytest.mark.parametrize(
    ("expr", "says"),
    [
        ("1/0", "division by zero"),
        ("1//0", "division by zero"),
        ("5%0", "division by zero"),
        ("0/0", "has no value"),
        ("0**0", "has no value"),
        ("sqrt(-1)", "has no value"),
        ("(-8)**(1/3)", "has no value"),
        ("ln(0)", "has no value"),
        ("log10(0)", "has no value"),
        ("max()", "has no value"),
        ("max(1)", "has no value"),
        ("round(1, 2, 3)", "has no value"),
        ("sin(1e300*1e300)", "has no value"),
        ("round(1.5, 10**9000)", "has no value"),
        ("9**9**9", "too large"),
        ("1e400", "too large"),
        ("1/1e400", "too large"),
        ("1e9000*1e9000*1e9000", "too large"),
        ("exp(99999)", "too large"),
        ("", "is not an arithmetic expression"),
        ("2 +", "is not an arithmetic expression"),
        ("1; 2", "is not an arithmetic expression"),
        ("1\n2", "is not an arithmetic expression"),
        ("x := 1", "is not an arithmetic expression"),
        ("1if 2", "is not an arithmetic expression"),
        ("１+１", "is not an arithmetic expression"),
        ("x", "not arithmetic that the calculator knows"),
        ("'a'*9", "not arithmetic"),
        ("True", "not arithmetic"),
        ("1j", "not arithmetic"),
        ("[1]", "not arithmetic"),
        ("1 < 2", "not arithmetic"),
        ("1 << 9999999", "not arithmetic"),
        ("2 @ 3", "not arithmetic"),
        ("~1", "not arithmetic"),
        ("not 1", "not arithmetic"),
        ("1 if 1 else 2", "not arithmetic"),
        ("lambda: 1", "not arithmetic"),
        ("(1).real", "not arithmetic"),
        ("__import__('os').system('true')", "not arithmetic"),
        ("open('/etc/passwd')", "not arithmetic"),
        ("eval('1')", "not arithmetic"),
        ("abs(x=1)", "not arithmetic"),
        ("abs(*[1])", "not arithmetic"),
        ("(1)(2)", "not arithmetic"),
        ("f'{1}'", "not arithmetic"),
        ("[x for x in 1]", "not arithmetic"),
    ],
)
def test_what_is_no_arithmetic_or_has_no_value_is_refused_in_words(expr: str, says: str) -> None:
    with pytest.raises(ToolFailed, match=says):
        calculate(expr)


@pytest.mark.parametrize("expr", ["(" * 500 + "1" + ")" * 500, "-" * 999 + "1", "abs(" * 240 + "1" + ")" * 240, "1\0"])
def test_an_expression_made_to_break_the_reader_does_not(expr: str) -> None:
    try:
        assert calculate(expr) in ("1", "-1")
    except ToolFailed as error:
        assert str(error).endswith(".")  # noqa: PT017 - either end is right, by version of Python


def test_a_small_number_of_many_places_keeps_them() -> None:
    assert calculate("1.5 / 10**20") == "0.000000000000000000015"
    assert calculate("1 / 10**200") == "1E-200"


NUMBERS = st.decimals(min_value=-9999, max_value=9999, places=2).map(str) | st.integers(-9999, 9999).map(str)
EXPRESSIONS = st.recursive(
    NUMBERS.map(lambda text: f"({text})"),
    lambda inner: st.tuples(inner, st.sampled_from("+-*"), inner).map(lambda parts: f"({''.join(parts)})"),
    max_leaves=4,
)


@given(EXPRESSIONS)
def test_sums_and_products_are_exact(expr: str) -> None:
    fractions = {"F": Fraction}
    exact = eval(_as_fractions(expr), fractions)

    assert Fraction(Decimal(calculate(expr))) == exact


def _as_fractions(expr: str) -> str:
    """`(1.50)` → `(F('1.50'))`, so that Python itself does the sum exactly."""
    found: list[str] = []
    for piece in expr.replace("(", " ( ").replace(")", " ) ").split():
        found.append(f"F('{piece}')" if any(sign.isdigit() for sign in piece) else piece)
    return "".join(found)


async def test_the_tool_tells_the_value_and_a_summary_for_people(context: ToolContext) -> None:
    (calculator,) = TOOLS

    result = await carried_out(calculator, {"expr": "17.5/100*2480"}, context)

    assert (result.ok, result.data, result.summary) == (True, {"value": "434"}, "434")


def test_an_expression_is_bounded() -> None:
    (calculator,) = TOOLS

    assert calculator.check({"expr": "1" * MAX_CHARACTERS})
    with pytest.raises(InvalidArguments, match="at most 1000 characters"):
        calculator.check({"expr": "1" * (MAX_CHARACTERS + 1)})
