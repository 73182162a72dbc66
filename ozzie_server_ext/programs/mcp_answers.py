"""What a tool host asks of an MCP server beside its list of tools, and what comes of it: results, resources, prompts,
their lists, and completions, each brought into a bounded form."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Any, Generic, Protocol, TypeVar

import msgspec
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    GetPromptResult,
    ImageContent,
    Prompt,
    PromptReference,
    ReadResourceResult,
    Resource,
    ResourceLink,
    ResourceTemplate,
    ResourceTemplateReference,
    TextContent,
    TextResourceContents,
)

from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.programs.tool_output import MAX_VALUES, Failure, has_many
from ozzie_server_ext.protocol.codec import encode
from ozzie_server_ext.protocol.jsontext import repair_text
from ozzie_server_ext.protocol.tool_host import (
    MAX_LIST_BYTES,
    MAX_LISTED,
    Invoke,
    Offer,
    Output,
    OutputFile,
    PromptArgument,
    PromptList,
    ResourceList,
    ServerPrompt,
    ServerResource,
)

_MAX_PAGES = 50
_MAX_NAME = 128
_MAX_ADDRESS = 2000
_MAX_TEXT = 16_000
"""Characters of a description that go on to the gateway."""
_MAX_ARGUMENTS = 50
_MAX_PARTS = 1000
"""Contents of a resource, and messages of a prompt."""
_MAX_MATCHES = 100


class Report(Protocol):
    """Is told how far a call is."""

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None: ...


class _Page(Protocol):
    @property
    def next_cursor(self) -> str | None: ...


P = TypeVar("P", bound=_Page)
T = TypeVar("T", bound=msgspec.Struct)


async def answered(client: Client, invoke: Invoke, report: Report) -> Output:
    """Ask a server, and return its answer. Raises Failure, and what the library raises."""
    match invoke.wants:
        case "tool":
            result = await client.call_tool(invoke.tool, invoke.arguments, progress_callback=report)
            _expect_complete(result.result_type)
            return _output(result)
        case "resource":
            _expect_offer(client, "resources")
            found = await client.read_resource(invoke.tool)
            _expect_complete(found.result_type)
            return _of_resource(found)
        case "prompt":
            _expect_offer(client, "prompts")
            values = {name: str(value) for name, value in invoke.arguments.items()}
            prompt = await client.get_prompt(invoke.tool, values)
            _expect_complete(prompt.result_type)
            return _of_prompt(prompt)
        case "resources":
            return Output(structured=encode(await _resources(client)))
        case "prompts":
            return Output(structured=encode(await _prompts(client)))
        case "completion":
            return Output(texts=await _completed(client, invoke))


def offers_of(client: Client) -> tuple[Offer, ...]:
    """Return what a connected server says that it has beside tools."""
    has = client.server_capabilities
    found: list[Offer] = []
    if has.resources is not None:
        found.append("resources")
    if has.prompts is not None:
        found.append("prompts")
    if has.completions is not None:
        found.append("completions")
    return tuple(found)


def short(text: str, most: int) -> str:
    return repair_text(text if len(text) <= most else f"{text[: most - 1]}…")


def _expect_complete(kind: str | None) -> None:
    if kind not in (None, "complete"):
        raise Failure("mcp.garbage", "It answers with something else than a result.", was_sent=True)


def _expect_offer(client: Client, offer: Offer) -> None:
    if offer not in offers_of(client):
        raise Failure("mcp.refused", f"It says that it has no {offer}.")


# --- results of tools -------------------------------------------------------------------------------------------------


def _output(result: CallToolResult) -> Output:
    if has_many(result.structured_content) or len(result.content) > MAX_VALUES // 10:
        raise Failure("mcp.too_long", f"It returned more than {MAX_VALUES:,} values.", was_sent=True)
    texts: list[str] = []
    files: list[OutputFile] = []
    links: list[str] = []
    for block in result.content:
        match block:
            case TextContent(text=text):
                texts.append(text)
            case EmbeddedResource(resource=TextResourceContents(text=text)):
                texts.append(text)
            case ResourceLink(uri=uri):
                links.append(str(uri))
            case _:
                files += _file_in(block)
    return Output(
        texts=tuple(texts),
        structured=result.structured_content,
        files=tuple(files),
        links=tuple(links),
        failed=result.is_error,
    )


def _file_in(block: ContentBlock) -> list[OutputFile]:
    match block:
        case EmbeddedResource(resource=BlobResourceContents(blob=blob, mime_type=mime)):
            return [OutputFile(mime=mime or "application/octet-stream", data=blob)]
        case ImageContent() | AudioContent():
            return [OutputFile(mime=block.mime_type, data=block.data)]
        case _:
            return []  # of a newer protocol


# --- resources --------------------------------------------------------------------------------------------------------


def _of_resource(found: ReadResourceResult) -> Output:
    """Return a resource: its texts and files, and in `structured` the address and the type of each part, in order."""
    if len(found.contents) > _MAX_PARTS:
        raise Failure("mcp.too_long", f"It returned more than {_MAX_PARTS:,} parts.")
    parts: list[Json] = []
    texts: list[str] = []
    files: list[OutputFile] = []
    for each in found.contents:
        mime = short(each.mime_type or "", _MAX_NAME)
        is_text = isinstance(each, TextResourceContents)
        parts.append({"uri": short(each.uri, _MAX_ADDRESS), "mime": mime, "is_text": is_text})
        if isinstance(each, TextResourceContents):
            texts.append(each.text)
        else:
            files.append(OutputFile(mime=mime or "application/octet-stream", data=each.blob))
    return Output(texts=tuple(texts), files=tuple(files), structured={"parts": parts})


async def _resources(client: Client) -> ResourceList:
    """Return the resources that a server lists, and its templates, as many as are taken."""
    if "resources" not in offers_of(client):
        return ResourceList()
    listed = _Listed[ServerResource]()
    async for page in _pages(lambda cursor: client.list_resources(cursor=cursor), listed):
        listed.take(map(_resource, page.resources))
    with suppress(MCPError):  # it has none
        async for page in _pages(lambda cursor: client.list_resource_templates(cursor=cursor), listed):
            listed.take(map(_template, page.resource_templates))
    return ResourceList(resources=tuple(listed.items), has_more=listed.has_more)


def _resource(found: Resource) -> ServerResource:
    return ServerResource(
        uri=repair_text(found.uri[:_MAX_ADDRESS]),
        name=short(found.name, _MAX_NAME),
        title=short(found.title or "", _MAX_NAME),
        mime=short(found.mime_type or "", _MAX_NAME),
        size=found.size if found.size is not None and 0 <= found.size < 1 << 53 else None,
    )


def _template(found: ResourceTemplate) -> ServerResource:
    return ServerResource(
        uri=repair_text(found.uri_template[:_MAX_ADDRESS]),
        name=short(found.name, _MAX_NAME),
        title=short(found.title or "", _MAX_NAME),
        mime=short(found.mime_type or "", _MAX_NAME),
        is_template=True,
    )


# --- prompts ----------------------------------------------------------------------------------------------------------


def _of_prompt(found: GetPromptResult) -> Output:
    """Return a prompt: in `structured` its messages, each with its role and a text or what else it has; files apart."""
    if len(found.messages) > _MAX_PARTS:
        raise Failure("mcp.too_long", f"It returned more than {_MAX_PARTS:,} messages.")
    messages: list[Json] = []
    files: list[OutputFile] = []
    for message in found.messages:
        messages.append({"role": message.role, **_part_of_prompt(message.content)})
        files += _file_in(message.content)
    return Output(files=tuple(files), structured={"messages": messages})


def _part_of_prompt(block: ContentBlock) -> JsonObject:
    match block:
        case TextContent(text=text):
            return {"text": text}
        case EmbeddedResource(resource=TextResourceContents(uri=uri, text=text, mime_type=mime)):
            return {"resource": short(uri, _MAX_ADDRESS), "mime": short(mime or "", _MAX_NAME), "text": text}
        case EmbeddedResource(resource=resource):
            return {"resource": short(resource.uri, _MAX_ADDRESS), "file": short(resource.mime_type or "", _MAX_NAME)}
        case ResourceLink(uri=uri, name=name):
            return {"link": short(str(uri), _MAX_ADDRESS), "name": short(name, _MAX_NAME)}
        case ImageContent(mime_type=mime) | AudioContent(mime_type=mime):
            return {"file": short(mime, _MAX_NAME)}
        case _:
            return {"file": "of a kind that is not known"}


async def _prompts(client: Client) -> PromptList:
    if "prompts" not in offers_of(client):
        return PromptList()
    listed = _Listed[ServerPrompt]()
    async for page in _pages(lambda cursor: client.list_prompts(cursor=cursor), listed):
        listed.take(map(_prompt, page.prompts))
    return PromptList(prompts=tuple(listed.items), has_more=listed.has_more)


def _prompt(found: Prompt) -> ServerPrompt:
    return ServerPrompt(
        name=repair_text(found.name[: _MAX_NAME + 1]),
        title=short(found.title or "", _MAX_NAME),
        description=short(found.description or "", _MAX_TEXT),
        arguments=tuple(
            PromptArgument(
                name=repair_text(each.name[: _MAX_NAME + 1]),
                description=short(each.description or "", _MAX_TEXT),
                is_required=bool(each.required),
            )
            for each in (found.arguments or [])[: _MAX_ARGUMENTS + 1]
        ),
    )


# --- lists and completions --------------------------------------------------------------------------------------------


class _Listed(Generic[T]):
    """What a server has listed so far, within bounds: what goes beyond them is left out, and `has_more` is set."""

    def __init__(self) -> None:
        self.items: list[T] = []
        self.has_more = False
        self._size = 0

    def take(self, items: Iterable[T]) -> None:
        for each in items:
            self._size += len(json.dumps(encode(each)))
            if len(self.items) == MAX_LISTED or self._size > MAX_LIST_BYTES:
                self.has_more = True
                return
            self.items.append(each)


async def _pages(page_at: Callable[[str | None], Awaitable[P]], listed: "_Listed[Any]") -> AsyncIterator[P]:
    """Yield the pages of a list, until it ends or has more than is taken."""
    cursor: str | None = None
    for _ in range(_MAX_PAGES):
        page = await page_at(cursor)
        yield page
        cursor = page.next_cursor
        if cursor is None or listed.has_more:
            return
    listed.has_more = True


async def _completed(client: Client, invoke: Invoke) -> tuple[str, ...]:
    """Return values for an argument; none if the server offers no completion."""
    if "completions" not in offers_of(client):
        return ()
    given = invoke.arguments
    is_template = bool(given.get("is_template"))
    ref = (
        ResourceTemplateReference(type="ref/resource", uri=invoke.tool)
        if is_template
        else PromptReference(type="ref/prompt", name=invoke.tool)
    )
    others = given.get("others")
    known = {name: str(value) for name, value in others.items()} if isinstance(others, dict) else {}
    argument = {"name": str(given.get("argument", "")), "value": str(given.get("value", ""))}
    result = await client.complete(ref, argument, context_arguments=known or None)
    return tuple(short(value, _MAX_ADDRESS) for value in result.completion.values[:_MAX_MATCHES])
