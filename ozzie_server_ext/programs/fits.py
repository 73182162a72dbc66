"""Whether a schema is one, and whether an answer fits it: in a process of its own, as it may come to no end.

`python -m ozzie_server_ext.programs.fits` reads `{"schema": …, "text": …}`, without a text for the schema alone, and
writes `{"problem": …}`, empty where all is well, or `{"refused": …}` for what is no schema. `agent.structured_output`
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
"""Text and schema are bounded before; this is for what the escapes of JSON make of them."""


def main() -> None:
    limit_child(cpu_s=MAX_CPU_S, memory=MAX_MEMORY, nice=NICE)
    asked = loads_object(sys.stdin.buffer.read(), max_bytes=_MAX_BYTES)
    sys.stdout.buffer.write(canonical_bytes(_answer(asked)))


def _answer(asked: JsonObject) -> JsonObject:
    schema, text = asked["schema"], asked.get("text")
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
