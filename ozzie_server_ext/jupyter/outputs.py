"""What a kernel shows, as inert outputs of nbformat 4.5: text, and pictures of pixels.

HTML, scripts, SVG, widgets, Markdown and LaTeX are left out: opening the notebook would run, load or trust them.
"""

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.protocol.jsontext import repair_text

MOST_CHARACTERS = 4 * 1024 * 1024
"""Limit on all texts of one run together."""
MOST_PICTURES = 8 * 1024 * 1024
"""Limit on all its pictures together, as base64."""
MOST_OUTPUTS = 500
LONGEST_KIND = 100
MOST_KINDS = 20
"""How many media types that are left out are reported."""

_MAGIC = {"image/png": b"\x89PNG\r\n\x1a\n", "image/jpeg": b"\xff\xd8\xff"}
_STREAMS = ("stdout", "stderr")
# Control sequences with parameters (CSI), strings up to their end (OSC, DCS, and so on), and short ones.
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,8}[@-~]"
    r"|\x1b[\]PX^_][^\x07\x1b\x9c]{0,4096}(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]{0,4}[0-~]?"
)
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


class Outputs:
    """Collects what one run shows, up to a limit."""

    def __init__(self) -> None:
        self._outputs: list[JsonObject] = []
        self._streamed: list[str] = []
        """The pieces of the last output, if that is a stream."""
        self._displays: dict[str, int] = {}
        self._kinds: dict[str, None] = {}
        self._text_room = MOST_CHARACTERS
        self._picture_room = MOST_PICTURES
        self._clears = False
        self.is_cut = False

    @property
    def left_out(self) -> tuple[str, ...]:
        """The media types of what is not shown."""
        return tuple(self._kinds)

    def take(self, kind: str, content: Mapping[str, Any]) -> str:
        """Take a kernel's message; return its text that can be shown at once. After the limit, nothing is taken."""
        if self.is_cut:
            return ""
        match kind:
            case "stream":
                return self._stream(content)
            case "display_data" | "execute_result" | "update_display_data":
                return self._display(kind, content)
            case "error":
                return self._error(content)
            case "clear_output":
                self._clears = True
                if not content.get("wait"):
                    self._clear()
            case _:
                pass
        return ""

    def done(self) -> tuple[JsonObject, ...]:
        """Return all outputs."""
        self._close_stream()
        return tuple(self._outputs)

    def _stream(self, content: Mapping[str, Any]) -> str:
        name = content.get("name")
        text = self._within_limit(_text(content.get("text")))
        if name not in _STREAMS or not text:
            return ""
        self._clear()
        if not self._streamed or self._outputs[-1].get("name") != name:
            self._add({"output_type": "stream", "name": cast(str, name), "text": ""})
        self._streamed.append(text)
        return plain(text)

    def _display(self, kind: str, content: Mapping[str, Any]) -> str:
        raw = content.get("data")
        data = self._inert(raw if isinstance(raw, dict) else {})
        transient = content.get("transient")
        display_id = transient.get("display_id") if isinstance(transient, dict) else None
        known = self._displays.get(display_id) if isinstance(display_id, str) else None
        if kind == "update_display_data":
            if known is not None and data:
                self._give_back(self._outputs[known]["data"])
                self._outputs[known]["data"] = data
            return ""
        if not data:
            return ""
        self._clear()
        output: JsonObject = {"output_type": kind, "data": data, "metadata": {}}
        if kind == "execute_result":
            output["execution_count"] = count_of(content)
        self._add(output)
        if isinstance(display_id, str):
            self._displays[display_id] = len(self._outputs) - 1
        text = data.get("text/plain")
        return f"{text}\n" if isinstance(text, str) else ""

    def _error(self, content: Mapping[str, Any]) -> str:
        lines = content.get("traceback")
        traceback = [plain(_text(line)) for line in lines if line] if isinstance(lines, list) else []
        kept = self._within_limit("\n".join(traceback))
        self._clear()
        self._add(
            {
                "output_type": "error",
                "ename": plain(_text(content.get("ename")))[:1000],
                "evalue": plain(_text(content.get("evalue")))[:10_000],
                "traceback": [*kept.split("\n")] if kept else [],
            }
        )
        return f"{kept}\n" if kept else ""

    def _inert(self, bundle: Mapping[str, Any]) -> JsonObject:
        """Return the part of a bundle that may be put into a notebook."""
        data: JsonObject = {}
        for kind, value in bundle.items():
            if kind == "text/plain":
                data[kind] = self._within_limit(plain(_text(value)))
            elif kind in _MAGIC and (picture := _picture(kind, value)):
                if len(picture) > self._picture_room:
                    self.is_cut = True
                    continue
                self._picture_room -= len(picture)
                data[kind] = picture
            elif len(self._kinds) < MOST_KINDS:
                self._kinds[plain(_text(kind))[:LONGEST_KIND]] = None
        return data

    def _give_back(self, data: Json) -> None:
        """Free the room of an output that is replaced."""
        for kind, value in data.items() if isinstance(data, dict) else ():
            if kind in _MAGIC:
                self._picture_room += len(str(value))
            else:
                self._text_room += len(str(value))

    def _within_limit(self, text: str) -> str:
        if len(text) > self._text_room:
            self.is_cut = True
            text = text[: self._text_room]
        self._text_room -= len(text)
        return text

    def _add(self, output: JsonObject) -> None:
        self._close_stream()
        self._outputs.append(output)
        if len(self._outputs) >= MOST_OUTPUTS:
            self.is_cut = True

    def _close_stream(self) -> None:
        if self._streamed:
            self._outputs[-1]["text"] = settled(plain("".join(self._streamed)))
            self._streamed = []

    def _clear(self) -> None:
        """Clear the outputs if the code requested that before, as a page does."""
        if self._clears:
            self._clears = False
            self._outputs, self._streamed, self._displays = [], [], {}
            self._text_room, self._picture_room = MOST_CHARACTERS, MOST_PICTURES


