"""Whom a request asks after each failure: the table of remedies, the cool-downs, and the error that a person reads."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ozzie_server_ext.domain.errors import OzzieError, Unavailable
from ozzie_server_ext.models.chain import Attempt, Attempts, Chain, Health, RetryPolicy
from ozzie_server_ext.models.driver import ModelChoice, ModelError, ModelErrorCode
from ozzie_server_ext.models.failures import model_error
from ozzie_server_ext.observability.clock import FakeClock

POLICY = RetryPolicy(max_attempts=3, backoff_s=0.5, cool_down_s=30)


def a_model(provider: str, *, in_chain: bool = True) -> ModelChoice:
    return ModelChoice(alias="main", provider=provider, driver="openai", model=f"{provider}-m", in_chain=in_chain)


A, B, C, BIG = (a_model(name) for name in ("a", "b", "c", "big"))
ALONE = a_model("alone", in_chain=False)


def failing(
    choice: ModelChoice, code: ModelErrorCode, *, after_s: float | None = None, streamed: bool = False
) -> ModelError:
    detail = f"what {choice.label} says"
    return model_error(code, choice, after_s=after_s, streamed=streamed, detail=detail)


class Walk:
    """Goes along a chain, telling each provider's failure."""

    def __init__(self, chain: Chain, *, health: Health | None = None, policy: RetryPolicy = POLICY) -> None:
        self.clock = FakeClock()
        self.health = health or Health(self.clock)
        self.attempts = Attempts(chain, policy, self.health, luck=lambda: 0.0)
        self.now: Attempt | None = self.attempts.first()
        self.asked: list[str] = []
        self.waited: list[float] = []
        self.last: OzzieError | None = None

    def fail(self, code: ModelErrorCode, *, after_s: float | None = None, streamed: bool = False) -> None:
        assert self.now is not None
        self.last = failing(self.now.choice, code, after_s=after_s, streamed=streamed)
        self.now = self.attempts.after(self.last)

    def to_the_end(self, code: ModelErrorCode) -> "Walk":
        for _ in range(50):
            if self.now is None:
                return self
            self.asked.append(self.now.choice.provider)
            self.waited.append(self.now.wait_s)
            self.fail(code)
        raise AssertionError("it asks for ever")


def test_a_provider_that_fails_for_a_moment_is_asked_again_with_growing_pauses() -> None:
    walk = Walk(Chain((ALONE,))).to_the_end("provider.server")

    assert walk.asked == ["alone"] * 3
    assert walk.waited == [0, 0.5, 1.0]


def test_a_pause_is_as_long_as_the_provider_asks_and_longer_ones_are_not_waited_for() -> None:
    walk = Walk(Chain((ALONE,)))
    walk.fail("provider.rate_limited", after_s=7)
    assert walk.now is not None
    assert walk.now.wait_s == 7
    assert walk.now.why == 'trying again in 7 s: "main" is busy.'

    walk.fail("provider.rate_limited", after_s=61)
    assert walk.now is None


@pytest.mark.parametrize(
    "code", ["provider.auth", "provider.quota", "provider.timeout", "provider.garbage", "provider.context_length"]
)
def test_what_does_not_pass_is_not_repeated(code: ModelErrorCode) -> None:
    assert Walk(Chain((ALONE,))).to_the_end(code).asked == ["alone"]


@pytest.mark.parametrize(
    ("code", "asked"),
    [
        ("provider.unreachable", ["a", "b", "c", "c", "c"]),
        ("provider.rate_limited", ["a", "b", "c", "c", "c"]),
        ("provider.server", ["a", "a", "b", "b", "c", "c", "c"]),
        ("provider.auth", ["a", "b", "c"]),
        ("provider.timeout", ["a", "b", "c"]),
        ("provider.content_filter", ["a"]),
    ],
)
def test_the_next_of_a_chain_is_asked_after_one_repetition_at_most(code: ModelErrorCode, asked: list[str]) -> None:
    assert Walk(Chain((A, B, C))).to_the_end(code).asked == asked


def test_an_answer_that_has_begun_is_never_asked_for_again() -> None:
    walk = Walk(Chain((A, B), (BIG,)))
    walk.fail("provider.broken_stream", streamed=True)

    assert walk.now is None
    assert walk.health.cooling("a") is None


def test_a_request_that_is_too_much_for_a_model_goes_to_the_stronger_one_before_the_others() -> None:
    walk = Walk(Chain((A, B), (BIG,))).to_the_end("provider.context_length")

    assert walk.asked == ["a", "big", "b"]
    assert walk.health.cooling("a") is None, "it is well, and reads the next message"


def test_the_stronger_one_is_not_asked_for_what_is_no_question_of_strength() -> None:
    assert Walk(Chain((A,), (BIG,))).to_the_end("provider.auth").asked == ["a"]


def test_who_stands_in_says_for_whom() -> None:
    walk = Walk(Chain((A, B)))
    assert walk.now is not None
    assert (walk.now.number, walk.now.instead_of) == (1, "")
    walk.fail("provider.quota")
    assert walk.now is not None
    assert (walk.now.number, walk.now.choice.provider, walk.now.instead_of) == (2, "b", "a")
    assert walk.now.why.startswith('asking "b": ')


def test_who_has_failed_is_asked_last_until_its_cool_down_ends() -> None:
    first = Walk(Chain((A, B)))
    first.fail("provider.unreachable")

    during = Walk(Chain((A, B)), health=first.health)
    assert during.now is not None
    assert (during.now.choice.provider, during.now.instead_of) == ("b", "a")
    assert during.to_the_end("provider.auth").asked == ["b", "a"], "better the one that failed than nobody"

    first.clock.advance(POLICY.cool_down_s)
    after = Walk(Chain((A, B)), health=first.health)
    assert after.now is not None
    assert after.now.choice.provider == "a"


