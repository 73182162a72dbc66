"""A recorded session of a real gateway, place by place, and its player's widgets without a page."""

import asyncio
import gc
import logging
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from ipywidgets import Button, Dropdown, IntSlider
from ipywidgets.widgets.widget import _instances  # the public name of it is deprecated

from ozzie_kernel import recording as recordings
from ozzie_kernel.player import BY_TURN, Player
from ozzie_kernel.recording import Moment, Place, Recording, pause_between
from ozzie_kernel.stepping import Stepping
from ozzie_server_ext.domain.errors import Unavailable
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.gateway.routes import PREFIX
from tests.integration.gateway.asked import asked
from tests.integration.gateway.test_rest import get, post, until
from tests.integration.gateway.walk import ask
from tests.rig import Gateway
from tests.ws_client import WsClient, connected

LOG = logging.getLogger("replay")


class Asked:
    """Asks a gateway as the kernel does for its user."""

    def __init__(self, client: WsClient) -> None:
        self._client = client
        self.methods: list[str] = []
        self.lost = self.broken = False

    async def __call__(self, method: str, params: JsonObject) -> JsonObject:
        self.methods.append(method)
        if self.broken:
            raise ValueError("not a refusal of the gateway")
        if self.lost:
            raise Unavailable("Ozzie's gateway can't be reached.", hint="Run the cell again.", code="gateway.lost")
        answer = await self._client.request(method, **params)
        assert answer["ok"], answer
        return answer["payload"]


@asynccontextmanager
async def recorded(gateway: Gateway, session_id: str) -> AsyncIterator[tuple[Recording, Asked]]:
    turns = get(gateway, f"sessions/{session_id}/turns")["items"]
    async with connected(gateway) as client:
        asked = Asked(client)
        yield Recording(session_id, "Two words", turns, asked), asked


async def walk(recording: Recording) -> list[Moment]:
    place: Place | None = await recording.begin_of(1)
    moments: list[Moment] = []
    while place is not None:
        moments.append(await recording.moment(place))
        place = await recording.after(place)
    return moments


@pytest.fixture
def gateway(shared_gateway: Gateway) -> Gateway:
    return shared_gateway


@pytest.fixture
def session(gateway: Gateway) -> str:
    """Two turns, of which the second asks for a yes and is stopped."""
    first = str(post(gateway, "message", content="What is 2+2? Use the calculator.", wait=True)["session_id"])
    task_id = asked(gateway, session=None, session_id=first)["task_id"]
    post(gateway, f"tasks/{task_id}/cancel")
    until(lambda: get(gateway, f"tasks/{task_id}")["status"] == "CANCELLED")
    return first


async def test_each_place_shows_what_the_page_showed_then(gateway: Gateway, session: str) -> None:
    async with recorded(gateway, session) as (recording, _):
        moments = await walk(recording)

    seen = [moment.view for moment in moments if moment.view is not None]
    assert {moment.message for moment in moments if moment.place.turn == 1} == {"What is 2+2? Use the calculator."}
    statuses = list(dict.fromkeys((moment.place.turn, view.status) for moment, view in zip(moments, seen, strict=True)))
    assert statuses == [
        (1, "Queued"),
        (1, "Working"),
        (1, "Done"),
        (2, "Queued"),
        (2, "Working"),
        (2, "Waiting for you"),
        (2, "Stopped"),
    ]
    assert {moment.place.turn for moment, view in zip(moments, seen, strict=True) if view.asked} == {2}
    assert [moment.at for moment in moments] == sorted(moment.at for moment in moments)


async def test_the_way_back_is_the_way_forward(gateway: Gateway, session: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recordings, "PAGE", 4)  # several pages for each turn
    monkeypatch.setattr(recordings, "MARK_EACH", 3)
    async with recorded(gateway, session) as (recording, _):
        forward = [moment.place for moment in await walk(recording)]
        backward = [forward[-1]]
        while (place := await recording.before(backward[-1])) is not None:
            backward.append(place)

        assert backward[::-1] == forward
        there = [await recording.moment(place) for place in forward]
        assert [await recording.moment(place) for place in backward[::-1]] == there
        assert await recording.next_turn(Place(1, 3)) == Place(2, 1)
        assert await recording.next_turn(Place(2, 1)) == forward[-1] == await recording.end_of(2)
        assert (await recording.moment(Place(2, 9_999))).place == forward[-1]


async def test_turns_that_were_just_shown_are_not_asked_for_again(gateway: Gateway, session: str) -> None:
    async with recorded(gateway, session) as (recording, asking):
        await walk(recording)
        first = len(asking.methods)
        await walk(recording)

    assert len(asking.methods) == first


