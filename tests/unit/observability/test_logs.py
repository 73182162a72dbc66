"""The log file: one JSON object a line, private, and nothing in it that can pass for another line."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from ozzie_server_ext.observability.logs import Line, log_lines, log_to, logger, stop_logging


@pytest.fixture
def log_file(tmp_path: Path) -> Iterator[Path]:
    handler = log_to(tmp_path, "gateway")
    yield tmp_path / "gateway.jsonl"
    stop_logging(handler)


def lines(file: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_a_line_is_json_with_the_ids_of_what_it_is_about(log_file: Path) -> None:
    logger("ozzie_server_ext.tasks.driver").warning("stuck %d times", 3, extra={"task_id": "t1"})

    (line,) = lines(log_file)
    assert (line["level"], line["logger"], line["message"], line["task_id"]) == (
        "warning",
        "ozzie.tasks.driver",
        "stuck 3 times",
        "t1",
    )
    assert "session_id" not in line


def test_lines_logged_together_are_lines_each_with_its_own_ids(log_file: Path) -> None:
    told = [Line("first\nof two", {"task_id": "t1", "session_id": None}), Line("second", {"action_id": "a\n2"})]
    log_lines(logger("ozzie_server_ext.tasks.activity"), logging.WARNING, told)

    first, second = lines(log_file)
    assert (first["message"], first["task_id"]) == ("first\nof two", "t1")
    assert (second["message"], second["action_id"]) == ("second", "a\n2")
    assert "session_id" not in first
    assert "task_id" not in second
    shared = ("ts", "level", "logger", "pid")
    assert [first[name] for name in shared] == [second[name] for name in shared]
    assert (first["level"], first["logger"]) == ("warning", "ozzie.tasks.activity")


def test_a_secret_in_one_of_several_lines_is_not_written(log_file: Path) -> None:
    key = "ghp_" + "aB3dE6gH9" * 4
    log_lines(logger("x"), logging.INFO, [Line("all well", {}), Line(f"failed: {key}", {})])

    assert [line["message"] for line in lines(log_file)] == ["all well", "failed: [redacted: GitHub token]"]


def test_a_hostile_text_stays_in_its_line_and_in_ascii(log_file: Path) -> None:
    logger("x").info('a\nb\x1b[2J\u202e{"level": "error"}')

    assert log_file.read_bytes().isascii()
    (line,) = lines(log_file)
    assert line["message"] == 'a\nb\x1b[2J\u202e{"level": "error"}'


def test_a_traceback_is_kept_in_the_line(log_file: Path) -> None:
    try:
        raise ValueError("inner")
    except ValueError:
        logger("x").exception("it broke")

    (line,) = lines(log_file)
    assert "ValueError: inner" in str(line["traceback"])


def test_a_secret_is_not_written(log_file: Path) -> None:
    key = "ghp_" + "aB3dE6gH9" * 4
    try:
        raise ValueError(f"The server refused {key}.")
    except ValueError:
        logger("x").exception("refused: %s", key)

    (line,) = lines(log_file)
    assert line["message"] == "refused: [redacted: GitHub token]"
    assert str(line["traceback"]).endswith("ValueError: The server refused [redacted: GitHub token].")
    assert key not in log_file.read_text()


def test_a_secret_that_is_known_is_not_written_whatever_it_looks_like(tmp_path: Path) -> None:
    known: list[str] = []
    handler = log_to(tmp_path, "gateway", lambda: known)
    known.append("plain words of ann")
    try:
        raise ValueError("plain words of ann")
    except ValueError:
        logger("x").exception("refused: %s", "plain words of ann")
    stop_logging(handler)

    (line,) = lines(tmp_path / "gateway.jsonl")
    assert line["message"] == "refused: [redacted: known secret]"
    assert str(line["traceback"]).endswith("ValueError: [redacted: known secret]")


def test_the_file_is_the_users_alone(log_file: Path) -> None:
    assert log_file.stat().st_mode & 0o777 == 0o600


def test_after_its_end_nothing_is_written_and_no_handler_is_left(tmp_path: Path) -> None:
    before = list(logging.getLogger("ozzie").handlers)
    handler = log_to(tmp_path, "short")
    stop_logging(handler)

    logger("x").error("too late")

    assert logging.getLogger("ozzie").handlers == before
    assert (tmp_path / "short.jsonl").read_text() == ""
