"""Choose a model by its tags: required constraints filter, preferred ones score, ties go to the first."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

import msgspec
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.json import Json

Tag: TypeAlias = str | int | float | bool
Tags: TypeAlias = Mapping[str, Tag]
Number = int | Annotated[float, Field(allow_inf_nan=False)]

MAX_CONSTRAINTS = 64
MAX_VALUES = 1000
_WANTED = {
    "key": "must be a text",
    "value": "must be a text, a number, true or false",
    "values": "must be a text",
    "bound": "must be a number",
}


class InvalidSelector(InputError):
    """The selector is invalid; each line of the message names the place in it."""

    code = "model.selector"


class NoCandidate(InputError):
    """No configured model meets what a selector requires."""

    code = "model.no_candidate"


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class _Constraint(_Part, ABC):
    """What one tag has to be. A model without the tag, or with one of another type, never matches, not even `NotEq` and
    `NotIn`: an unknown property must not make a model eligible (Kubernetes' selectors differ)."""

    KIND: ClassVar[str] = ""
    key: str = Field(min_length=1, max_length=200)

    def failure(self, tags: Tags) -> str:
        """Return why a model with these tags does not match; "" if it does."""
        if self.key not in tags:
            return f'it has no tag "{self.key}"'
        tag = tags[self.key]
        if self._kind and _kind(tag) != self._kind:
            return f"its {self.key} is {_text(tag)}, which is no {self._kind}"
        return "" if self._holds(tag) else f"its {self.key} is {_text(tag)}"

    @property
    def _kind(self) -> str:
        """The kind that the tag has to be of; "" for any."""
        return self.KIND

    @abstractmethod
    def _holds(self, tag: Any) -> bool:
        """Whether a tag of that kind matches."""


class Equality(_Constraint):
    op: Literal["Eq", "NotEq"]
    value: str | bool | Number

    @property
    def _kind(self) -> str:
        return _kind(self.value)

    def _holds(self, tag: Any) -> bool:
        return (tag == self.value) == (self.op == "Eq")

    def __str__(self) -> str:
        return f"{self.key} {'==' if self.op == 'Eq' else '!='} {_text(self.value)}"


class Membership(_Constraint):
    KIND = "text"
    op: Literal["In", "NotIn"]
    values: tuple[str, ...] = Field(min_length=1, max_length=MAX_VALUES, strict=False)

    def _holds(self, tag: Any) -> bool:
        return (tag in self.values) == (self.op == "In")

    def __str__(self) -> str:
        return f"{self.key} {'in' if self.op == 'In' else 'not in'} [{', '.join(self.values)}]"


class Bound(_Constraint):
    KIND = "number"
    op: Literal["Gte", "Lte"]
    value: Number

    def _holds(self, tag: Any) -> bool:
        return tag >= self.value if self.op == "Gte" else tag <= self.value

    def __str__(self) -> str:
        return f"{self.key} {'>=' if self.op == 'Gte' else '<='} {_text(self.value)}"


class Presence(_Constraint):
    op: Literal["Exists"]

    def _holds(self, tag: Any) -> bool:
        return True

    def __str__(self) -> str:
        return f"{self.key} exists"


Constraint = Annotated[Equality | Membership | Bound | Presence, Field(discriminator="op")]
Constraints = Annotated[tuple[Constraint, ...], Field(max_length=MAX_CONSTRAINTS, strict=False)]


class ModelSelector(_Part):
    """`required`: all must match. `preferred`: the more match, the better."""

    required: Constraints = ()
    preferred: Constraints = ()


class Failed(msgspec.Struct, frozen=True, kw_only=True):
    """A required constraint that a model does not meet, and why."""

    constraint: str
    reason: str


class Weighed(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one model: it fits if nothing `failed`; `preferred` are the preferences that it meets."""

    name: str
    failed: tuple[Failed, ...]
    preferred: tuple[str, ...]

    @property
    def fits(self) -> bool:
        return not self.failed

    @property
    def score(self) -> int:
        return len(self.preferred)


class Resolution(msgspec.Struct, frozen=True, kw_only=True):
    """How a selector came to its choice: all models in the order of their declaration, and the chosen name, if any."""

    weighed: tuple[Weighed, ...]
    wishes: int
    chosen: str | None

    def expect(self) -> str:
        """Return the chosen name. Raises NoCandidate, which says what no model meets."""
        if self.chosen is None:
            raise NoCandidate(_why_none(self.weighed), hint="See ozzie models resolve --selector … --explain.")
        return self.chosen


def parse_selector(raw: Json) -> ModelSelector:
    """Parse a selector from JSON. Raises InvalidSelector."""
    try:
        return ModelSelector.model_validate(raw)
    except ValidationError as error:
        # The members of a union complain one by one, in the same words.
        lines = dict.fromkeys(f"{_place(item['loc'])}: {_complaint(item)}." for item in error.errors(include_url=False))
        raise InvalidSelector(
            "\n".join(lines),
            hint='A selector looks like {"required": [{"key": "security", "op": "Gte", "value": 3}], "preferred": []}.',
        ) from None


def resolve(selector: ModelSelector, models: Mapping[str, Tags]) -> Resolution:
    """Weigh all `models`, in the order of their declaration."""
    weighed = tuple(
        Weighed(
            name=name,
            failed=tuple(
                Failed(constraint=str(constraint), reason=reason)
                for constraint in selector.required
                if (reason := constraint.failure(tags))
            ),
            preferred=tuple(str(constraint) for constraint in selector.preferred if not constraint.failure(tags)),
        )
        for name, tags in models.items()
    )
    # `max` returns the first of equals: the one declared first.
    best = max((each for each in weighed if each.fits), key=lambda each: each.score, default=None)
    return Resolution(weighed=weighed, wishes=len(selector.preferred), chosen=best.name if best else None)


def _why_none(weighed: tuple[Weighed, ...]) -> str:
    if not weighed:
        return "No model is configured, so none can be chosen by its tags."
    unmet = [{failed.constraint for failed in each.failed} for each in weighed]
    nowhere = set.intersection(*unmet)
    if nowhere:
        # In the order of the selector: a set has none.
        unmet_by_all = [failed.constraint for failed in weighed[0].failed if failed.constraint in nowhere]
        return f"No configured model meets {' or '.join(unmet_by_all)}."
    nearest = min(weighed, key=lambda each: len(each.failed))
    lacks = "; ".join(f"{failed.constraint}: {failed.reason}" for failed in nearest.failed)
    return f'No configured model meets all that is required. The nearest is "{nearest.name}", which lacks {lacks}.'


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "yes or no"
    return "number" if isinstance(value, int | float) else "text"


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _place(loc: tuple[int | str, ...]) -> str:
    """Return the place in the selector, such as `required[0].values[1]`, or "selector"."""
    in_list = loc[:2]
    # After a constraint's place the validator names its operator, after a value's place the members of its union.
    in_constraint = [part for number, part in enumerate(loc[3:]) if number == 0 or isinstance(part, int)]
    parts = [*in_list, *in_constraint]
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts).lstrip(".") or "selector"


def _complaint(item: Any) -> str:
    kind, context = item["type"], item.get("ctx", {})
    match kind:
        case "extra_forbidden":
            return "there is no such key"
        case "missing":
            return "it is missing"
        case "union_tag_not_found":
            return 'it has no "op"'
        case "union_tag_invalid":
            return f'"op" must be one of {context["expected_tags"]}'
        case "model_type" | "dict_type" | "model_attributes_type":
            return "must be an object in braces"
        case "tuple_type":
            return "must be a list"
        case "string_too_short" | "too_short":
            return "must not be empty"
        case "string_too_long" | "too_long":
            return f"has more than {context['max_length']}"
        case _ if kind.endswith(("_type", "_parsing", "finite_number")):
            _, _, op, key, *_ = item["loc"]
            return _WANTED["bound" if op in ("Gte", "Lte") and key == "value" else key]
        case _:
            return f"{item['msg'][0].lower()}{item['msg'][1:]}"
