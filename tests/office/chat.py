"""A chat: channels, direct messages, and who is in them."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from ozzie_server_ext.domain.toolmeta import Category, Target, TargetKind, ToolResult
from ozzie_server_ext.tools.base import ToolContext
from tests.office.contract import Offered, acts, looks, named, people, plain, told


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    by: str
    at: str
    text: str


@dataclass(slots=True, kw_only=True)
class Channel:
    """`is_shared`: people of other firms are in it."""

    name: str
    members: list[str]
    posts: list[Post]
    is_shared: bool = False


class Chat:
    def __init__(self, now: str, *channels: Channel, others: tuple[str, ...] = ()) -> None:
        """`others`: who can be written to and is in none of the user's channels."""
        self._now = now
        self._others = others
        self.channels = {each.name: each for each in channels}
        self.messages: dict[str, list[Post]] = {}
        """Direct messages of the user's, by person."""

    def _name(self, person: str) -> str:
        """The name without the sign before it. Raises ToolFailed for one that nobody has."""
        name = person.lstrip("@")
        known = {*self._others, *(member for each in self.channels.values() for member in each.members)}
        named(dict.fromkeys(known), "person", name)
        return name

    def tools(self) -> Offered:
        def list_channels(context: ToolContext) -> ToolResult:
            """List the channels that the user is in, and who else is."""
            return told("chat", [{"name": each.name, "members": each.members, "is_shared": each.is_shared}
                                 for each in self.channels.values()])  # fmt: skip

        def read_channel(
            context: ToolContext, *, channel: str, last: Annotated[int, Field(ge=1, le=200)] = 20
        ) -> ToolResult:
            """Read the last messages of a channel."""
            found = named(self.channels, "channel", channel.lstrip("#"))
            return told("chat", [plain(each) for each in found.posts[-last:]])

        def post_message(context: ToolContext, *, channel: str, text: str) -> ToolResult:
            """Write into a channel, in the user's name."""
            found = named(self.channels, "channel", channel.lstrip("#"))
            found.posts.append(Post(by="ana", at=self._now, text=text))
            return told("chat", {"posted": found.name})

        def message_person(
            context: ToolContext, *, person: Annotated[str, Field(description="A name in the chat.")], text: str
        ) -> ToolResult:
            """Write to one person, in the user's name."""
            name = self._name(person)
            self.messages.setdefault(name, []).append(Post(by="ana", at=self._now, text=text))
            return told("chat", {"sent": name})

        def invite_to_channel(context: ToolContext, *, channel: str, people: list[str]) -> ToolResult:
            """Let people into a channel: they can read all that was written there."""
            found = named(self.channels, "channel", channel.lstrip("#"))
            names = [self._name(each) for each in people]
            found.members += [each for each in names if each not in found.members]
            return told("chat", {"members": found.members})

        def remove_from_channel(context: ToolContext, *, channel: str, person: str) -> ToolResult:
            """Take somebody out of a channel."""
            found = named(self.channels, "channel", channel.lstrip("#"))
            named(dict.fromkeys(found.members), "member", person.lstrip("@"))
            found.members.remove(person.lstrip("@"))
            return told("chat", {"members": found.members})

        sends = Category.EXTERNAL_SEND
        channel = (Target("channel", TargetKind.CHANNEL),)
        return (
            looks("chat", list_channels, overview=True),
            looks("chat", read_channel, targets=channel),
            acts("chat", post_message, sends, targets=channel),
            acts("chat", message_person, sends, targets=people("person")),
            acts("chat", invite_to_channel, sends, Category.CONFIG_CHANGE, targets=(*channel, *people("people"))),
            acts("chat", remove_from_channel, Category.CONFIG_CHANGE, targets=(*channel, *people("person"))),
        )
