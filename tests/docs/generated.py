"""Tables that programs write into pages, between `<!-- name -->` and `<!-- end -->`."""

import re


def replaced(page: str, name: str, table: str) -> str:
    """Return the page with this table in the place of that name. Raises LookupError if there is not one such place."""
    pattern = rf"(<!-- {name} -->\n).*?(\n<!-- end -->)"
    page, found = re.subn(pattern, lambda match: match[1] + table + match[2], page, flags=re.DOTALL)
    if found != 1:
        raise LookupError(f"The page has {found or 'no'} places for the table {name}.")
    return page
