"""The address book: what the user has written down about people. Nothing that arrives changes it."""

from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import Field

from ozzie_server_ext.domain.toolmeta import Category, ToolResult
from ozzie_server_ext.tools.base import ToolContext, ToolFailed
from tests.office.contract import Offered, accounts, changes, looks, next_id, objects, people, plain, recipients


@dataclass(frozen=True, slots=True, kw_only=True)
class Contact:
    contact_id: str
    name: str
    mail: str
    phone: str = ""
    account: str = ""
    chat: str = ""
    note: str = ""


class Contacts:
    def __init__(self, *entries: Contact) -> None:
        self.entries = {each.contact_id: each for each in entries}

    def by_name(self) -> dict[str, dict[str, list[str]]]:
        """The address book as `contacts.named` of a file of rules."""
        reached = {
            each.name: {"recipients": [each.mail], "accounts": [each.account], "people": [each.chat]}
            for each in self.entries.values()
        }
        return {name: {kind: texts for kind, texts in by.items() if texts != [""]} for name, by in reached.items()}

    def tools(self) -> Offered:
        def find_contact(
            context: ToolContext,
            *,
            name: Annotated[str, Field(description="A part of a name, of an address or of the note about somebody.")],
        ) -> ToolResult:
            """Find people in the user's own address book: addresses, telephone, account, name in the chat."""
            wanted = name.casefold()
            found = [
                each
                for each in self.entries.values()
                if any(wanted in text.casefold() for text in (each.name, each.mail, each.note))
            ]
            return ToolResult(ok=True, data=[plain(each) for each in found])

        def change_contact(
            context: ToolContext,
            *,
            name: str,
            mail: str = "",
            phone: str = "",
            account: str = "",
            contact_id: Annotated[str, Field(description="Of an entry to change; none adds one.")] = "",
        ) -> ToolResult:
            """Add somebody to the address book, or change an entry."""
            if contact_id and contact_id not in self.entries:
                raise ToolFailed(f"There is no entry {contact_id}.")
            key = contact_id or next_id(self.entries, "p")
            before = self.entries.get(key, Contact(contact_id=key, name=name, mail=mail))
            given = {"name": name, "mail": mail, "phone": phone, "account": account}
            self.entries[key] = replace(before, **{field: text for field, text in given.items() if text})
            return ToolResult(ok=True, data={"contact_id": key})

        entry = (*objects("contact_id"), *people("name"), *recipients("mail"), *accounts("account"))
        return (
            looks("contacts", find_contact, brings=None, overview=True),
            changes("contacts", change_contact, Category.CONFIG_CHANGE, brings=None, targets=entry),
        )
