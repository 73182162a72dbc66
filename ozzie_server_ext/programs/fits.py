"""Checks a JSON Schema, and whether an answer matches it, in a separate process because that may never end.

`python -m ozzie_server_ext.programs.fits` reads `{"schema": …, "text": …}`; without a text, it checks the schema alone.
It writes `{"problem": …}`, empty if all is well, or `{"refused": …}` for an invalid schema. `agent.structured_output`
starts it.
"""

import sys

from ozzie_server_ext.agent.structured_output import check_schema, misfit
from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.planes.child import limit_child
from ozzie_server_ext.protocol.jsontext import canonical_bytes, loads_object

NICE = 10
MAX_CPU_S = 2
MAX_MEMORY = 1 << 30
_MAX_BYTES = 16 << 20
"""The gateway bounds text and schema; this leaves room for JSON escapes."""


def main() -> None:
    limit_child(cpu_s=MAX_CPU_S, memory=MAX_MEMORY, nice=NICE)
    request = loads_object(sys.stdin.buffer.read(), max_bytes=_MAX_BYTES)
    sys.stdout.buffer.write(canonical_bytes(_answer(request)))


def _answer(request: JsonObject) -> JsonObject:
    schema, text = request["schema"], request.get("text")
    assert isinstance(schema, dict)
    if isinstance(text, str):
        return {"problem": misfit(schema, text)}
    try:
        check_schema(schema)
    except InputError as error:
        return {"refused": str(error)}
    return {"problem": ""}


if __name__ == "__main__":
    main()
