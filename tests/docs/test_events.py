"""docs/events.md says what the code has: each event, its fields, and the other documents' names."""

from ozzie_server_ext.domain.events import EVENT_CLASSES, Fact
from tests.docs.events_table import PAGE, first_sentence, with_tables


def test_the_page_is_as_the_code_is() -> None:
    page = PAGE.read_text()

    assert page == with_tables(page), "run: python -m tests.docs.events_table"


def test_every_event_says_what_it_means() -> None:
    def says_nothing(kind: type[Fact]) -> bool:
        return first_sentence(kind).startswith(f"{kind.__name__}(")  # what a dataclass makes up by itself

    assert [kind.type for kind in EVENT_CLASSES if says_nothing(kind)] == []
