"""Whom a text means by a name: one contact for certain, or nobody."""

import time

import pytest

from ozzie_server_ext.domain.toolmeta import Said, TargetKind
from ozzie_server_ext.policy.people import People, Texts, contact_of, people_of
from ozzie_server_ext.policy.words import said_in

NAMES = ("Ben Okafor", "Emma Lindqvist", "Emma Stone", "Zoë", "Anne-Marie O'Neill", "Will Hunt", "Mum", "Grace")
PEOPLE = people_of(
    contact_of(name, {TargetKind.RECIPIENT: [f"c{number}@firm.example"]}) for number, name in enumerate(NAMES)
)


def meant(*parts: str, people: People = PEOPLE) -> list[str]:
    """The names of those who are meant."""
    addresses = sorted(each.value for each in said_in(*parts, people=people) if each.value.startswith("c"))
    return [NAMES[int(address[1:].partition("@")[0])] for address in addresses]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("drop ben a quick mail", ["Ben Okafor"]),
        ("BEN, please; and Okafor's wife", ["Ben Okafor"]),
        ("Tell (Ben) and **mum**: lunch!", ["Ben Okafor", "Mum"]),
        ("Ben's report, mum’s cake", ["Ben Okafor", "Mum"]),
        ("zoe\u0308 and Zoë", ["Zoë"]),
        ("to Anne-Marie, O'Neill or o'neill's", ["Anne-Marie O'Neill"]),
        ("Emma", []),  # two are called so
        ("Emma Stone and lindqvist", ["Emma Lindqvist", "Emma Stone"]),
        ("to Emma, Stone is away", []),
        ("it will be fine, hunt for it", ["Will Hunt"]),  # by the second word
        ("it will be fine", []),
        ("write to Will Hunt", ["Will Hunt"]),
        ("with grace", ["Grace"]),
        ("ben@evil.example, x@ben.example, notes/ben.md, ben.md, #ben, @ben, ben_1, ben2, https://ben.example/ben", []),
        ("bend, benny, Anne, Neill, ben'evil@evil.example, ben.", ["Ben Okafor"]),  # the last one
        ("'ben' and ‘mum’", ["Ben Okafor", "Mum"]),
        ("benокafor bеn", []),  # the second has a Cyrillic letter
        ("", []),
    ],
)
def test_a_name_means_one_contact_or_nobody(text: str, names: list[str]) -> None:
    assert meant(text) == names


def test_a_name_that_was_not_typed_means_nobody() -> None:
    assert meant("Tell ", "Ben") == []
    assert meant("", "Tell ", "Ben") == ["Ben Okafor"]
    assert meant("Be", "n") == []
    assert meant("Emma ", "Stone", " and Ben") == ["Ben Okafor"]


def test_who_names_a_contact_names_all_that_reaches_them() -> None:
    ben = contact_of(
        "Ben",
        {
            TargetKind.RECIPIENT: ["Ben <BEN@firm.example>"],
            TargetKind.ACCOUNT: ["DE89 3704 0044 0532 0130 00"],
            TargetKind.PERSON: ["@ben"],
        },
    )

    assert said_in("pay ben", people=people_of([ben])) == {
        Said(TargetKind.RECIPIENT, "ben@firm.example"),
        Said(TargetKind.ACCOUNT, "DE89370400440532013000"),
        Said(TargetKind.PERSON, "ben"),
    }


@pytest.mark.parametrize(
    ("names", "targets", "why"),
    [
        (["???"], {TargetKind.RECIPIENT: ["a@b.example"]}, "no letters"),
        (["Ben"], {}, "neither an address"),
        (["Ben"], {TargetKind.RECIPIENT: ["*@firm.example"]}, "can't be read as the recipient"),
        (["Ben"], {TargetKind.ACCOUNT: ["DE88 3704 0044 0532 0130 00"]}, "can't be read as the account"),
        (["Ben Okafor", "ben  OKAFOR"], {TargetKind.PERSON: ["ben"]}, 'two contacts are called "ben okafor"'),
    ],
)
def test_what_can_not_be_a_contact_is_said(names: list[str], targets: dict[TargetKind, list[str]], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        people_of([contact_of(name, targets) for name in names])


@pytest.mark.parametrize(
    ("text", "is_meant"),
    [
        ("Sum up the trends for Ben.", True),
        ("What must I not miss?", True),
        ("Tell Ben that I come on Friday.", False),
        ("ten trends", True),
        ("Trendsetting", False),
    ],
)
def test_a_thing_is_meant_by_a_word_that_tells_something(text: str, is_meant: bool) -> None:
    said = Said(TargetKind.OBJECT, "Ten trends that you must not miss this Friday")
    assert Texts([text]).name(said) is is_meant


@pytest.mark.parametrize("title", ["Friday", "on Friday", "I", "Tell", "to", "that", "Until Friday"])
def test_a_thing_whose_title_tells_nothing_is_never_meant(title: str) -> None:
    assert not Texts(["Tell Ben that I come on Friday, until Friday."]).name(Said(TargetKind.OBJECT, title))


def test_most_of_a_title_is_most_of_all_its_words() -> None:
    said = Said(TargetKind.OBJECT, "Call with Ben about the budget")
    assert not Texts(["What is the budget?"]).name(said, wholly=True)
    assert Texts(["Move the budget review."]).name(Said(TargetKind.OBJECT, "Budget review"), wholly=True)


@pytest.mark.parametrize("text", ["ben " * 12_000, "a" * 50_000, "a-" * 25_000, "a'" * 25_000, "Anne " * 10_000])
def test_no_text_takes_long(text: str) -> None:
    many = people_of(
        contact_of(f"N{'x' * (n % 40)} {n:b}".replace("0", "o").replace("1", "i"), {TargetKind.PERSON: ["p"]})
        for n in range(2000)
    )
    began = time.process_time()
    assert len([*many.named_in(text)]) == 0
    assert time.process_time() - began < 2
