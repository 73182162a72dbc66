"""Large results stay out of the conversation, and nothing of them is lost."""

import json
from typing import Any

import pytest

from ozzie_server_ext.domain.ids import ArtifactId
from ozzie_server_ext.protocol.jsontext import InvalidJson
from ozzie_server_ext.tools.outcome import large

ID = ArtifactId("01A")


@pytest.mark.parametrize("data", [None, 1, "x" * 98, {"a": [1, 2]}, "é" * 98, "😀" * 98])
def test_what_fits_goes_through_as_it_is(data: Any) -> None:
    assert large(data, 100) is None


@pytest.mark.parametrize("data", ["x" * 99, "é" * 99, {"a": "y" * 500}, list(range(100))])
def test_what_does_not_fit_is_kept_whole(data: Any) -> None:
    found = large(data, 100)

    assert found is not None
    if isinstance(data, str):
        assert (found.text, found.kind, found.mime) == (data, "log", "text/plain")
    else:
        assert (json.loads(found.text), found.kind, found.mime) == (data, "json", "application/json")


@pytest.mark.parametrize("data", [float("nan"), object(), b"bytes", "\ud800"])
def test_what_is_no_json_is_refused_before_it_gets_anywhere(data: Any) -> None:
    with pytest.raises(InvalidJson):
        large(data, 100)


def test_the_model_gets_beginning_and_end_and_is_told_how_to_read_on() -> None:
    found = large("\n".join(f"line {number}" for number in range(1, 2311)), 400)

    assert found is not None
    told = found.excerpt(ID, 400)
    assert str(told["head"]).startswith("line 1\nline 2\n")
    assert str(told["tail"]).endswith("\nline 2310")
    assert len(str(told["head"]) + str(told["tail"])) <= 400
    assert (told["lines"], told["artifact"]) == (2310, ID)
    following = str(told["head"]).count("\n") + 1
    assert str(told["note"]).endswith(f'read_artifact with artifact_id "01A", first_line {following}.')


def test_in_one_huge_line_the_model_reads_on_at_a_character() -> None:
    found = large("x" * 5000, 400)

    assert found is not None
    told = found.excerpt(ID, 400)
    assert str(told["note"]).endswith('artifact_id "01A", first_line 1, first_character 301.')


def test_a_result_is_called_by_its_tool_and_what_that_was_asked() -> None:
    text, value = large("x" * 500, 100), large(["x" * 500], 100)

    assert text is not None
    assert value is not None
    assert text.name("list_files", {"path": "a"}) == text.name("list_files", {"path": "a"})
    assert text.name("list_files", {"path": "a"}) != text.name("list_files", {"path": "b"})
    assert text.name("list_files", {}).startswith("list_files-")
    assert (text.name("x", {})[-4:], value.name("x", {})[-5:]) == (".txt", ".json")
