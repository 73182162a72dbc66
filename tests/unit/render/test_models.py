"""What is told of models: never nothing for what is unknown, and never more than is known."""

from typing import get_args

import pytest

from ozzie_server_ext.models.driver import ModelErrorCode
from ozzie_server_ext.protocol.worker import ModelFacts
from ozzie_server_ext.render.models import LABELS, ago, call_end, fact_words, price, tag_words


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (-5, "just now"),
        (59, "just now"),
        (60, "1 min ago"),
        (3599, "59 min ago"),
        (3600, "1 h ago"),
        (86_399, "23 h ago"),
        (86_400, "1 day ago"),
        (1_000 * 86_400, "1,000 days ago"),
    ],
)
def test_a_time_is_told_from_now(seconds: float, said: str) -> None:
    assert ago(seconds) == said


def test_a_call_that_was_answered_says_so_and_when() -> None:
    assert call_end("", "stop", 180) == "answered 3 min ago"
    assert call_end("", "tool_calls", 180) == "answered 3 min ago"
    assert call_end("", "length", 180) == "reached its length limit 3 min ago"
    assert call_end("provider.auth", "", 120) == "refused the key 2 min ago"
    assert call_end("provider.of-tomorrow", "", 120) == "failed 2 min ago"


@pytest.mark.parametrize("code", sorted(set(get_args(ModelErrorCode)) - {"provider.server"}))
def test_every_way_to_fail_has_words_of_its_own(code: str) -> None:
    assert call_end(code, "", 0) not in ("failed just now", "answered just now")


@pytest.mark.parametrize(
    ("nano_usd", "said"),
    [
        (0, "$0.00"),
        (150_000_000, "$0.15"),
        (37_500_000, "$0.0375"),
        (15_000_000_000, "$15.00"),
        (1, "$0.000000001"),
        (1_234_000_000_000_000, "$1,234,000.00"),
    ],
)
def test_a_price_is_told_to_its_last_decimal(nano_usd: int, said: str) -> None:
    assert price(nano_usd) == said


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("context", 128_000, "128,000 tokens"),
        ("tools", True, "yes"),
        ("tools", False, "no"),
        ("price_in", 0, "$0.00 for a million tokens"),
        ("price_in", None, "unknown"),
        ("tools", None, "unknown"),
    ],
)
def test_a_fact_is_told_in_words(name: str, value: int | None, said: str) -> None:
    assert fact_words(name, value) == said


def test_every_fact_has_a_label() -> None:
    assert tuple(LABELS) == ModelFacts.__struct_fields__


def test_tags_are_told_as_they_were_given() -> None:
    tags = {"security": 4, "jurisdiction": "swiss", "local": True, "trains": False, "weight": 0.5}

    assert tag_words(tags) == "security 4, jurisdiction swiss, local, not trains, weight 0.5"
    assert tag_words({}) == ""
