"""Hostile replies, and what hypothesis makes of their pieces, stay text in every form."""

import json
import re
import warnings

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from ozzie_server_ext.render.graph.view import GraphStep, GraphView
from ozzie_server_ext.render.live import STYLE
from ozzie_server_ext.render.markdown import CARET, StreamingMarkdown
from ozzie_server_ext.render.markdown_source import inert_html, inert_markdown, is_inert
from ozzie_server_ext.render.static import static_bundle
from ozzie_server_ext.render.turnfold import fold, new_turn
from ozzie_server_ext.render.turnview import TurnView
from tests.hostile.markup import INERT, NBCONVERT, SAVED, intruders
from tests.hostile.samples import BROWSER_TWELVE, NAMES, render_sample
from tests.unit.render.frames import live_html

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from nbconvert.filters.markdown_mistune import markdown2html_mistune

CANARY = "http://127.0.0.1:9"
SAMPLES = [pytest.param(render_sample(name, CANARY), id=name) for name in NAMES]
_LIVE = {
    **INERT,
    "div": {
        "class": r"[a-zA-Z -]*",
        "role": "group|list|listitem|status",
        "aria-label": ".*",
        "aria-busy": "true|false",
    },
    "span": {"class": r"[a-z -]*", "title": ".*", "aria-hidden": "true", "aria-label": ".*"},
    "svg": {"class": ".*", "viewbox": "0 0 16 16", "aria-hidden": "true", "style": r"animation-delay:-\d\.\d\ds"},
    "circle": {"cx": "8", "cy": "8", "r": "5.75", "stroke-dasharray": ".*"},
    "path": {"d": "[-A-Za-z0-9. ]+", "stroke-width": "2.2"},
    "bdi": {"class": "oz-arg oz-cut", "dir": "ltr"},
    "p": {"class": "oz-closing|oz-do|oz-note"},
    "b": {},
}
_FORMULA_MARK = re.compile(r"\$|\\\\[()\[\]]|\\(?:begin|end)\{|@@\d")
_OWN_TAG = re.compile(r"</?(?:details|summary|sub|span|pre|code)>")


def as_read_with_html(source: str) -> str:
    return MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(source)


def as_exported(source: str) -> str:
    return markdown2html_mistune(source)


def assert_inert_source(source: str) -> None:
    assert intruders(as_read_with_html(source), SAVED) == []
    assert intruders(as_exported(source), NBCONVERT) == []
    if re.search(r"<[A-Za-z/!?]", _OWN_TAG.sub("", source)):  # code that could open a tag, written as Markdown code
        assert not _FORMULA_MARK.search(source)
    source.encode()


def turn_with(text: str) -> TurnView:
    """A turn whose every field that a model, a tool or a provider fills holds `text`."""
    view = new_turn(task_id="01JD4T0000000000000000TASK", alias=text)
    frames: list[tuple[str, dict[str, object]]] = [
        ("message.received", {"pictures": [{"path": text}, {"path": f"{text}.png"}]}),
        ("task.started", {"attempt": 1}),
        ("model.call.started", {"call_id": "m", "alias": text, "provider": text, "model": text}),
        ("reply.delta", {"reply_id": "r", "offset": 0, "content": text}),
        ("tool.call.requested", {"call_id": "a", "name": text, "args": {"path": text}}),
        ("tool.call.completed", {"call_id": "a", "ok": True, "summary": text, "brought": [text]}),
        ("tool.call.requested", {"call_id": "b", "name": text, "args": {text: text}}),
        ("tool.call.failed", {"call_id": "b", "message": text}),
        ("tool.call.requested", {"call_id": "c", "name": text, "args": {"n": [text]}}),
        ("tool.call.decided", {"call_id": "c", "decision": "DENY", "reason": text}),
        ("reply.delta", {"reply_id": "s", "offset": 0, "content": f"{text}\n\n{text}"}),
        ("task.failed", {"code": text, "message": text, "hint": text, "detail": text}),
    ]
    for name, payload in frames:
        view = fold(view, name, payload)
    return view


def test_there_are_sixty_samples_and_twelve_of_them_for_the_browser():
    assert len(NAMES) == 60
    assert len(set(BROWSER_TWELVE) & set(NAMES)) == 12


def test_the_check_finds_what_a_front_end_that_trusts_would_run():
    trusting = MarkdownIt("commonmark", {"html": True}).enable("table")
    trusting.validateLink = lambda url: True
    harmless = {
        name
        for name in NAMES
        if not intruders(text := render_sample(name, CANARY), SAVED) and not intruders(trusting.render(text), SAVED)
    }
    # One needs a typesetter, the other somebody who writes the Markdown anew and forgets an escape.
    assert harmless == {"math_href", "image_escaped_bang"}


@pytest.mark.parametrize("text", SAMPLES)
def test_a_hostile_reply_is_only_text_in_html(text: str):
    assert intruders(inert_html(text)) == []


@pytest.mark.parametrize("text", SAMPLES)
def test_a_hostile_reply_is_only_text_in_saved_markdown(text: str):
    source = inert_markdown(text)
    assert is_inert(source)
    assert_inert_source(source)


@pytest.mark.parametrize("text", SAMPLES)
def test_a_hostile_reply_is_only_text_at_every_moment_of_its_stream(text: str):
    stream = StreamingMarkdown()
    for end in range(1, len(text) + 1, 3):
        html = stream.html(text[:end])
        assert html.count(CARET) == 1
        assert intruders(html.replace(CARET, "")) == []


