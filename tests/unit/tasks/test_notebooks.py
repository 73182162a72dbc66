"""Which session a notebook has: moved, copied, brought from elsewhere, deleted."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from ozzie_server_ext.domain.ids import SessionId
from ozzie_server_ext.observability.clock import CountingIds, FakeClock
from ozzie_server_ext.store.memory import InMemoryEventLog
from ozzie_server_ext.tasks.sessions import Notebooks, SessionInfo, Sessions

ELSEWHERE = SessionId("sess_01CCCCCCCCCCCCCCCCCCCCCCCC")


@dataclass
class Desk:
    """A folder of notebooks, and who knows their sessions."""

    folder: Path
    sessions: Sessions
    notebooks: Notebooks

    def file(self, name: str) -> str:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
        return str(path)

    async def session(self, path: str, noted: SessionId | None = None) -> SessionInfo:
        return (await self.notebooks.open(path, noted=noted)).info


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    sessions = Sessions(InMemoryEventLog(FakeClock(), CountingIds()), CountingIds())
    return Desk(tmp_path, sessions, Notebooks(sessions))


async def test_a_notebook_without_a_note_has_its_session_by_its_path(desk: Desk) -> None:
    first = await desk.session(desk.file("a.ipynb"))

    assert first.title == "a.ipynb"
    assert await desk.session(desk.file("a.ipynb")) == first
    assert (await desk.session(desk.file("b.ipynb"))).session_id != first.session_id


async def test_a_notebook_that_was_moved_by_hand_goes_on_in_its_session(desk: Desk) -> None:
    session = (await desk.session(str(desk.folder / "a.ipynb"))).session_id  # where nothing lies any more
    after = desk.file("b.ipynb")

    opened = await desk.notebooks.open(after, noted=session)

    assert (opened.info.session_id, opened.copy_of) == (session, "")
    assert (await desk.session(after)).session_id == session  # by its path as well, from now on


@pytest.mark.parametrize("status", ["closed", "archived"])
async def test_opening_a_notebook_that_was_moved_brings_no_session_back(desk: Desk, status: str) -> None:
    session = (await desk.session(str(desk.folder / "a.ipynb"))).session_id
    await (desk.sessions.close if status == "closed" else desk.sessions.archive)(session)
    after = desk.file("b.ipynb")

    opened = await desk.notebooks.open(after, noted=session)

    assert (opened.info.session_id, opened.info.status) == (session, status)
    assert (await desk.session(after)).session_id == session


async def test_a_copy_goes_on_in_a_fork_and_in_the_same_one_when_it_is_opened_again_unsaved(desk: Desk) -> None:
    session = (await desk.session(desk.file("a.ipynb"))).session_id
    copy = desk.file("a-Copy1.ipynb")

    opened = await desk.notebooks.open(copy, noted=session)
    again = await desk.notebooks.open(copy, noted=session)

    assert opened.copy_of == "a.ipynb"
    assert opened.info.title == "a-Copy1.ipynb"
    assert opened.info.session_id != session
    assert (await desk.sessions.row(opened.info.session_id))["parent"] == session
    assert (again.info.session_id, again.copy_of) == (opened.info.session_id, "")
    assert (await desk.session(desk.file("a.ipynb"), session)).session_id == session


@pytest.mark.parametrize("linked", ["symlink_to", "hardlink_to"])
async def test_a_notebook_that_is_opened_by_another_name_of_the_same_file_is_no_copy(desk: Desk, linked: str) -> None:
    path = desk.file("a.ipynb")
    session = (await desk.session(path)).session_id
    link = desk.folder / "link.ipynb"
    getattr(link, linked)(path)

    opened = await desk.notebooks.open(str(link), noted=session)

    assert (opened.info.session_id, opened.copy_of) == (session, "")
    assert (await desk.session(path, session)).session_id == session


@pytest.mark.parametrize("key", ["cli:x", "kernel:1"])
async def test_a_note_takes_no_session_away_from_a_terminal_or_a_program(desk: Desk, key: str) -> None:
    theirs = await desk.sessions.open(key, title="at work", channel="cli")

    opened = await desk.notebooks.open(desk.file("a.ipynb"), noted=theirs.session_id)

    assert opened.copy_of == "at work"
    assert opened.info.session_id != theirs.session_id
    assert await desk.sessions.holder(key) == theirs.session_id
    assert (await desk.sessions.row(theirs.session_id))["key"] == key


async def test_a_notebook_that_was_copied_over_another_goes_on_in_a_fork_of_the_first(desk: Desk) -> None:
    first = (await desk.session(desk.file("a.ipynb"))).session_id
    over = desk.file("b.ipynb")
    second = (await desk.session(over)).session_id

    opened = await desk.notebooks.open(over, noted=first)

    assert opened.copy_of == "a.ipynb"
    assert opened.info.session_id not in (first, second)


async def test_a_notebook_from_elsewhere_begins_a_session_of_its_own(desk: Desk) -> None:
    mine = (await desk.session(desk.file("a.ipynb"))).session_id

    theirs = await desk.notebooks.open(desk.file("theirs.ipynb"), noted=ELSEWHERE)

    assert theirs.info.session_id not in (mine, ELSEWHERE)
    assert (theirs.copy_of, theirs.info.message_count) == ("", 0)


@pytest.mark.parametrize("how", ["new", "resume"])
async def test_another_session_in_the_notebook_is_not_undone_by_the_note_of_the_one_before(
    desk: Desk, how: str
) -> None:
    path = desk.file("a.ipynb")
    noted = (await desk.session(path)).session_id
    if how == "new":
        chosen = await desk.notebooks.begin(path)
    else:
        other = await desk.sessions.open("cli:x", title="other", channel="cli")
        chosen = await desk.notebooks.resume(other.session_id, path)

    assert (await desk.session(path, noted)).session_id == chosen.session_id


async def test_a_session_that_no_notebook_has_any_more_is_taken_up_by_the_one_that_notes_it(desk: Desk) -> None:
    path = desk.file("a.ipynb")
    noted = (await desk.session(path)).session_id
    await desk.notebooks.begin(path)

    opened = await desk.notebooks.open(desk.file("b.ipynb"), noted=noted)

    assert (opened.info.session_id, opened.copy_of) == (noted, "")


async def test_a_notebook_renamed_in_jupyter_takes_its_session_along_and_leaves_its_name_free(desk: Desk) -> None:
    before, after = str(desk.folder / "a.ipynb"), str(desk.folder / "b.ipynb")
    session = (await desk.session(before)).session_id

    await desk.notebooks.moved(before, after)

    assert (await desk.session(after)).session_id == session
    assert (await desk.session(after)).title == "b.ipynb"
    assert (await desk.session(before)).session_id != session


async def test_a_title_that_a_person_gave_stays_when_the_notebook_is_renamed(desk: Desk) -> None:
    before, after = str(desk.folder / "a.ipynb"), str(desk.folder / "b.ipynb")
    session = (await desk.session(before)).session_id
    await desk.sessions.rename(session, "Prices in May")

    await desk.notebooks.moved(before, after)

    assert (await desk.session(after)).title == "Prices in May"


async def test_a_folder_takes_the_sessions_of_its_notebooks_along_and_of_no_others(desk: Desk) -> None:
    inside, beside = desk.file("old/deep/a.ipynb"), desk.file("older/a.ipynb")
    moved, stays = (await desk.session(inside)).session_id, (await desk.session(beside)).session_id

    await desk.notebooks.moved(str(desk.folder / "old"), str(desk.folder / "new"))

    assert (await desk.session(str(desk.folder / "new/deep/a.ipynb"))).session_id == moved
    assert (await desk.session(beside)).session_id == stays


async def test_a_notebook_that_takes_the_name_of_a_deleted_one_begins_anew(desk: Desk) -> None:
    path = desk.file("Untitled.ipynb")
    gone = (await desk.session(path)).session_id

    await desk.notebooks.deleted(path)

    assert (await desk.session(path)).session_id != gone
    assert (await desk.sessions.get(gone)).status == "active"  # what was said is kept


async def test_a_notebook_works_in_the_folder_of_the_server_that_first_opens_it(desk: Desk) -> None:
    opened = await desk.notebooks.open(desk.file("shop/a.ipynb"), project=desk.folder / "shop")
    above = await desk.notebooks.open(desk.file("shop/a.ipynb"), noted=opened.info.session_id, project=desk.folder)

    assert opened.info.project == above.info.project == str(desk.folder / "shop")


async def test_a_notebook_that_left_its_project_works_in_the_folder_where_it_is_now(desk: Desk) -> None:
    session = (await desk.notebooks.open(desk.file("shop/a.ipynb"), project=desk.folder / "shop")).info.session_id
    (desk.folder / "shop").rename(desk.folder / "store")

    within = await desk.notebooks.open(desk.file("store/a.ipynb"), noted=session, project=desk.folder / "store")

    assert (within.info.session_id, within.info.project) == (session, str(desk.folder / "store"))


async def test_a_notebook_moved_within_its_project_stays_in_it(desk: Desk) -> None:
    session = (await desk.notebooks.open(str(desk.folder / "a.ipynb"), project=desk.folder)).info.session_id

    moved = await desk.notebooks.open(desk.file("deep/a.ipynb"), noted=session, project=desk.folder / "deep")

    assert (moved.info.session_id, moved.info.project) == (session, str(desk.folder))


async def test_a_copy_of_a_notebook_works_in_the_project_of_the_first_unless_it_lies_elsewhere(desk: Desk) -> None:
    shop, store = desk.folder / "shop", desk.folder / "store"
    session = (await desk.notebooks.open(desk.file("shop/a.ipynb"), project=shop)).info.session_id

    beside = await desk.notebooks.open(desk.file("shop/b.ipynb"), noted=session, project=desk.folder)
    elsewhere = await desk.notebooks.open(desk.file("store/a.ipynb"), noted=session, project=store)

    assert (beside.copy_of, elsewhere.copy_of) == ("a.ipynb", "a.ipynb")
    assert (beside.info.project, elsewhere.info.project) == (str(shop), str(store))


async def test_a_session_resumed_in_a_notebook_elsewhere_works_there_from_then_on(desk: Desk) -> None:
    shop, store = desk.folder / "shop", desk.folder / "store"
    session = (await desk.notebooks.open(desk.file("shop/a.ipynb"), project=shop)).info.session_id

    beside = await desk.notebooks.resume(session, desk.file("shop/deep/b.ipynb"), project=desk.folder)
    elsewhere = await desk.notebooks.resume(session, desk.file("store/b.ipynb"), project=store)

    assert (beside.session_id, beside.project) == (session, str(shop))
    assert (elsewhere.session_id, elsewhere.project) == (session, str(store))
    assert (await desk.notebooks.open(desk.file("store/b.ipynb"), noted=session, project=store)).info == elsewhere


async def test_a_project_that_is_renamed_in_jupyter_takes_its_sessions_along(desk: Desk) -> None:
    shop = desk.folder / "shop"
    session = (await desk.notebooks.open(desk.file("shop/deep/a.ipynb"), project=shop)).info.session_id
    shop.rename(desk.folder / "store")
    await desk.notebooks.moved(str(shop), str(desk.folder / "store"))

    opened = await desk.notebooks.open(desk.file("store/deep/a.ipynb"), noted=session, project=desk.folder)

    assert (opened.info.session_id, opened.info.project) == (session, str(desk.folder / "store"))


async def test_a_notebook_that_jupyter_moves_out_of_its_project_works_where_it_is_opened(desk: Desk) -> None:
    session = (await desk.notebooks.open(desk.file("shop/a.ipynb"), project=desk.folder / "shop")).info.session_id
    (desk.folder / "shop/a.ipynb").rename(desk.folder / "a.ipynb")
    await desk.notebooks.moved(str(desk.folder / "shop/a.ipynb"), str(desk.folder / "a.ipynb"))

    for noted in (session, None):
        opened = await desk.notebooks.open(desk.file("a.ipynb"), noted=noted, project=desk.folder)
        assert (opened.info.session_id, opened.info.project) == (session, str(desk.folder))


async def test_a_notebook_below_a_link_to_its_project_has_not_left_it(desk: Desk) -> None:
    (desk.folder / "link").symlink_to(desk.folder / "shop")
    session = (await desk.notebooks.open(desk.file("shop/a.ipynb"), project=desk.folder / "shop")).info.session_id

    opened = await desk.notebooks.open(str(desk.folder / "link/b.ipynb"), noted=session, project=desk.folder)

    assert opened.info.project == str(desk.folder / "shop")


async def test_a_notebook_outside_of_every_project_records_nothing_when_it_is_opened_again(desk: Desk) -> None:
    project = desk.folder / "elsewhere"
    first = (await desk.notebooks.open(desk.file("a.ipynb"), project=project)).info
    row = await desk.sessions.row(first.session_id)

    for noted in (None, first.session_id):
        assert (await desk.notebooks.open(desk.file("a.ipynb"), noted=noted, project=project)).info == first
    assert await desk.sessions.row(first.session_id) == row
