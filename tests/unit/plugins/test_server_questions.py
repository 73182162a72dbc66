"""What becomes of a server's questions to a person before anybody is asked, and of what they answer."""

import pytest

from ozzie_server_ext.plugins.secret_words import names_secret
from ozzie_server_ext.plugins.server_questions import MAX_QUESTIONS, Questions
from ozzie_server_ext.protocol.tool_host import Choice, Elicit, Field
from ozzie_server_ext.tools.base import PersonPrompt, PersonSaid


class Person:
    """Says what was written down, in its order; then nothing."""

    def __init__(self, *says: PersonSaid) -> None:
        self._says = list(says)
        self.asked: list[PersonPrompt] = []

    async def __call__(self, prompt: PersonPrompt) -> PersonSaid | None:
        self.asked.append(prompt)
        return self._says.pop(0) if self._says else None


def elicit(*fields: Field, message: str = "Who?") -> Elicit:
    return Elicit(id="1", message=message, fields=fields)


def text(name: str, *, title: str = "", description: str = "") -> Field:
    return Field(name=name, kind="text", title=title, description=description)


async def test_a_server_asks_a_few_times_in_one_call() -> None:
    person = Person(*[PersonSaid("text", "x")] * 9)
    questions = Questions("trips", person, attended=True)

    given = [(await questions.answered(elicit(text("name")))).action for _ in range(MAX_QUESTIONS + 1)]

    assert given == ["accept"] * MAX_QUESTIONS + ["decline"]
    assert len(person.asked) == MAX_QUESTIONS
    assert questions.told == [f"It asks more than {MAX_QUESTIONS} times. Nobody was asked."]


SECRETS = (
    *("password", "passwd", "passphrase", "API key", "api_key", "access token", "client_secret", "PIN", "CVV", "OTP"),
    *("pass-word", "Kennwort", "login code", "mot de passe", "userPin", "pin_code"),
    *("one-time code", "Private key", "seed phrase", "recovery code", "card number", "credentials", "IBAN", "2FA code"),
)


@pytest.mark.parametrize("word", SECRETS)
@pytest.mark.parametrize("place", ["name", "title", "description"])
async def test_what_looks_like_a_secret_is_never_asked_for(word: str, place: str) -> None:
    person = Person(PersonSaid("text", "hunter2"))
    questions = Questions("trips", person, attended=True)
    field = text(word) if place == "name" else text("x", **{place: f"Your {word}"})

    given = await questions.answered(elicit(text("city"), field))

    assert (given.action, given.values, person.asked) == ("decline", {}, [])
    assert "looks like a secret" in questions.told[0]


DISGUISED = (
    *("pass\u200bword", "p\u00adassword", "p\u0430ssword", "\u0420\u0410SSW\u041eRD", "\u03a1\u0391SSW\u039fRD"),
    *("ｐａｓｓｗｏｒｄ", "𝐩𝐚𝐬𝐬𝐰𝐨𝐫𝐝", "pässwörd", "p\u0338a\u0338ssword", "ᴘᴀssᴡᴏʀᴅ", "P4$$w0rd"),
    *("p a s s w o r d", "p.a.s.s.w.o.r.d"),
    *("pass\u00a0word", "пароль", "密码", "パスワード", "비밀번호", "contraseña", "\u0440in"),
)


@pytest.mark.parametrize("word", DISGUISED)
def test_a_word_for_a_secret_is_found_in_other_letters_and_with_hidden_ones(word: str) -> None:
    assert names_secret(f"Your {word}, please")


async def test_a_secret_that_only_the_message_or_a_choice_names_is_never_asked_for() -> None:
    person = Person(PersonSaid("text", "hunter2"))
    questions = Questions("trips", person, attended=True)
    choices = tuple(Choice(value=digit, title=f"PIN begins with {digit}") for digit in "12")

    by_message = await questions.answered(elicit(text("answer"), message="Type your GitHub password to go on"))
    by_choice = await questions.answered(elicit(Field(name="answer", kind="choice", choices=choices)))

    assert (by_message.action, by_choice.action, person.asked) == ("decline", "decline", [])
    assert questions.told == ["It asks for `answer`, which looks like a secret. Nobody was asked."] * 2


async def test_a_yes_about_a_secret_may_be_asked_for() -> None:
    person = Person(PersonSaid("yes"))

    given = await Questions("trips", person, attended=True).answered(elicit(message="Delete the token of last year?"))

    assert given.action == "accept"


async def test_an_empty_answer_is_no_choice_without_a_title() -> None:
    person = Person(*[PersonSaid("text", "")] * 3)
    field = Field(name="x", kind="choice", choices=tuple(Choice(value=str(number)) for number in range(12)))

    assert (await Questions("trips", person, attended=True).answered(elicit(field))).action == "cancel"


INNOCENT = (
    *("city", "pinned", "spinach", "keyboard", "monkey", "tokyo", "pass the salt", "passenger", "Was it on time"),
    *("option", "public key", "country code", "authority", "one time zone", "postcode", "opinion", "compass"),
)


@pytest.mark.parametrize("word", INNOCENT)
async def test_what_is_no_secret_is_asked_for(word: str) -> None:
    person = Person(PersonSaid("text", "x"))

    given = await Questions("trips", person, attended=True).answered(elicit(text(word)))

    assert given.values == {word: "x"}


async def test_where_nobody_is_nobody_is_asked() -> None:
    person = Person(PersonSaid("text", "x"))
    questions = Questions("trips", person, attended=False)

    assert (await questions.answered(elicit(text("name")))).action == "decline"
    assert (person.asked, questions.told) == ([], ["Nobody is here to be asked. Nobody was asked."])


async def test_who_says_nothing_in_time_cancels() -> None:
    assert (await Questions("trips", Person(), attended=True).answered(elicit(text("name")))).action == "cancel"


async def test_a_question_without_values_is_a_yes_or_a_no() -> None:
    yes, no = Person(PersonSaid("yes")), Person(PersonSaid("decline"))

    assert (await Questions("trips", yes, attended=True).answered(elicit())).action == "accept"
    assert (await Questions("trips", no, attended=True).answered(elicit())).action == "decline"
    assert [option.name for option in yes.asked[0].options] == ["yes", "decline", "skip"]


async def test_two_choices_that_look_alike_are_told_apart_by_their_number() -> None:
    person = Person(PersonSaid("2"))
    field = Field(name="x", kind="choice", choices=(Choice(value="a", title="Ann"), Choice(value="b", title="Ann")))

    assert (await Questions("trips", person, attended=True).answered(elicit(field))).values == {"x": "b"}


async def test_words_of_a_server_can_not_look_like_ozzies() -> None:
    person = Person()

    await Questions("tr`ips\n", person, attended=True).answered(elicit(text("x"), message="a\u202eb\x1b[2J"))

    assert person.asked[0].question == r"The server `tr\u0060ips` asks: a\u202eb\u001b[2J"
    assert person.asked[0].notes[-1] == "These are the server's words. It gets what you answer."
