"""Keeping large results out of the conversation: the whole becomes an artifact, its beginning and end stay (TL-5)."""

import hashlib
import json
from dataclasses import dataclass

from ozzie_server_ext.domain.artifacts import ArtifactKind
from ozzie_server_ext.domain.ids import ArtifactId
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.protocol.jsontext import canonical_bytes
from ozzie_server_ext.tools.pages import count_lines, head_and_tail


@dataclass(frozen=True, slots=True, kw_only=True)
class LargeResult:
    """A result that is too large for the conversation, as text: its own where it is one, else indented JSON."""

    text: str
    kind: ArtifactKind
    mime: str

    def name(self, tool: str, args: JsonObject) -> str:
        """What the same call of the same tool always gets, so that its next result is a version of this one."""
        call = hashlib.sha256(canonical_bytes(args)).hexdigest()[:8]
        return f"{tool}-{call}.{'json' if self.kind == 'json' else 'txt'}"

    def excerpt(self, artifact_id: ArtifactId, max_chars: int) -> JsonObject:
        """What the model reads instead, and how it reads on."""
        head, tail = head_and_tail(self.text, max_chars)
        lines, characters = count_lines(self.text), len(self.text)
        read_on = f'artifact_id "{artifact_id}"'
        if head.next is not None:
            read_on += f", first_line {head.next.line}"
            if head.next.character > 1:
                read_on += f", first_character {head.next.character}"
        return {
            "cut": True,
            "head": head.text,
            "tail": tail,
            "lines": lines,
            "characters": characters,
            "artifact": artifact_id,
            "note": f"This is the beginning and the end. To read on behind `head`: read_artifact with {read_on}.",
        }


def large(data: Json, max_chars: int) -> LargeResult | None:
    """The result as it is kept apart where its JSON has more than `max_chars` characters; None where it fits.

    Raises InvalidJson.
    """
    raw = canonical_bytes(data)
    if len(raw) <= max_chars or len(raw.decode()) <= max_chars:
        return None
    if isinstance(data, str):
        return LargeResult(text=data, kind="log", mime="text/plain")
    text = json.dumps(data, ensure_ascii=False, sort_keys=True, indent=1)
    return LargeResult(text=text, kind="json", mime="application/json")
