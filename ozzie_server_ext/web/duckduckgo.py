"""DuckDuckGo, by its page for browsers without scripts: no key, no account."""

from urllib.parse import urlencode

PAGE = "https://html.duckduckgo.com/html/"


class DuckDuckGo:
    """`page` is another one in tests only."""

    name = "DuckDuckGo"
    reader = "duckduckgo"

    def __init__(self, page: str = PAGE) -> None:
        self._page = page

    def address(self, query: str) -> str:
        return f"{self._page}?{urlencode({'q': query})}"
