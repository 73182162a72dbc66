"""SPEC.md's tables of operations, made from their declarations: `python -m tests.docs.spec_tables` writes them."""

from collections.abc import Iterable
from pathlib import Path

from msgspec import structs

from ozzie_server_ext.gateway.openapi import document
from ozzie_server_ext.gateway.operation import Operation
from ozzie_server_ext.gateway.routes import METHODS, PREFIX, REST
from tests.docs.generated import replaced

SPEC = Path(__file__).resolve().parents[2] / "SPEC.md"
_KERNELS = {"none": "no", "own session": "its session", "own task": "its session's tasks", "all": "yes"}


def websocket() -> str:
    """Each method with its parameters, whether a kernel may use it, and what it does."""
    rows = [
        (
            f"`{name}`",
            _names(field.name for field in structs.fields(each.request_type)),
            _KERNELS[each.kernels],
            _summary(each),
        )
        for name, each in METHODS.items()
    ]
    return _table(("Method", "Parameters", "Kernels", "What it does"), rows)


def rest() -> str:
    """Each operation with its parameters or fields, its answers, and what it does."""
    rows = [(f"`{each.method} {each.path}`", _names(each.beside_path), _answers(each), _summary(each)) for each in REST]
    return _table(("Operation", "Parameters or fields", "Answer", "What it does"), rows)


def with_tables(page: str) -> str:
    """Return the page with the tables as the code has them. Raises LookupError if it has no place for one."""
    return replaced(replaced(page, "websocket", websocket()), "rest", rest())


def _summary(operation: Operation) -> str:
    return " ".join(operation.description.partition("\n\n")[0].split())


def _answers(operation: Operation) -> str:
    described = document(REST, PREFIX)["paths"][operation.path][operation.method.lower()]["responses"]
    found: list[str] = []
    for status in operation.answers:
        content = described[str(status)].get("content", {})
        reference = content.get("application/json", {}).get("schema", {}).get("$ref", "")
        name = f"`{reference.rpartition('/')[2]}`" if reference else ("a file" if "*/*" in content else "")
        found.append(" ".join(filter(None, [str(status) if status != 200 else "", name])))
    return " or ".join(filter(None, found))


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


if __name__ == "__main__":
    SPEC.write_text(with_tables(SPEC.read_text()))
