"""What in a text leads its reader somewhere: addresses of mail, links, accounts, telephone numbers (docs/policy.md,
Classes). And what in a table a program would run: formulas.

Rather too much is found than too little: what is found and was not in a person's own words costs a question. What is
only described, such as "evil dot example", is not found.
"""

import re
from collections.abc import Iterable, Iterator

from ozzie_server_ext.policy.patterns import folded

MOST_READ = 200_000
"""Characters of the texts of one call. Longer ones count as having something new."""

_STOP = r"\s<>()\[\]{},;\"'`“”„«»|"
_LEADS = re.compile(
    rf"[^{_STOP}@]{{1,64}}@[^{_STOP}@]{{1,255}}"  # an address of mail, or a name in a chat with its server
    rf"|[a-z][a-z0-9+.-]{{1,30}}:(?://)?[^{_STOP}]+"  # any scheme: mailto:, https://, tel:
    rf"|(?<![\w@])(?:[\w-]{{1,63}}\.){{1,8}}[^\W\d_]{{2,24}}(?!\w)(?:[/:?#][^{_STOP}]*)?"  # a name of the web
    r"|(?<!\w)[a-z]{2}[0-9]{2}(?:[ \u00a0-]?[a-z0-9]){11,30}(?!\w)"  # like an IBAN
    r"|\+?[0-9](?:[ \u00a0.()/-]{0,2}[0-9]){8,}",  # nine digits and more: a telephone, an account
    re.IGNORECASE,
)
_LIKE_IBAN = re.compile(r"[a-z]{2}[0-9]{2} ", re.IGNORECASE)
_DATES = re.compile(r"(?<![0-9])[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9]{2}:[0-9]{2})?(?![0-9])")
_CLOSING = ".!?…:*_"
_ENDINGS = (
    "md txt csv tsv pdf doc docx odt xls xlsx ods ppt pptx odp png jpg jpeg gif svg webp heic mp3 mp4 json jsonc xml "
    "yaml yml toml ini log ipynb py r js ts c h java html htm css ics vcf eml tex bib"
)
_FILES = frozenset(_ENDINGS.split())
"""Endings of files, of which no program makes a link."""


def leads_in(text: str) -> Iterator[str]:
    """Yield them folded, without what ends a sentence."""
    for match in _LEADS.finditer(_DATES.sub(" ", text)):
        found = match[0].rstrip(_CLOSING)
        while _LIKE_IBAN.match(found) and not any(map(str.isdigit, found.rpartition(" ")[2])):
            found = found.rpartition(" ")[0]  # words follow
        found = folded(found)
        is_file = "/" not in found and "@" not in found and found.rpartition(".")[2] in _FILES
        if found and not is_file:
            yield found


def has_new(texts: Iterable[str], known: Iterable[str]) -> bool:
    """Whether one of the texts leads somewhere that none of the known texts does, character for character."""
    joined = "\n".join(texts)
    if len(joined) > MOST_READ:
        return True
    found = {*leads_in(joined)}
    return bool(found) and not found <= {*leads_in("\n".join(known))}


_CELLS = re.compile(r"[\n\r\t\v\f\x1c-\x1e\x85\u2028\u2029,;|^\"']")
"""What may end a cell of a table, in whichever program opens it."""
_BLANK = " \u00a0\ufeff\u200b\u200c\u200d\u2060\u3000"
_SIGNS = "=@+-\uff1d\uff20\uff0b\uff0d\u2212"
_NUMBER = re.compile(r"[+-]?[0-9][0-9., ]*(?:[eE][+-]?[0-9]{1,3})?[ \u00a0]?[%\u20ac$\u00a3]?(?: ?[A-Z]{3})?")


def has_formula(text: str) -> bool:
    """Whether a program that opens the text as a table might run some of it: a cell that begins with a sign of a
    formula and is no plain number (OWASP, CSV Injection), or a first line that chooses what ends a cell."""
    if len(text) > MOST_READ:
        return True
    if text.lstrip(_BLANK + "\n\r\t\"'").lower().startswith("sep="):
        return True
    cells = (cell.strip(_BLANK) for cell in _CELLS.split(text))
    return any(cell[0] in _SIGNS and len(cell) > 1 and not _NUMBER.fullmatch(cell) for cell in cells if cell)
