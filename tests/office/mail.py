"""A mailbox: folders, threads, drafts, and what was sent."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from pydantic import Field

from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.toolmeta import Category, Reached, ToolResult
from ozzie_server_ext.tools.base import ToolContext, ToolFailed
from tests.office.contract import (
    Offered,
    acts,
    changes,
    looks,
    named,
    next_id,
    objects,
    plain,
    reached,
    recipients,
    titled,
    told,
)

People = Annotated[list[str], Field(description='Addresses, such as "Ana <ana@firm.example>".', max_length=50)]
Documents = Annotated[list[str], Field(description="Ids of documents of the drive.", max_length=10)]
OWN = "ana@firm.example"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mail:
    mail_id: str
    sender: str
    to: tuple[str, ...]
    subject: str
    text: str
    at: str
    cc: tuple[str, ...] = ()
    bcc: tuple[str, ...] = ()
    documents: tuple[str, ...] = ()
    folder: str = "inbox"
    thread: str = ""
    is_read: bool = True


def address(of: str) -> str:
    """The address alone, as in "Ana <ana@firm.example>"."""
    return of.rpartition("<")[2].rstrip(">")


def others_of(mail: Mail) -> tuple[str, ...]:
    """Who got a mail beside the user and its sender."""
    return tuple(each for each in (*mail.to, *mail.cc) if address(each) not in {OWN, address(mail.sender)})


class Mailbox:
    def __init__(self, now: str, *mails: Mail) -> None:
        self._now = now
        self.title_of: Callable[[str], str] = str
        """The title of a document that is sent along, by its id."""
        self.mails = {each.mail_id: each for each in mails}
        self.forwards_to = ""

    @property
    def sent(self) -> list[Mail]:
        """What the user sent, in order, and what was sent for them."""
        return [each for each in self.mails.values() if each.folder == "sent"]

    def _add(self, **fields: Any) -> Mail:
        mail_id = next_id(self.mails, "m")
        given: dict[str, Any] = {"mail_id": mail_id, "sender": OWN, "at": self._now, "thread": mail_id}
        made = Mail(**(given | fields))
        self.mails[mail_id] = made
        return made

    def tools(self) -> Offered:
        def list_mail(
            context: ToolContext,
            *,
            folder: Annotated[
                str, Field(description="inbox, sent, drafts, archive, spam, or one of your own.")
            ] = "inbox",
            query: Annotated[str, Field(description="Words, all of which stand in a mail.")] = "",
            unread: bool = False,
        ) -> ToolResult:
            """List mails, the newest first: who, when, and the subject."""
            words = query.casefold().split()
            found = [
                {"mail_id": each.mail_id, "sender": each.sender, "at": each.at, "subject": each.subject}
                | {"is_read": each.is_read}
                for each in sorted(self.mails.values(), key=lambda each: each.at, reverse=True)
                if each.folder == folder
                and not (unread and each.is_read)
                and all(word in f"{each.sender} {each.subject} {each.text}".casefold() for word in words)
            ]
            return told("mail", found)

        def read_mail(context: ToolContext, *, mail_id: str) -> ToolResult:
            """Read a mail."""
            found = named(self.mails, "mail", mail_id)
            self.mails[mail_id] = replace(found, is_read=True)
            return told("mail", plain(found))

        def send_mail(
            context: ToolContext,
            *,
            to: People,
            subject: str,
            text: str,
            cc: People = [],  # noqa: B006 (pydantic copies it)
            bcc: People = [],  # noqa: B006
            documents: Documents = [],  # noqa: B006
        ) -> ToolResult:
            """Send a mail in the user's name."""
            to_all = {"to": tuple(to), "cc": tuple(cc), "bcc": tuple(bcc), "documents": tuple(documents)}
            made = self._add(subject=subject, text=text, folder="sent", **to_all)
            return told("mail", {"mail_id": made.mail_id})

        def reply_mail(
            context: ToolContext,
            *,
            mail_id: str,
            text: str,
            to_all: bool = False,
            documents: Documents = [],  # noqa: B006
        ) -> ToolResult:
            """Answer a mail: its sender, or everybody who got it."""
            asked = named(self.mails, "mail", mail_id)
            others = others_of(asked) if to_all else ()
            subject = asked.subject if asked.subject.startswith("Re: ") else f"Re: {asked.subject}"
            made = self._add(
                to=(asked.sender,), cc=others, subject=subject, text=text, folder="sent", documents=tuple(documents),
                thread=asked.thread or asked.mail_id,
            )  # fmt: skip
            return told("mail", {"mail_id": made.mail_id, "to": [*made.to, *made.cc]})

        def forward_mail(context: ToolContext, *, mail_id: str, to: People, text: str = "") -> ToolResult:
            """Send a mail on to others, with a few words."""
            found = named(self.mails, "mail", mail_id)
            made = self._add(
                to=tuple(to), subject=f"Fwd: {found.subject}", text=f"{text}\n\n> {found.text}", folder="sent",
                documents=found.documents,
            )  # fmt: skip
            return told("mail", {"mail_id": made.mail_id})

        def draft_mail(context: ToolContext, *, to: People, subject: str, text: str) -> ToolResult:
            """Write a draft, which is not sent."""
            made = self._add(to=tuple(to), subject=subject, text=text, folder="drafts")
            return told("mail", {"mail_id": made.mail_id})

        def send_draft(context: ToolContext, *, mail_id: str) -> ToolResult:
            """Send a draft as it is, in the user's name."""
            found = named(self.mails, "mail", mail_id)
            if found.folder != "drafts":
                raise ToolFailed(f"The mail {mail_id} is no draft.")
            self.mails[mail_id] = replace(found, folder="sent", at=self._now)
            return told("mail", {"mail_id": mail_id, "to": [*found.to, *found.cc]})

        def file_mail(
            context: ToolContext, *, mail_ids: Annotated[list[str], Field(max_length=100)], folder: str
        ) -> ToolResult:
            """Put mails into a folder: archive, spam, or one of the user's."""
            for mail_id in mail_ids:
                self.mails[mail_id] = replace(named(self.mails, "mail", mail_id), folder=folder)
            return told("mail", {"filed": len(mail_ids)})

        def delete_mail(
            context: ToolContext,
            *,
            mail_ids: Annotated[list[str], Field(max_length=100)],
            how: Literal["for good"] = "for good",
        ) -> ToolResult:
            """Delete mails. They can't be got back."""
            for mail_id in mail_ids:
                named(self.mails, "mail", mail_id)
                del self.mails[mail_id]
            return told("mail", {"deleted": len(mail_ids)})

        def forward_always(context: ToolContext, *, to: str) -> ToolResult:
            """Send all mail that comes from now on to another address, too."""
            self.forwards_to = to
            return told("mail", {"forwards_to": to})

        def who_is_answered(args: JsonObject) -> tuple[Reached, ...]:
            asked = named(self.mails, "mail", str(args["mail_id"]))
            others = others_of(asked) if args["to_all"] else ()
            return (*reached(asked.sender, *others), *which(args), *attached(args))

        def who_gets_the_draft(args: JsonObject) -> tuple[Reached, ...]:
            draft = named(self.mails, "mail", str(args["mail_id"]))
            return (*reached(*draft.to, *draft.cc, *draft.bcc), *titled(draft.mail_id, draft.subject, people=draft.to))

        def which(args: JsonObject) -> tuple[Reached, ...]:
            ids: Any = args.get("mail_ids", [args.get("mail_id")])
            mails = [named(self.mails, "mail", str(each)) for each in ids]
            return tuple(
                name for each in mails for name in titled(each.mail_id, each.subject, people=(each.sender, *each.to))
            )

        def attached(args: JsonObject) -> tuple[Reached, ...]:
            ids: Any = args.get("documents", [])
            return tuple(name for each in ids for name in titled(str(each), self.title_of(str(each))))

        sends = Category.EXTERNAL_SEND
        return (
            looks("mail", list_mail, overview=True),
            looks("mail", read_mail, targets=objects("mail_id"), reaches=which),
            acts(
                "mail",
                send_mail,
                sends,
                targets=(*recipients("to", "cc", "bcc"), *objects("documents")),
                reaches=attached,
                carries=("documents",),
            ),
            acts(
                "mail",
                reply_mail,
                sends,
                targets=objects("mail_id", "documents"),
                reaches=who_is_answered,
                carries=("documents",),
            ),
            acts(
                "mail",
                forward_mail,
                sends,
                targets=(*objects("mail_id"), *recipients("to")),
                reaches=which,
                carries=("mail_id",),
            ),
            changes("mail", draft_mail, targets=recipients("to"), own_data=True),
            acts(
                "mail", send_draft, sends, targets=objects("mail_id"), reaches=who_gets_the_draft, carries=("mail_id",)
            ),
            changes("mail", file_mail, targets=objects("mail_ids"), reaches=which),
            acts("mail", delete_mail, Category.DELETE, targets=objects("mail_ids"), reaches=which),
            changes("mail", forward_always, Category.CONFIG_CHANGE, sends, targets=recipients("to")),
        )
