"""`calc.eval`: arithmetic in decimal numbers, so that 0.1 + 0.2 is 0.3."""

import ast
import decimal
import math
import operator
from collections.abc import Callable
from decimal import Decimal
from typing import Annotated

from pydantic import Field

from ozzie_server_ext.domain.expressions import Language, NotAllowed, parsed
from ozzie_server_ext.domain.toolmeta import ToolResult
from ozzie_server_ext.tools.base import FunctionTool, ToolContext, ToolFailed, read_only

MAX_CHARACTERS = 1000
_CONTEXT = decimal.Context(
    prec=34, Emax=9999, Emin=-9999, traps=[decimal.InvalidOperation, decimal.DivisionByZero, decimal.Overflow]
)


def _by_float(function: Callable[[float], float]) -> Callable[[Decimal], Decimal]:
    return lambda x: Decimal(repr(function(float(x))))


def _number(value: object) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError
    if isinstance(value, float) and math.isinf(value):  # a literal beyond floats, such as 1e400
        raise decimal.Overflow
    return Decimal(repr(value))


_ARITHMETIC = Language[Decimal](
    literal=_number,
    names={
        "pi": Decimal("3.141592653589793238462643383279503"),
        "e": Decimal("2.718281828459045235360287471352662"),
        "tau": Decimal("6.283185307179586476925286766559006"),
    },
    binary={
        ast.Add: _CONTEXT.add,
        ast.Sub: _CONTEXT.subtract,
        ast.Mult: _CONTEXT.multiply,
        ast.Div: _CONTEXT.divide,
        ast.FloorDiv: lambda a, b: (a / b).to_integral_value(decimal.ROUND_FLOOR),
        ast.Mod: lambda a, b: a - b * (a / b).to_integral_value(decimal.ROUND_FLOOR),
        ast.Pow: _CONTEXT.power,
    },
    unary={ast.USub: operator.neg, ast.UAdd: operator.pos},
    functions={
        "abs": abs,
        "ceil": lambda x: x.to_integral_value(decimal.ROUND_CEILING),
        "exp": _CONTEXT.exp,
        "floor": lambda x: x.to_integral_value(decimal.ROUND_FLOOR),
        "ln": _CONTEXT.ln,
        "log": _CONTEXT.ln,
        "log10": _CONTEXT.log10,
        "max": max,
        "min": min,
        "round": lambda x, digits=Decimal(0): round(x, int(digits)),
        "sqrt": _CONTEXT.sqrt,
        "sin": _by_float(math.sin),
        "cos": _by_float(math.cos),
        "tan": _by_float(math.tan),
    },
)


def evaluate(
    context: ToolContext,
    *,
    expr: Annotated[
        str, Field(description='For example "17.5/100*2480" or "sqrt(2)*10**3".', max_length=MAX_CHARACTERS)
    ],
) -> ToolResult:
    """Evaluate an arithmetic expression: + - * / // % **, parentheses, pi, e, and abs ceil cos exp floor ln log10 max
    min round sin sqrt tan."""
    value = calculate(expr)
    return ToolResult(ok=True, data={"value": value}, summary=value if len(value) <= 40 else f"{value[:37]}…")


def calculate(expr: str) -> str:
    """Return the value of `expr` in plain digits. Raises ToolFailed with what is wrong."""
    try:
        tree = parsed(expr.strip().replace("^", "**"))
        with decimal.localcontext(_CONTEXT):
            value = _ARITHMETIC.value(tree)
        if not value.is_finite():  # ln(0)
            raise decimal.InvalidOperation
    except NotAllowed as error:
        raise ToolFailed(f"{error}: is not arithmetic that the calculator knows.") from None
    except decimal.DivisionByZero:
        raise ToolFailed(f"{expr}: division by zero.") from None
    except decimal.Overflow:
        raise ToolFailed(f"{expr}: the result is too large.") from None
    except (decimal.DecimalException, ValueError, OverflowError, TypeError, RecursionError, MemoryError):
        raise ToolFailed(f"{expr}: has no value.") from None
    except SyntaxError:
        raise ToolFailed(f"{expr}: is not an arithmetic expression.") from None
    return _plain(value)


def _plain(value: Decimal) -> str:
    # Exact values stay exact; a rounded one (1/3) is shown with the digits of a float.
    exact = len(value.normalize(_CONTEXT).as_tuple().digits) <= 28
    rounded = decimal.Context(prec=28 if exact else 15).plus(value)
    if rounded == 0:
        return "0"
    if not -30 < rounded.adjusted() < 30:
        return f"{rounded.normalize():E}"
    return f"{rounded.normalize():f}"


TOOLS = (FunctionTool(evaluate, read_only(tool_id="calc.eval", name="calculator", timeout_s=5, overview=True)),)
