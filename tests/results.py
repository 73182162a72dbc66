"""A tool's result as a model reads it."""

import json


def short(result: str) -> str:
    """Its data as JSON; of a failure the error, and only its message if it has a code and no more."""
    found = json.loads(result)
    if found["ok"]:
        return json.dumps(found["data"], separators=(",", ":"))
    error = found["error"]
    told = error["message"] if set(error) == {"code", "message"} else error
    return json.dumps({"error": told}, separators=(",", ":"), ensure_ascii=False)