def test_an_answer_ends_a_cool_down() -> None:
    walk = Walk(Chain((A, B)))
    walk.health.failed("a", "provider.server", for_s=30)
    again = Attempts(Chain((A,)), POLICY, walk.health)
    again.first()
    again.answered()

    assert walk.health.cooling("a") is None


def test_other_turns_wait_as_long_as_a_busy_provider_has_asked_for() -> None:
    first = Walk(Chain((ALONE,)))
    first.fail("provider.rate_limited", after_s=12)
    first.clock.advance(2)

    second = Walk(Chain((ALONE,)), health=first.health)

    assert second.now is not None
    assert second.now.wait_s == pytest.approx(10)
    assert second.now.why == '"main" is busy: waiting 10 s'


def test_a_busy_provider_that_asks_for_no_pause_is_asked_by_the_next_turn_at_once() -> None:
    first = Walk(Chain((ALONE,))).to_the_end("provider.rate_limited")

    second = Walk(Chain((ALONE,)), health=first.health)

    assert second.now is not None
    assert second.now.wait_s == 0


def test_a_model_that_is_both_next_and_stronger_is_asked_once() -> None:
    assert Walk(Chain((A, B), (B,))).to_the_end("provider.context_length").asked == ["a", "b"]


def test_the_error_names_the_model_that_was_wanted_and_what_became_of_those_in_its_place() -> None:
    walk = Walk(Chain((A, B)))
    walk.fail("provider.quota")
    walk.fail("provider.auth")
    assert walk.last is not None

    told = walk.attempts.outcome(walk.last)

    assert isinstance(told, ModelError)
    assert (told.code, told.detail) == ("provider.quota", "a: what a says\nb: what b says")
    assert str(told) == (
        'The account behind the key for "a" has nothing left to spend. '
        '"b", asked in its place: The model provider refused the key for "b".'
    )
    assert told.hint.startswith("Add credit at the provider")


def test_the_wanted_models_error_comes_first_also_where_it_was_asked_last() -> None:
    first = Walk(Chain((A, B)))
    first.fail("provider.unreachable")
    walk = Walk(Chain((A, B)), health=first.health)
    walk.fail("provider.auth")
    walk.fail("provider.forbidden")
    assert walk.last is not None

    told = walk.attempts.outcome(walk.last)

    assert told.code == "provider.forbidden"
    assert str(told) == (
        'The model provider does not let this key use "a" (a-m). '
        '"b", asked in its place: The model provider refused the key for "b".'
    )


def test_what_all_of_them_lack_is_said_once() -> None:
    walk = Walk(Chain((A, B)))
    walk.fail("worker.unavailable")
    walk.fail("worker.unavailable")
    assert walk.last is not None

    assert str(walk.attempts.outcome(walk.last)) == "The model worker does not run."


def test_an_error_of_the_log_ends_the_request() -> None:
    attempts = Attempts(Chain((A, B)), POLICY, Health(FakeClock()))
    attempts.first()
    error = Unavailable("The log can't be written.", code="store.full")

    assert attempts.after(error) is None
    assert attempts.outcome(error) is error


CODES = st.sampled_from(
    [
        "provider.rate_limited",
        "provider.server",
        "provider.unreachable",
        "provider.auth",
        "provider.timeout",
        "provider.context_length",
        "provider.content_filter",
        "worker.lost",
    ]
)


@given(
    st.lists(st.sampled_from([A, B, C]), min_size=1, max_size=3, unique=True),
    st.lists(CODES, min_size=60, max_size=60),
    st.integers(1, 5),
)
def test_every_walk_ends_and_asks_nobody_too_often(
    choices: list[ModelChoice], codes: list[ModelErrorCode], max_attempts: int
) -> None:
    policy = RetryPolicy(max_attempts=max_attempts)
    walk = Walk(Chain(tuple(choices), (BIG,)), policy=policy)
    asked: list[str] = []
    for code in codes:
        if walk.now is None:
            break
        assert walk.now.number == len(asked) + 1
        assert walk.now.instead_of == ("" if walk.now.choice == choices[0] else choices[0].provider)
        asked.append(walk.now.choice.provider)
        walk.fail(code)
    assert walk.now is None
    assert all(asked.count(provider) <= max_attempts for provider in set(asked))
    # One after the other: nobody is come back to.
    assert len([1 for before, after in itertools.pairwise(asked) if before != after]) == len(set(asked)) - 1


def test_an_answer_that_our_worker_cut_off_is_asked_for_once_more_wherever_it_is() -> None:
    attempts = Attempts(Chain((A, B)), RetryPolicy(max_attempts=1), Health(FakeClock()))
    cut = model_error("worker.lost", A, streamed=True)
    attempts.first()

    assert attempts.is_asked_again(cut)
    again = attempts.after(cut)
    assert again is not None
    assert (again.choice, again.number, again.wait_s) == (A, 2, 0.0)
    assert not attempts.is_asked_again(cut)
    assert attempts.after(cut) is None


@pytest.mark.parametrize("code", ["provider.broken_stream", "provider.timeout", "provider.server"])
def test_an_answer_that_the_provider_cut_off_is_not(code: ModelErrorCode) -> None:
    attempts = Attempts(Chain((A, B)), RetryPolicy(), Health(FakeClock()))
    attempts.first()

    assert not attempts.is_asked_again(model_error(code, A, streamed=True))
    assert attempts.after(model_error(code, A, streamed=True)) is None