@pytest.mark.parametrize("text", SAMPLES)
def test_a_hostile_text_in_any_field_of_a_turn_is_only_text(text: str):
    view = turn_with(text)
    live = live_html(view)
    assert live.count("<style>") == 1
    assert intruders(live.replace(STYLE, ""), _LIVE) == []
    data, _ = static_bundle(view)
    assert set(data) == {"application/vnd.ozzie.turn+json", "text/markdown", "text/plain"}
    assert_inert_source(data["text/markdown"])
    json.dumps(data, ensure_ascii=False).encode()  # a notebook can hold it
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", data["text/plain"])


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("image_")])
def test_no_image_is_left_to_load(name: str):
    text = render_sample(name, CANARY)
    assert "<img" not in inert_html(text)
    assert "<img" not in as_read_with_html(inert_markdown(text))
    assert "<img" not in as_exported(inert_markdown(text))


PIECES = st.sampled_from(
    [
        *(
            "<",
            ">",
            "`",
            "``",
            "```",
            "````",
            "~~~",
            "~~",
            "~",
            "$",
            "$$",
            "\n",
            "\n\n",
            "\r",
            "    ",
            "  \n",
            "\\\n",
            "\t",
        ),
        *("- ", "* ", "1. ", "> ", "# ", "|", "|---|", "---", "===", ": ", "[x] ", "*", "**", "_", "!", "[", "]", "("),
        *(")", "\\", "\\(", "\\)", "\\\\(", "\\\\)", "\\[", "\\]", "\\begin{x}", "\\end{x}", "{", "}", "@@0@@", "@@"),
        *("<img src=x onerror=1>", "<svg onload=1>", "<script>", "</script>", "<!--", "-->", "<![CDATA[", "]]>", "<?"),
        *("</code>", "</pre>", "</details>", "</sub>", "<pre>", "<code>", "<a href=javascript:1>", "<http://h/x>"),
        *(
            "&lt;",
            "&#60;",
            "&#x3c;img src=x&gt;",
            "&amp;lt;",
            "&Tab;",
            "&NewLine;",
            "&#10;",
            "&#96;",
            "&#36;",
            "&colon;",
        ),
        *(
            "[a](",
            "![a](",
            "javascript:1",
            "//h/x",
            "http://h/x",
            "data:text/html,x",
            "[r]",
            "[r]: ",
            "mermaid",
            "html",
        ),
        *("a", "b c", "é", "\u202e", "\x00", "\x1b", "\u2028", "\ud800", "://", "www.h.x", "a@b.c", "0", "5", "."),
    ]
)
NASTY = st.lists(PIECES, max_size=40).map("".join)
_CODE_PIECES = [
    *("<img src=x onerror=1>", "</code><svg onload=1>", "a", "$", "\\begin{x}", "\\end{x}", "\\\\(", "\\\\)", "@@0@@"),
    *("`", "|", "<", "\n", "\n\n", " ", "    "),
]
_CODE = st.lists(st.sampled_from(_CODE_PIECES), min_size=1, max_size=6).map("".join)
_BLOCK = st.one_of(
    st.builds("{0}{1}\n{2}\n{0}".format, st.sampled_from(["```", "````", "~~~"]), st.sampled_from(["", "html"]), _CODE),
    st.builds(lambda marks, code: f"x {marks} {code} {marks} y", st.sampled_from(["`", "``"]), _CODE),
    _CODE.map(lambda code: "    " + code.replace("\n", "\n    ")),
    _CODE.map(lambda code: "| a |\n|---|\n| `" + code.replace("\n", " ") + "` |"),
    st.sampled_from(["text $ and", '[l](http://h/x$y "t")', "$a_b$ $$c$$", "\\(x\\)", '[l](http://h/"$)']),
)
_NESTED = st.recursive(
    _BLOCK,
    lambda inner: st.builds(
        lambda mark, pad, block: mark + block.replace("\n", "\n" + pad),
        st.sampled_from(["- ", "1. ", "> "]),
        st.sampled_from(["  ", "   ", "> "]),
        inner,
    ),
    max_leaves=4,
)
DOCUMENT = st.lists(_NESTED, min_size=1, max_size=6).map("\n\n".join)
_FUZZ = settings(suppress_health_check=[HealthCheck.too_slow])


@_FUZZ
@given(NASTY)
def test_no_mixture_of_marks_becomes_html(text: str):
    assert intruders(inert_html(text)) == []


@_FUZZ
@given(NASTY)
@example("&Tab;~~~~~~<~~~~~~")  # struck through three times, behind a blank that goes
def test_no_mixture_of_marks_becomes_html_after_it_was_saved(text: str):
    assert_inert_source(inert_markdown(text))


@_FUZZ
@given(DOCUMENT)
def test_no_mixture_of_code_and_formulas_frees_what_stands_in_code(text: str):
    assert_inert_source(inert_markdown(text))


@_FUZZ
@given(NASTY)
def test_no_mixture_of_marks_in_any_field_becomes_html(text: str):
    view = turn_with(text)
    assert intruders(live_html(view).replace(STYLE, ""), _LIVE) == []
    assert_inert_source(static_bundle(view)[0]["text/markdown"])


@_FUZZ
@given(NASTY)
def test_no_mixture_of_marks_in_what_is_told_of_a_run_becomes_html(text: str):
    steps = (
        GraphStep(step_id="a", title=text, state="Done", note=text),
        GraphStep(step_id="b", title=text, state="Failed", problem=text),
    )
    view = GraphView(name=text, steps=steps)
    assert_inert_source(static_bundle(turn_with("a"), view)[0]["text/markdown"])


@_FUZZ
@given(st.lists(NASTY, max_size=6))
def test_no_mixture_becomes_html_while_it_streams(chunks: list[str]):
    stream = StreamingMarkdown()
    text = ""
    for chunk in chunks:
        text += chunk
        assert intruders(stream.html(text, caret=False)) == []
