"""Stepping through a recorded session in a console: a line for each event, and once what it brought to the page."""

import asyncio
from collections.abc import Callable

from ozzie_kernel.keyboard import Keyboard
from ozzie_kernel.recording import MORE, Moment, Place, Recording, pause_between
from ozzie_server_ext.render.console import ConsoleWriter, approval_lines, question_lines, quoted_lines
from ozzie_server_ext.render.graph.output import GraphWriter
from ozzie_server_ext.render.text import visible_prose

HELP = (
    "Enter  the next event        b      one event back       3      to turn 3\n"
    "n      the next turn         p      play this turn       p 16   16 times as fast\n"
    "a      all the rest          q      leave the replay\n"
)
END = "This is the end of the session. Enter leaves the replay.\n"
PROMPT = "replay> "
MOST_LINES = 10_000
"""Lines that a person types; closed input returns empty ones for ever."""
FASTEST = 1000
SHORT_PAUSE_S = 0.05
"""Pauses that nobody sees: what comes after them is printed with what was before."""


class Stepping:
    """Steps through a recording for a person at a keyboard. `say` prints."""

    def __init__(self, recording: Recording, keyboard: Keyboard, say: Callable[[str], None]) -> None:
        self._recording = recording
        self._keyboard = keyboard
        self._say = say
        self._paper = _Paper()

    async def run(self, turn: int) -> None:
        """Step from the beginning of a turn until the person leaves. Raises as the recording."""
        moment = await self._recording.moment(await self._recording.begin_of(turn))
        # What is new is part of the prompt: other output comes another way, and often later.
        new = f"{HELP}{self._paper.text(moment)}"
        for _ in range(MOST_LINES):
            line = (await self._keyboard.read_line(f"{new}{PROMPT}")).strip()
            following = await self._recording.after(moment.place)
            if line == "q" or (following is None and line in ("", "n", "p")):
                return
            if line == "a":
                await self._rest(following)
                return
            if line == "p" or line.startswith("p "):
                speed = _number(line[1:] or "1", FASTEST)
                moment, new = await self._play(moment, speed) if speed else (moment, HELP)
            else:
                place = following if line == "" else await self._place(line, moment.place)
                moment = moment if place is None else await self._recording.moment(place)
                new = HELP if place is None else self._paper.text(moment)
            if new != HELP and await self._recording.after(moment.place) is None:
                new += END

    async def _place(self, line: str, place: Place) -> Place | None:
        """Return the place that a line asks for, seen from another; None if it asks for none."""
        turn = _number(line, self._recording.turns)
        if turn:
            return await self._recording.begin_of(turn)
        if line == "b":
            return await self._recording.before(place) or place
        if line == "n":
            return await self._recording.next_turn(place)
        return None

    async def _rest(self, following: Place | None) -> None:
        """Print all from a place on."""
        while following is not None:
            self._say(self._paper.text(await self._recording.moment(following)))
            await asyncio.sleep(0)  # or nobody could stop it
            following = await self._recording.after(following)

    async def _play(self, moment: Moment, speed: int) -> tuple[Moment, str]:
        """Print the rest of a turn in its own time, or all of the next one from the end of a turn. Return its end, and
        the text that is still to be printed."""
        new = ""
        following = await self._recording.after(moment.place)
        turn = moment.place.turn if following is None else following.turn
        while following is not None and following.turn == turn:
            after = await self._recording.moment(following)
            if (pause := pause_between(moment, after) / speed) > SHORT_PAUSE_S:
                self._say(new)
                new = ""
            await asyncio.sleep(pause)
            new += self._paper.text(after)
            moment = after
            following = await self._recording.after(moment.place)
        return moment, new


def _number(text: str, most: int) -> int:
    """Return the number that was typed, from 1 to `most`; 0 if it is none."""
    text = text.strip()
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 7 else 0
    return number if number <= most else 0


class _Paper:
    """Writes moments: of the next event, what is new; of any other, all that was on the page."""

    def __init__(self) -> None:
        self._last = Place(0, 0)
        self._begin()

    def _begin(self) -> None:
        self._writer = ConsoleWriter()
        self._graph = GraphWriter()
        self._asked: set[str] = set()

    def text(self, moment: Moment) -> str:
        """Return what is to be printed of a moment, in whole lines."""
        out: list[str] = []
        place, view = moment.place, moment.view
        if place.turn != self._last.turn:
            out.append(f"\nTurn {place.turn:,} of {moment.turns:,}, {moment.events:,} events\n")
        if place != Place(self._last.turn, self._last.event + 1):
            self._begin()
            out += _lines(quoted_lines(visible_prose(moment.message).splitlines()))
        out.append(f"{place.event:>5}  {moment.at.astimezone():%H:%M:%S}  {moment.name or 'This turn was erased.'}\n")
        if view is not None:
            out.append(self._writer.update(view, moment.at))
            for asked in view.asked:
                out += self._once(asked.approval_id, approval_lines(asked, moment.at))
            if view.question is not None:
                out += self._once(view.question.prompt_id, question_lines(view.question))
            if moment.graph is not None:
                out.append(self._graph.update(moment.graph, moment.at))
        if moment.is_cut and place.event == moment.events:
            out.append(f"{MORE}\n")
        self._last = place
        written = "".join(out)
        return written if written.endswith("\n") else f"{written}\n"  # a text that was not complete then

    def _once(self, key: str, lines: list[str]) -> list[str]:
        """Return the lines of a question, unless they were printed."""
        is_new = key not in self._asked
        self._asked.add(key)
        return _lines(lines) if is_new else []


def _lines(lines: list[str]) -> list[str]:
    return [f"{line}\n" for line in lines]
