"""What the texts of a skill may name while it runs: its input, and what its steps gave."""

from dataclasses import dataclass

from ozzie_server_ext.domain.content import CLEAN, Content
from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.skills.templates import Reference, references


class Unresolved(InputError):
    """A text or a condition of the skill names what is not there."""

    code = "skill.unresolved"


@dataclass(frozen=True, slots=True)
class Output:
    """What a step gave, and where of it came from outside."""

    value: Json
    content: Content = CLEAN


class Values:
    """Of one run: `given` is its input, and `content` what of that came from outside."""

    def __init__(self, given: JsonObject, content: Content = CLEAN) -> None:
        self.given = given
        self.content = content
        self.outputs: dict[str, Output] = {}

    def find(self, reference: Reference) -> Json:
        """The value that a reference stands for; null for a step that gave nothing. Raises Unresolved."""
        if step := reference.step:
            output = self.outputs.get(step)
            return None if output is None else _within(output.value, reference.path[3:], reference)
        name, *rest = reference.path
        if name not in self.given:
            return None
        return _within(self.given[name], tuple(rest), reference)

    @property
    def all_content(self) -> Content:
        """Where from outside anything of the run came."""
        return self.content | Content.of_all(output.content for output in self.outputs.values())

    def content_of(self, *texts: Json) -> Content:
        """Where from outside what stands in these texts came."""
        found = CLEAN
        for reference in references(list(texts)):
            output = self.outputs.get(reference.step) if reference.step else None
            found = found | (self.content if output is None else output.content)
        return found


def _within(value: Json, path: tuple[str, ...], reference: Reference) -> Json:
    """Raises Unresolved."""
    for index, part in enumerate(path):
        if isinstance(value, list) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        elif isinstance(value, dict) and part in value:
            value = value[part]
        else:
            before = ".".join((*reference.path[: len(reference.path) - len(path)], *path[:index]))
            raise Unresolved(f'{{{{{reference}}}}}: there is no "{part}" in {before}')
    return value
