"""The player of a recorded session in a notebook: buttons, a line to pick an event from, and what the page showed then.

It works as long as the kernel does, also after its cell. Nothing runs during a replay.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from html import escape
from logging import Logger
from typing import TYPE_CHECKING, Any

from ozzie_kernel.display import CHARACTERS_PER_S, Publisher, live_picture
from ozzie_kernel.recording import MORE, Moment, Place, Recording, pause_between
from ozzie_kernel.widgets import box_of, close_all, html_widget, widget_output
from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.render.live import LiveTurn
from ozzie_server_ext.render.page import Strong, page_bundle, paragraph
from ozzie_server_ext.render.text import counted, visible_label, visible_prose

if TYPE_CHECKING:
    from ipywidgets import DOMWidget

BY_TURN = 0
SPEEDS = (("1×", 1), ("4×", 4), ("16×", 16), ("by turn", BY_TURN))
"""What can be chosen: how much faster than it was, or a turn at a time."""
MOST_PLAYERS = 8
"""Players of a kernel; each keeps what the page showed in a few turns."""
REPLAY_MIME = "application/vnd.ozzie.replay+json"
"""Marks a player, so that our page can show the saved text where its kernel is gone."""
TURN_S = 1.0
"""How long a turn is shown, a turn at a time."""

_STYLE = """<style>
.oz-still .oz-spin { animation: none; }
.oz-still .oz-said { white-space: pre-wrap; margin: 0 0 4px; padding: 4px 6px; overflow-wrap: anywhere;
  font: var(--jp-code-font-size, 13px)/var(--jp-code-line-height, 1.3) var(--jp-code-font-family, monospace);
  color: var(--jp-content-font-color1, inherit); background: var(--jp-cell-editor-background, transparent);
  border: 1px solid var(--jp-cell-editor-border-color, #bdbdbd); }
.oz-still .oz-later { color: var(--jp-ui-font-color2, inherit); font: 12px/20px var(--jp-ui-font-family, sans-serif);
  margin: 4px 0 0; }
</style>"""


Act = Callable[[], Coroutine[Any, Any, None]]


class Player:
    """Plays a recording. Made and used in the kernel's loop; its widgets may report from other threads."""

    def __init__(self, recording: Recording, log: Logger) -> None:
        from ipywidgets import Button, Dropdown, HBox, IntSlider, Layout

        self._recording = recording
        self._log = log
        self._loop = asyncio.get_running_loop()
        self._place = Place(1, 1)
        self._moment: Moment | None = None
        self._live = LiveTurn(is_record=True)
        self._drawn_turn = 0
        self._playing: asyncio.Task[None] | None = None
        self._one = asyncio.Lock()
        self._working: set[asyncio.Task[None]] = set()
        self._picked: Place | None = None
        self._not_before = 0.0

        def button(words: str, says: str, act: Act) -> Button:
            made = Button(description=words, tooltip=says, layout=Layout(width="auto"))
            made.on_click(lambda _: self._do(act))
            return made

        self._play = button("Play", "Play from here, or pause", self._toggle)
        buttons = [
            button("← Turn", "Previous turn", self._previous_turn),
            button("← Event", "Previous event", self._back),
            self._play,
            button("Event →", "Next event", self._forward),
            button("Turn →", "Next turn", self._next_turn),
        ]
        self._speed: Any = Dropdown(options=SPEEDS, value=4, layout=Layout(width="90px"))
        names = [(visible_label(f"Turn {number}: {title}"), number) for number, title in enumerate(recording.titles, 1)]
        self._turn = Dropdown(options=names, layout=Layout(width="260px", max_width="100%"))
        self._event = IntSlider(min=1, max=1, readout=False, layout=Layout(width="auto", flex="1 1 auto"))
        self._turn.observe(self._pick_turn, "value")
        self._event.observe(self._pick_event, "value")
        self._where = html_widget("")
        self._page = html_widget("")
        bar = HBox([*buttons, self._speed, self._turn, self._event], layout=Layout(flex_flow="row wrap"))
        self.widget: DOMWidget = box_of([bar, self._where, self._page])

    async def begin(self, turn: int) -> None:
        """Show the beginning of a turn. Raises as the recording."""
        await self._show(await self._recording.begin_of(turn))

    def close(self) -> None:
        """Play no more, and take the widgets away."""
        self._pause()
        close_all(self.widget)

    # --- what a person does -------------------------------------------------------------------------------

    def _do(self, act: Act) -> None:
        """Do what a person asked for, after what they asked for before. Callable from any thread."""
        self._loop.call_soon_threadsafe(self._begin, act)

    def _begin(self, act: Act) -> None:
        task = asyncio.create_task(self._in_turn(act))
        self._working.add(task)
        task.add_done_callback(self._working.discard)

    async def _in_turn(self, act: Act) -> None:
        async with self._one:
            if act != self._toggle:
                self._pause()
            await self._guarded(act)

    async def _guarded(self, act: Act) -> None:
        """Run it; show in words why it failed: the gateway can't be reached, or the session was erased."""
        try:
            await act()
        except OzzieError as error:
            self._where.value = f"{escape(str(error))} {escape(error.hint)}"
        except Exception as error:
            self._log.exception("a replay broke")
            self._where.value = f"Ozzie made a mistake of its own ({type(error).__name__}). Run the cell again."

    def _pick_turn(self, change: Any) -> None:
        if int(change["new"]) != self._place.turn:  # else it only says what is shown
            self._pick(Place(int(change["new"]), 0))

    def _pick_event(self, change: Any) -> None:
        if int(change["new"]) != max(self._place.event, 1):
            self._pick(Place(self._place.turn, int(change["new"])))

    def _pick(self, place: Place) -> None:
        """Go to a place, event 0 for the beginning of its turn. Who drags passes many: only the last one is shown."""
        self._picked = place
        self._do(self._go_to_picked)

    async def _go_to_picked(self) -> None:
        place, self._picked = self._picked, None
        if place is not None:
            await self._show(place if place.event else await self._recording.begin_of(place.turn))

    async def _forward(self) -> None:
        await self._to(await self._recording.after(self._place))

    async def _back(self) -> None:
        await self._to(await self._recording.before(self._place))

    async def _next_turn(self) -> None:
        await self._show(await self._recording.next_turn(self._place))

    async def _previous_turn(self) -> None:
        begin = await self._recording.begin_of(self._place.turn)
        at_begin = self._place == begin and begin.turn > 1
        await self._to(await self._recording.begin_of(begin.turn - 1) if at_begin else begin)

    async def _to(self, place: Place | None) -> None:
        if place is not None:
            await self._show(place)

    # --- playing ------------------------------------------------------------------------------------------

    async def _toggle(self) -> None:
        if self._playing is not None:
            self._pause()
            return
        if await self._recording.after(self._place) is None:
            await self.begin(1)
        playing = self._playing = asyncio.create_task(self._guarded(self._go_on))
        playing.add_done_callback(self._rest)
        self._play.description = "Pause"

    def _pause(self) -> None:
        if self._playing is not None:
            self._playing.cancel()
            self._rest(self._playing)

    def _rest(self, playing: "asyncio.Task[None]") -> None:
        """Offer to play, unless it has been asked for again since."""
        if self._playing is playing:
            self._playing = None
            self._play.description = "Play"
            if self._moment is not None:
                self._draw(self._moment)  # the last ones may have come too fast to be drawn

    async def _go_on(self) -> None:
        """Show one event after the other, as fast as is chosen, to the end of the session."""
        while (moment := self._moment) is not None and (following := await self._following(moment.place)) is not None:
            speed = int(self._speed.value)
            after = await self._recording.moment(following)
            await asyncio.sleep(TURN_S if speed == BY_TURN else pause_between(moment, after) / speed)
            if time.monotonic() >= self._not_before:
                self._draw(after)
            else:
                self._moment, self._place = after, after.place

    async def _following(self, place: Place) -> Place | None:
        """Return what to show next: the next event or, a turn at a time, the end of this turn or of the next one."""
        following = await self._recording.after(place)
        if following is None or int(self._speed.value) != BY_TURN:
            return following
        return await self._recording.end_of(following.turn)

    # --- what is shown ------------------------------------------------------------------------------------

    async def _show(self, place: Place) -> None:
        self._draw(await self._recording.moment(place))

    def _draw(self, moment: Moment) -> None:
        if moment.place.turn != self._drawn_turn:
            self._live, self._drawn_turn = LiveTurn(is_record=True), moment.place.turn
        self._moment, self._place = moment, moment.place
        self._turn.value = moment.place.turn
        # At once, also for the page: it would put a value beyond the new end back to the end, as if a person had.
        with self._event.hold_sync(), self._event.hold_trait_notifications():
            self._event.max = max(moment.events, 1)
            self._event.value = max(moment.place.event, 1)
        self._where.value = f'<div class="oz">{escape(where(moment))}</div>'
        html = self._drawn(moment)
        self._not_before = time.monotonic() + len(html) / CHARACTERS_PER_S
        self._page.value = html

    def _drawn(self, moment: Moment) -> str:
        if moment.view is None:
            return "<p>This turn was erased.</p>"
        said = f'<pre class="oz-said">{escape(visible_prose(moment.message))}</pre>' if moment.message else ""
        picture = "" if moment.graph is None else live_picture(moment.graph)
        left = moment.events - moment.place.event
        later = f"{counted(left, 'later event')} of this turn {'is' if left == 1 else 'are'} not shown yet. "
        later = later if left else f"{MORE} " if moment.is_cut else ""
        below = f"{later}Nothing runs during a replay."
        turn = self._live.html(moment.view, moment.at)
        return f'{_STYLE}<div class="oz-still">{said}{turn}{picture}<p class="oz-later">{below}</p></div>'


def where(moment: Moment) -> str:
    """Return the place and the time of what is shown, in words."""
    at = f"{moment.at.astimezone():%Y-%m-%d %H:%M:%S}"
    turn = f"turn {moment.place.turn:,} of {moment.turns:,}"
    if not moment.name:
        return f"T{turn[1:]} · {at}"
    return f"Event {moment.place.event:,} of {moment.events:,} in {turn} · {at} · {moment.name}"


class Players:
    """The players of a kernel's cells, one for each cell; the oldest give way."""

    def __init__(self, publisher: Publisher, log: Logger) -> None:
        self._publisher = publisher
        self._log = log
        self._open: dict[str, Player] = {}

    async def play(self, recording: Recording, turn: int, cell_id: str) -> None:
        """Show a recording in the running cell, from a turn on. Raises as the recording."""
        player = Player(recording, self._log)
        await player.begin(turn)
        self._close(cell_id)
        self._open[cell_id] = player
        while len(self._open) > MOST_PLAYERS:
            self._close(next(iter(self._open)))
        turns = counted(recording.turns, "turn")
        title = Strong(recording.title or "a session without a title")
        saved = page_bundle([paragraph("Replay of ", title, f", {turns}. Run this cell to step through it.")])
        self._publisher.publish("display_data", widget_output(player.widget, {**saved, REPLAY_MIME: {}}))

    def _close(self, cell_id: str) -> None:
        if (player := self._open.pop(cell_id, None)) is not None:
            player.close()
