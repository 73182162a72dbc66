"""What the history keeps of a cell."""

import pytest

from ozzie_kernel.history import history_text


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        ("hello", "hello"),
        ("%model main", "%model main"),
        ("%model openai/x http://localhost:8000/v1", "%model openai/x http://localhost:8000/v1"),
        ("%model openai/x sk-a-key", "%model openai/x"),
        ("%model openai/x https://me:secret@host/v1", "%model openai/x"),
        ("%model openai/x https://host/v1?key=secret", "%model openai/x"),
        ("%help\n  %model a  sk-a-key\n%cost", "%help\n  %model a\n%cost"),
        ("%model openai/x\tsk-a-key", "%model openai/x"),
        ("%model openai/x\u00a0sk-a-key", "%model openai/x"),
        ("%help\r\n%model a sk-a-key\r%model b sk-a-key\r\n", "%help\r\n%model a\r%model b\r\n"),
        ("what does %model a b do?", "what does %model a b do?"),
        ("half a pair \ud800", "half a pair ?"),
    ],
)
def test_what_is_kept(typed: str, kept: str) -> None:
    assert history_text(typed) == kept