async def test_of_the_turn_that_a_fork_cuts_only_the_shared_events_are_shown(gateway: Gateway, session: str) -> None:
    first = get(gateway, f"sessions/{session}/turns")["items"][0]
    events = get(gateway, f"events?task_id={first['task_id']}")["items"]
    cut = next(at for at, event in enumerate(events) if event["type"] == "model.call.started")
    fork = post(gateway, f"sessions/{session}/fork", event=events[cut]["position"])["session"]["id"]

    async with recorded(gateway, fork) as (recording, _):
        moments = await walk(recording)

    assert [moment.name for moment in moments] == [event["name"] for event in events[: cut + 1]]


def erase_turn(gateway: Gateway, session: str, number: int) -> None:
    turn = get(gateway, f"sessions/{session}/turns")["items"][number - 1]
    (event,) = get(gateway, f"events?task_id={turn['task_id']}&type=message.received")["items"]
    path = f"{PREFIX}/messages/{event['payload']['message_id']}"
    status, told = ask(gateway, "DELETE", path, token=gateway.token)
    assert status == 200, told


async def test_an_erased_turn_says_so_and_is_stepped_over(gateway: Gateway, session: str) -> None:
    erase_turn(gateway, session, 1)

    async with recorded(gateway, session) as (recording, _):
        moments = await walk(recording)
        player = Player(recording, LOG)
        await player.begin(1)
        shown = Page(player)
        assert "Turn 1 of 2" in shown.text
        assert "This turn was erased." in shown.text
        await shown.press("Event →", "Event 1 of ")

    assert recording.titles == ["(erased)", "Write a 3-line note to notes/a.md"]
    assert (moments[0].place, moments[0].view, moments[0].name) == (Place(1, 0), None, "")
    assert moments[1].place == Place(2, 1)


def test_a_wait_is_as_long_as_it_was_and_a_long_one_is_cut() -> None:
    def at(seconds: float) -> Moment:
        when = datetime(2026, 5, 1, tzinfo=UTC) + timedelta(seconds=seconds)
        return Moment(
            place=Place(1, 1), turns=1, events=1, is_cut=False, at=when, name="x", message="", view=None, graph=None
        )

    assert [pause_between(at(0), at(seconds)) for seconds in (0.0, 0.25, 3600, -5)] == [0.0, 0.25, 1.0, 0.0]


# --- the player -------------------------------------------------------------------------------------------------


class Page:
    """A player as a person uses it."""

    def __init__(self, player: Player) -> None:
        bar, self._where, self._shown = cast(Any, player.widget).children
        self._controls = list(bar.children)
        self._news = asyncio.Event()
        self.drawn: list[str] = []
        self._shown.observe(lambda change: self.drawn.append(change["new"]), "value")
        for widget in (self._where, self._shown, *self._controls):
            widget.observe(lambda _: self._news.set())

    @property
    def text(self) -> str:
        return f"{self._where.value} {self._shown.value}"

    @property
    def buttons(self) -> dict[str, Button]:
        return {str(each.description): each for each in self._controls if isinstance(each, Button)}

    def choose(self, kind: type[Dropdown | IntSlider], value: int, at: int = 0) -> None:
        [each for each in self._controls if isinstance(each, kind)][at].value = value

    def speed(self, speed: int) -> None:
        self.choose(Dropdown, speed)

    async def press(self, name: str, then: str = "") -> None:
        self.buttons[name].click()
        await self.until(then)

    async def until(self, text: str) -> None:
        async with asyncio.timeout(30):
            while text not in self.text:
                self._news.clear()
                await self._news.wait()

    async def rests(self) -> None:
        async with asyncio.timeout(30):
            while "Play" not in self.buttons:
                self._news.clear()
                await self._news.wait()


@pytest.fixture
async def page(gateway: Gateway, session: str) -> AsyncIterator[tuple[Page, Player, Asked]]:
    async with recorded(gateway, session) as (recording, asking):
        player = Player(recording, LOG)
        await player.begin(1)
        yield Page(player), player, asking
        player.close()


Opened = tuple[Page, Player, Asked]


async def test_buttons_go_by_event_and_by_turn(page: Opened) -> None:
    shown, _, _ = page
    assert "Event 1 of 15 in turn 1 of 2" in shown.text

    await shown.press("Event →", "Event 2 of 15 in turn 1 of 2")
    await shown.press("Turn →", "Event 1 of ")
    await shown.until("in turn 2 of 2")
    await shown.press("← Event", "Event 15 of 15 in turn 1 of 2")
    assert "later event" not in shown.text
    await shown.press("← Turn", "Event 1 of 15 in turn 1 of 2")
    shown.buttons["← Turn"].click()  # the beginning of the session is as far back as one can go
    shown.buttons["← Event"].click()
    await shown.press("Event →", "Event 2 of 15")
    assert "13 later events of this turn are not shown yet. Nothing runs during a replay." in shown.text


