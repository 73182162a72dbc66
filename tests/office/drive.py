"""A drive: documents with text, and who may see or change them."""

from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

from pydantic import Field

from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.toolmeta import Category, Reached, ToolResult
from ozzie_server_ext.tools.base import ToolContext
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
from tests.office.mail import OWN

Role = Literal["reader", "writer", "owner"]
ANYONE = "anyone with the link"


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    doc_id: str
    title: str
    text: str
    folder: str = ""
    by: str = "ana@firm.example"
    shared: dict[str, Role] = field(default_factory=dict[str, Role])
    comments: tuple[str, ...] = ()


class Drive:
    def __init__(self, *documents: Document) -> None:
        self.documents = {each.doc_id: each for each in documents}

    def tools(self) -> Offered:
        def find_documents(
            context: ToolContext,
            *,
            query: Annotated[str, Field(description="Words, all of which stand in a document or its title.")] = "",
            folder: str = "",
        ) -> ToolResult:
            """Find documents: title, folder, who made them, and whom they are shared with."""
            words = query.casefold().split()
            return told(
                "drive",
                [
                    {name: value for name, value in plain(each).items() if name not in ("text", "comments")}
                    for each in self.documents.values()
                    if each.folder.startswith(folder)
                    and all(word in f"{each.title} {each.text}".casefold() for word in words)
                ],
            )

        def read_document(context: ToolContext, *, doc_id: str) -> ToolResult:
            """Read a document with its comments."""
            return told("drive", plain(named(self.documents, "document", doc_id)))

        def write_document(
            context: ToolContext,
            *,
            title: str,
            text: str,
            folder: str = "",
            doc_id: Annotated[str, Field(description="Of the document that gets a new version; none makes one.")] = "",
        ) -> ToolResult:
            """Write a document of the user's. Earlier versions are kept. Whoever it is shared with sees it."""
            if doc_id:
                before = named(self.documents, "document", doc_id)
                self.documents[doc_id] = replace(before, title=title or before.title, text=text)
            else:
                doc_id = next_id(self.documents, "d")
                self.documents[doc_id] = Document(doc_id=doc_id, title=title, text=text, folder=folder)
            return told("drive", {"doc_id": doc_id})

        def move_document(context: ToolContext, *, doc_id: str, folder: str) -> ToolResult:
            """Put a document into another folder."""
            self.documents[doc_id] = replace(named(self.documents, "document", doc_id), folder=folder)
            return told("drive", {"doc_id": doc_id, "folder": folder})

        def comment_document(context: ToolContext, *, doc_id: str, text: str) -> ToolResult:
            """Write a comment, which all see whom the document is shared with."""
            before = named(self.documents, "document", doc_id)
            self.documents[doc_id] = replace(before, comments=(*before.comments, text))
            return told("drive", {"comments": len(before.comments) + 1})

        def share_document(
            context: ToolContext,
            *,
            doc_id: str,
            people: Annotated[list[str], Field(description=f'Addresses, or "{ANYONE}".', max_length=50)],
            role: Role = "reader",
        ) -> ToolResult:
            """Let others read or change a document. They get a mail about it."""
            before = named(self.documents, "document", doc_id)
            self.documents[doc_id] = replace(before, shared=before.shared | dict.fromkeys(people, role))
            return told("drive", {"shared": [*self.documents[doc_id].shared]})

        def unshare_document(context: ToolContext, *, doc_id: str, people: list[str]) -> ToolResult:
            """Let these people see a document no more."""
            before = named(self.documents, "document", doc_id)
            kept: dict[str, Role] = {who: role for who, role in before.shared.items() if who not in people}
            self.documents[doc_id] = replace(before, shared=kept)
            return told("drive", {"shared": [*kept]})

        def delete_document(context: ToolContext, *, doc_id: str) -> ToolResult:
            """Delete a document for good."""
            named(self.documents, "document", doc_id)
            del self.documents[doc_id]
            return told("drive", {"deleted": doc_id})

        def which(args: JsonObject) -> tuple[Reached, ...]:
            found = self.documents.get(str(args["doc_id"]))
            return () if found is None else titled(found.doc_id, found.title)

        def readers(args: JsonObject) -> tuple[Reached, ...]:
            found = self.documents.get(str(args["doc_id"]))
            others = () if found is None else [each for each in found.shared if each != OWN]
            return (*reached(*others), *which(args))

        one = objects("doc_id")
        shared = (*one, *recipients("people"))
        return (
            looks("drive", find_documents, overview=True),
            looks("drive", read_document, targets=one, reaches=which),
            changes("drive", write_document, targets=objects("doc_id", "title"), reaches=readers, own_data=True),
            changes("drive", move_document, targets=one, reaches=which, own_data=True),
            acts("drive", comment_document, Category.EXTERNAL_SEND, targets=one, reaches=readers),
            acts(
                "drive", share_document, Category.EXTERNAL_SEND, Category.CONFIG_CHANGE, targets=shared, reaches=which
            ),
            changes("drive", unshare_document, Category.CONFIG_CHANGE, targets=shared, reaches=which),
            acts("drive", delete_document, Category.DELETE, targets=one, reaches=which),
        )
