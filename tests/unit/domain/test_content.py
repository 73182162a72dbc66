"""Where content came from: unions, and what becomes of too much of it."""

from hypothesis import given
from hypothesis import strategies as st

from ozzie_server_ext.domain.content import CLEAN, MOST_SOURCES, Content, Label

CONTENTS = st.builds(
    Content.of,
    st.sampled_from(Label),
    st.lists(st.sampled_from(["example.org", "b.example", "a.example", "/data/x"]), max_size=3),
)


@given(CONTENTS, CONTENTS, CONTENTS)
def test_a_union_has_all_of_both_in_one_order(a: Content, b: Content, c: Content) -> None:
    assert a | b == b | a
    assert (a | b) | c == a | (b | c) == Content.of_all([c, a, b])
    assert a | a == a | CLEAN == CLEAN | a == a
    assert set((a | b).labels) == {*a.labels, *b.labels}
    assert set((a | b).sources) == {*a.sources, *b.sources}


def test_only_what_bears_a_label_is_from_outside() -> None:
    assert not CLEAN
    assert Content.of(Label.WEB) == Content(labels=("web",), sources=("web:",)), "from a place that nobody knows"
    assert Content.of(Label.WEB, ["example.org"]) == Content(labels=("web",), sources=("web:example.org",))


def test_of_very_many_sources_it_is_known_that_there_were_more() -> None:
    many = Content.of(Label.WEB, [f"{number:03}.example" for number in range(MOST_SOURCES)])
    more = many | Content.of(Label.WEB, ["another.example"])

    assert "web:" not in many.sources
    assert len(many.sources) == len(more.sources) == MOST_SOURCES
    assert "web:" in more.sources
    assert "web:" in (more | many).sources, "it is not forgotten again"


def test_a_place_that_nobody_knows_is_not_lost_beside_one_that_is_known() -> None:
    unknown = Content(labels=("web",))

    assert (unknown | Content.of(Label.WEB, ["example.org"])).sources == ("web:", "web:example.org")


def test_a_name_that_is_too_long_is_not_cut_to_another_places() -> None:
    assert Content.of(Label.FILE, ["/data/" + "a" * 400]).sources == ("file:",)
