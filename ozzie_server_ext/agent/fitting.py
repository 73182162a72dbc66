"""Looking at schemas and answers, in a process of its own each time: a schema of a kilobyte can mean work without end,
and the gateway has others to serve."""

from ozzie_server_ext.agent.shape import UnfitAnswer, expect_bounded, refused
from ozzie_server_ext.domain.errors import Unavailable
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.planes.errand import ErrandEnded, ErrandFailed, run_errand
from ozzie_server_ext.protocol.jsontext import canonical_bytes, loads_object

_PROGRAM = "ozzie_server_ext.programs.fits"
_log = logger(__name__)


async def expect_schema(schema: JsonObject) -> None:
    """Raises InputError where `schema` is none that `shape.check_schema` takes, or where that can't be seen within
    seconds; Unavailable where nothing can be looked at."""
    expect_bounded(schema)
    try:
        told = await _looked_at({"schema": schema})
    except ErrandEnded:
        raise refused("The schema takes too much time or memory to be looked at.") from None
    if sentence := told.get("refused"):
        raise refused(str(sentence))


async def find_misfit(schema: JsonObject, text: str) -> str:
    """What `shape.misfit` finds. Raises UnfitAnswer where it comes to no end, Unavailable where nothing can be looked
    at."""
    try:
        told = await _looked_at({"schema": schema, "text": text})
    except ErrandEnded:
        raise UnfitAnswer(
            "Whether the answer fits the schema can't be found out: it takes too much time or memory.",
            hint="The answer is kept. Make the schema simpler.",
        ) from None
    return str(told["problem"])


async def _looked_at(asked: JsonObject) -> JsonObject:
    try:
        return loads_object(await run_errand(_PROGRAM, canonical_bytes(asked)))
    except ErrandEnded:
        raise
    except ErrandFailed as error:
        _log.warning("nothing can be looked at by a schema: %s", error)
        raise Unavailable(
            "The process that looks at JSON Schemas failed.",
            hint="The log of Ozzie has the details. Try again once that is mended.",
            code="schema.unavailable",
        ) from None
