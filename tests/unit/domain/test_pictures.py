"""Which pictures a message names, and what a file is by its first bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ozzie_server_ext.domain.messages import MAX_PATH_CHARS, media_type_of, mention_at, mentioned_pictures, mentions_in
from tests.fakes.pictures import png


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("What does @plots/a.png show?", ["plots/a.png"]),
        ("Compare @a.PNG and @b.jpg, then @c.jpeg.", ["a.PNG", "b.jpg", "c.jpeg"]),
        ('The same: @a.gif @a.gif @"my plot.webp"', ["a.gif", "my plot.webp"]),
        ("@a.csv @b.svg @c.png.txt @d.png/e @png @folder/", []),
        ("Mail me@a.png, or see icon@2x.png", []),
        ("one\n@two.png\nthree", ["two.png"]),
        ('@"begun.png\nand not ended" @', []),
        ("What is @a.png's axis, in **@b.png**? （@c.png） @d.png：", ["a.png", "b.png", "c.png", "d.png"]),
        ("@a.pngを見て @b-2.PNG!", ["a.png", "b-2.PNG"]),
        ("import logo from '@/assets/logo.png'; @~/me.png", []),
        ("all of @plots/*.png and @http://127.0.0.1/a.png", []),
        ("```\n@a.png\n```\nand `@b.png`, but @c.png", ["c.png"]),
        ("```css\nurl(@a.png)", []),
        (f"@{'x' * MAX_PATH_CHARS}.png @a.png", ["a.png"]),
    ],
)
def test_the_pictures_that_a_message_names(text: str, named: list[str]) -> None:
    assert list(mentioned_pictures(text)) == named


@given(st.text(alphabet='ab @/."\n.png', max_size=40))
def test_every_mention_of_a_text_is_the_one_that_stands_there(text: str) -> None:
    for mention in mentions_in(text):
        assert mention_at(text, mention.start + 1) == mention


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (png(), "image/png"),
        (b"\xff\xd8\xff\xe0rest", "image/jpeg"),
        (b"GIF89a", None),
        (b"RIFF\x10\x00\x00\x00WEBPVP8 ", "image/webp"),
        (b"RIFF\x10\x00\x00\x00WAVEfmt ", None),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", None),
        (b"\x89PN", None),
        (b"", None),
    ],
)
def test_a_picture_is_known_by_its_first_bytes(content: bytes, found: str | None) -> None:
    assert media_type_of(content) == found