async def test_a_place_is_picked_from_the_line_and_a_turn_from_the_list(page: Opened) -> None:
    shown, _, _ = page

    shown.choose(IntSlider, 15)
    await shown.until("Event 15 of 15")
    assert "<strong>4</strong>" in shown.text
    shown.choose(Dropdown, 2, at=1)
    await shown.until("in turn 2 of 2")
    assert "Event 1 of " in shown.text
    shown.choose(Dropdown, 1, at=1)
    await shown.until("Event 1 of 15 in turn 1 of 2")


async def test_it_plays_to_the_end_and_then_again_from_the_beginning(page: Opened) -> None:
    shown, _, _ = page
    shown.speed(16)

    await shown.press("Play", "task.cancelled")
    await shown.rests()
    assert "Stopped" in shown.text
    shown.speed(BY_TURN)
    await shown.press("Play", "Event 1 of 15 in turn 1 of 2")
    await shown.until("Event 15 of 15 in turn 1 of 2")
    await shown.press("Pause")
    await shown.rests()
    assert "in turn 1 of 2" in shown.text


async def test_who_takes_a_step_while_it_plays_stops_it(page: Opened) -> None:
    shown, _, _ = page
    shown.speed(1)

    await shown.press("Play")
    await shown.press("Turn →", "in turn 2 of 2")

    await shown.rests()
    assert "Event 1 of " in shown.text


async def test_what_was_asked_is_shown_without_a_way_to_answer(page: Opened) -> None:
    shown, _, _ = page
    shown.choose(Dropdown, 2, at=1)
    await shown.until("Event 1 of ")
    for number in range(2, 12):
        await shown.press("Event →", f"Event {number} of ")

    assert "Approval needed" in shown.text
    assert "notes/a.md" in shown.text
    assert "ozzie approvals" not in shown.text


async def test_who_drags_sees_the_last_place_and_not_all_between(page: Opened) -> None:
    shown, _, _ = page
    before = len(shown.drawn)

    for _ in range(40):
        for event in range(2, 15):
            shown.choose(IntSlider, event)
    await shown.until("Event 14 of 15")

    assert len(shown.drawn) - before < 10


async def test_play_goes_over_an_erased_turn(gateway: Gateway, session: str) -> None:
    post(gateway, "message", content="Say hello.", session_id=session, wait=True)
    erase_turn(gateway, session, 2)
    async with recorded(gateway, session) as (recording, _):
        player = Player(recording, LOG)
        await player.begin(1)
        shown = Page(player)
        shown.speed(16)

        await shown.press("Play", "in turn 3 of 3")

        await shown.until("task.succeeded")
        player.close()
    assert "Turn 2 of 3" not in "".join(shown.drawn)


async def test_a_closed_player_leaves_nothing_behind(page: Opened) -> None:
    _, before, _ = page
    gc.collect()
    widgets = len(_instances)

    player = Player(before._recording, LOG)
    await player.begin(1)
    gone = weakref.ref(player)
    player.close()
    del player
    await asyncio.sleep(0)
    gc.collect()

    assert len(_instances) == widgets
    assert gone() is None


async def test_what_breaks_is_told_in_a_sentence_and_the_log_has_the_rest(
    page: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    shown, _, asking = page
    asking.broken = True

    await shown.press("Turn →", "Ozzie made a mistake of its own (ValueError). Run the cell again.")

    assert "a replay broke" in caplog.text


async def test_of_an_endless_turn_the_beginning_is_shown_and_it_says_so(
    gateway: Gateway, session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recordings, "MOST_EVENTS", 7)
    async with recorded(gateway, session) as (recording, _):
        player = Player(recording, LOG)
        await player.begin(1)
        shown = Page(player)
        shown.choose(IntSlider, 7)
        await shown.until("Event 7 of 7 in turn 1 of 2")
        player.close()

    assert "This turn has more than 5,000 events; the others can't be stepped through." in shown.text


async def test_a_step_in_a_console_gives_way_to_who_stops_it(gateway: Gateway, session: str) -> None:
    class Keys:
        async def read_line(self, prompt: str) -> str:
            return "a"

    async with recorded(gateway, session) as (recording, _):
        said: list[str] = []
        speaks = asyncio.Event()

        def say(text: str) -> None:
            said.append(text)
            speaks.set()

        stepping = asyncio.create_task(Stepping(recording, Keys(), say).run(1))
        await speaks.wait()
        stepping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stepping

    assert "Turn 2 of 2" not in "".join(said)


async def test_a_gateway_that_is_lost_is_told_and_the_next_step_tries_again(page: Opened) -> None:
    shown, _, asking = page
    asking.lost = True
    shown.speed(BY_TURN)

    await shown.press("Play", "Ozzie&#x27;s gateway can&#x27;t be reached. Run the cell again.")
    await shown.rests()
    asking.lost = False

    await shown.press("Turn →", "in turn 2 of 2")

    assert "reached" not in shown.text
