"""Which of a person's contacts a text names: "thank Ben" means the one contact whose name has that word
(docs/policy.md, Contacts by name).

A word that two contacts have in their names means neither of them, and one that is also an ordinary word ("will",
"may") means nobody by itself. The whole name always does.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise

import msgspec

from ozzie_server_ext.domain.paths import path_parts
from ozzie_server_ext.domain.toolmeta import Said, TargetKind
from ozzie_server_ext.policy.patterns import folded
from ozzie_server_ext.policy.sources import ANY
from ozzie_server_ext.policy.targets import normal_form

MAX_NAME = 100
"""Characters of a contact's name."""
_WORD = re.compile(r"(?<![\w@./:#&=%+~\\-])[^\W\d_]+(?:['’-][^\W\d_]+)*(?![\w@/:=\\-]|[.'’]\w)")
"""Not a part of an address, a path or a name with digits."""
_LEAST = 2
"""Letters of a word that means somebody by itself."""
_ORDINARY_WORDS = (
    "an and art august basil bill bird bob brook brown buck chance chase christian clay cliff cook daisy dale dawn "
    "day de dean del der di dick don drew du earl faith fox frank gene glen grant gray green guy hall heath hill "
    "holly hope hunter ivy jack jade jasmine jean john josh joy june king la lane laurel le lee lily long mark "
    "mason may melody mercy miles moon page park pat pearl penny pierce price ray reed rich rob robin rose ruby "
    "rusty sage sandy sky sterling stone sue sunny terry the trip true van victor violet von wade walker ward web "
    "west white will wise wolf wood woods young "
)
_ORDINARY = frozenset(_ORDINARY_WORDS.split())
"""Words that are also names, or parts of many names."""


class Contact(msgspec.Struct, frozen=True):
    """Somebody by name, and what reaches them: addresses, accounts, names in a chat."""

    name: str
    targets: frozenset[Said]


class Spoken(msgspec.Struct, frozen=True):
    """A word of a text, from `start` to before `end`."""

    word: str
    start: int
    end: int


class People:
    """A person's contacts."""

    def __init__(self, contacts: Iterable[Contact] = ()) -> None:
        self._whole: dict[tuple[str, ...], list[Contact]] = {}
        self._by_word: dict[str, list[Contact]] = {}
        for contact in contacts:
            words = words_of(contact.name)
            self._whole.setdefault(words, []).append(contact)
            for word in {*words}:
                self._by_word.setdefault(word, []).append(contact)
        self._longest = max(map(len, self._whole), default=0)

    def named_in(self, text: str) -> Iterator[tuple[int, int, frozenset[Said]]]:
        """Yield where somebody is named, from where to before where, and what reaches them."""
        words = [*spoken(text)]
        for at, word in enumerate(words):
            for count in range(min(self._longest, len(words) - at), 1, -1):
                part = words[at : at + count]
                named = self._whole.get(tuple(each.word for each in part), [])
                if len(named) == 1 and all(text[a.end : b.start].isspace() for a, b in pairwise(part)):
                    yield part[0].start, part[-1].end, named[0].targets
            if (named := self._meant_by(word.word)) is not None:
                yield word.start, word.end, named.targets

    def _meant_by(self, word: str) -> Contact | None:
        named = self._by_word.get(word, [])
        is_whole = (word,) in self._whole
        if len(named) != 1 or len(word) < _LEAST or (word in _ORDINARY and not is_whole):
            return None
        return named[0]


NOBODY = People()


def words_of(name: str) -> tuple[str, ...]:
    """Return the words of a contact's name, as they are compared."""
    return tuple(each.word for each in spoken(name))


def spoken(text: str) -> Iterator[Spoken]:
    """Yield the words of a text, without an ending of possession: "Ben's"."""
    for match in _WORD.finditer(text):
        word = re.sub(r"['’]s$", "", match[0], flags=re.IGNORECASE)
        yield Spoken(folded(word), match.start(), match.end())


