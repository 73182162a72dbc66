"""The port of search engines: where one is asked, and which reader knows its pages."""

from typing import Protocol


class SearchEngine(Protocol):
    """A search engine that is asked by fetching a page. The page is read where all pages are, in a process of its own
    (`programs/web.py`), by the reader of that name in `programs/web_hits.py`."""

    @property
    def name(self) -> str:
        """As people call it."""
        ...

    @property
    def reader(self) -> str: ...

    def address(self, query: str) -> str:
        """Where the answer to a query stands."""
        ...