def count_of(content: Mapping[str, Any]) -> int | None:
    """Return the cell number in a message."""
    count = content.get("execution_count")
    return count if isinstance(count, int) and not isinstance(count, bool) and count >= 0 else None


def plain(text: str) -> str:
    """Return `text` without terminal escape sequences and other control characters."""
    return _CONTROLS.sub("", _ESCAPES.sub("", text))


def settled(text: str) -> str:
    """Return text as a terminal finally shows it: of an overwritten line, such as a progress bar, the last form."""
    if "\r" not in text:
        return text
    lines = text.replace("\r\n", "\n").split("\n")
    return "\n".join(line.rstrip("\r").rsplit("\r", 1)[-1] for line in lines)


def text_of(outputs: Iterable[JsonObject]) -> str:
    """Return the readable text of outputs, in their order."""
    pieces: list[str] = []
    for output in outputs:
        text = _readable(output)
        if text:
            pieces.append(text if text.endswith("\n") else f"{text}\n")
    return "".join(pieces).removesuffix("\n")


def pictures_of(outputs: Iterable[JsonObject]) -> tuple[tuple[str, bytes], ...]:
    """Return the media type and content of each picture among outputs."""
    found: list[tuple[str, bytes]] = []
    for output in outputs:
        data = output.get("data")
        if isinstance(data, dict):
            found += [(kind, base64.b64decode(str(data[kind]))) for kind in _MAGIC if kind in data]
    return tuple(found)


def raised_in(outputs: Iterable[JsonObject]) -> str:
    """Return the error among outputs in one line; "" if there is none."""
    for output in outputs:
        if output.get("output_type") == "error":
            return ": ".join(filter(None, [str(output.get("ename", "")), str(output.get("evalue", ""))]))
    return ""


def _readable(output: JsonObject) -> str:
    match output.get("output_type"):
        case "stream":
            return str(output["text"])
        case "error":
            lines = output["traceback"]
            text = "\n".join(map(str, lines)) if isinstance(lines, list) else ""
            return text or raised_in([output])
        case _:
            data = output.get("data")
            return str(data.get("text/plain", "")) if isinstance(data, dict) else ""


def _picture(kind: str, value: object) -> str:
    """Return a picture as base64 if it is what it claims to be, else ""."""
    if not isinstance(value, str) or len(value) > MOST_PICTURES:
        return ""
    try:
        content = base64.b64decode("".join(value.split()), validate=True)
    except (binascii.Error, ValueError):
        return ""
    return base64.b64encode(content).decode() if content.startswith(_MAGIC[kind]) else ""


def _text(value: Any) -> str:
    """Return a text, which may come as a list of lines; "" for anything else."""
    if isinstance(value, list):
        value = "".join(line for line in cast(list[Json], value) if isinstance(line, str))
    return repair_text(value) if isinstance(value, str) else ""