_BETWEEN = re.compile(r"[^\s<>()\[\]{},;\"'`“”„«»]+")
_CLOSING = ".!?…:"
_CHANNEL = "channel"
_LEAST_OF_TITLE = 4
"""Letters of a word by which a thing with a title may be meant."""
_IN_ANY_MESSAGE = (
    "about above after again against almost alone along already also although always among another anybody anyone "
    "anything around back because been before begin behind being below beside best better between both bring call "
    "came cannot come comes could date does doing done down during each either else enough even ever every "
    "everybody everyone everything find first from full gave gets give given goes going gone good have having "
    "hello here high himself into just keep kind know last later least left less like list little look made "
    "mail mails make makes many maybe mean mine more most much must need needs never next nobody none note "
    "nothing once only open other others ours over part please read reads really right said same says send sent "
    "several shall should show since some somebody someone something soon still such sure take taken tell tells "
    "than thank thanks that their theirs them then there these they thing things think this those though through "
    "till time today together told tomorrow tonight under until upon used using very want wants week well went "
    "were what when where whether which while whole whom whose will with within without word words work would "
    "write writes year yesterday your yours "
    "monday tuesday wednesday thursday friday saturday sunday january february march april june july august "
    "september october november december "
)
_IN_ANY_REQUEST = (
    "answer answers appointment attach attached attachment calendar call chat check contact contacts copy "
    "delete document documents draft email emails event events file files folder forward invitation invite "
    "invites letter meet meeting message messages move name notes number open order page pages pay payment "
    "people person phone question questions reply replies request response schedule search share subject "
    "summary task tasks team text title update updates urgent work "
)
_DAYS_AND_MONTHS = (
    "montag dienstag mittwoch donnerstag freitag samstag sonntag heute morgen januar februar april juli oktober "
    "dezember lundi mardi mercredi jeudi vendredi samedi dimanche demain janvier mars avril juin juillet "
    "octobre novembre lunes martes viernes domingo hoy enero abril junio julio agosto octubre noviembre "
    "diciembre domani oggi gennaio aprile giugno luglio ottobre dicembre amanha segunda sexta janeiro junho "
    "julho outubro "
)
_TELL_NOTHING = frozenset(f"{_IN_ANY_MESSAGE} {_IN_ANY_REQUEST} {_DAYS_AND_MONTHS}".split())
"""Words that stand in messages about anything: they don't show that a thing is meant whose title has them, too."""


class Texts:
    """Messages of which a person typed all. They name a thing of a service by a word of its title, or all of it."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = tuple(texts)
        self._words: set[str] = set()
        self._channels: set[str] = set()
        for text in self._texts:
            words = [*spoken(text)]
            self._words |= {each.word for each in words}
            beside = [(a.word, b.word) for a, b in pairwise(words) if text[a.end : b.start].isspace()]
            self._channels |= {a for a, b in beside if b == _CHANNEL} | {b for a, b in beside if a == _CHANNEL}

    @cached_property
    def paths(self) -> frozenset[tuple[str, ...]]:
        """The paths that they have, relative to the project, each between blanks, quotes or brackets."""
        found = (each.rstrip(_CLOSING).removeprefix("@") for text in self._texts for each in _BETWEEN.findall(text))
        return frozenset(parts for each in found if each and (parts := path_parts(each)) is not None)

    def name(self, said: Said, *, wholly: bool = False) -> bool:
        """Whether they name something. Only channels ("the product channel") and things with a title are named in words
        without quotes: whom else a call reaches, an account or an amount has to be beyond doubt. `wholly`: by most
        words of its title, not by one. Words that stand in any message are not enough."""
        if said.kind is TargetKind.CHANNEL:
            return folded(said.value) in self._channels
        if said.kind not in (TargetKind.OBJECT, TargetKind.CALENDAR) or not self._words:
            return False
        # Of a title that tells nothing, such as "Friday", nobody knows whether it is meant: a stranger may choose it.
        words = [word for word in words_of(said.value) if len(word) >= _LEAST_OF_TITLE]
        known = [word for word in words if word in self._words]
        return not _TELL_NOTHING.issuperset(known) and (2 * len(known) > len(words) if wholly else True)


def contact_of(name: str, targets: Mapping[TargetKind, Sequence[str]]) -> Contact:
    """Return a contact as written in a file of rules. Raises ValueError with a message for its author."""
    if not words_of(name):
        raise ValueError(f'"{name}" is no name: it has no letters')
    said: set[Said] = set()
    for kind, texts in targets.items():
        for text in texts:
            value = None if ANY in text else normal_form(kind, text)
            if value is None:
                raise ValueError(f'"{text}" of {name} can\'t be read as the {kind.value} that it is to be')
            said.add(Said(kind, value))
    if not said:
        raise ValueError(f"{name} has neither an address, nor an account, nor a name in a chat")
    return Contact(name, frozenset(said))


def people_of(contacts: Iterable[Contact]) -> People:
    """Return the contacts together. Raises ValueError if two have the same name: nobody could tell them apart."""
    contacts = tuple(contacts)
    same = [name for name, count in Counter(words_of(each.name) for each in contacts).items() if count > 1]
    if same:
        raise ValueError(f'two contacts are called "{" ".join(same[0])}": give each a name of its own')
    return People(contacts)
