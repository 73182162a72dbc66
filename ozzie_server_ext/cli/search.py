"""`ozzie search`: find what was said and done by its words."""

import argparse

from ozzie_server_ext.cli.http import Object, get
from ozzie_server_ext.cli.sessions import find_session
from ozzie_server_ext.cli.terminal import local_time, named_folder, print_json
from ozzie_server_ext.domain.terms import AUTHORS
from ozzie_server_ext.render.text import visible_label


def search(options: argparse.Namespace) -> int:
    """Print what was found, best first. Raises NotRunning, and as `find_session` does."""
    session = find_session(options.session) if options.session else None
    found = get(
        "search",
        text=" ".join(options.words),
        kind=options.kind,
        session_id=None if session is None else session["id"],
        project=named_folder(options),
        since=options.since,
        until=options.until,
        limit=options.limit,
        explain=options.explain,
    )
    if options.json:
        print_json(found)
        return 0
    for item in found["items"]:
        _print(item)
    print(_summary(found))
    return 0


def _print(item: Object) -> None:
    title = visible_label(item["title"]) or "(no title)"
    print(f"{local_time(item['ts'])}  {AUTHORS[item['kind']]:<8}  {title}  {item['session_id'] or ''}")
    print(f"    {_marked(item)}")
    if item["artifact_id"]:
        print(f"    show it with: ozzie artifacts show {item['artifact_id']}")
    if item["labels"]:
        print(f"    from outside: {', '.join(map(visible_label, item['labels']))}")
    if item["why"]:
        print("    why: " + ", ".join(f"{visible_label(each['words'])} {each['score']:.2f}" for each in item["why"]))


def _marked(item: Object) -> str:
    """Return the snippet with the words that were found between asterisks."""
    text = item["snippet"]
    for start, end in reversed(item["marks"]):
        text = f"{text[:start]}*{text[start:end]}*{text[end:]}"
    return visible_label(text)


def _summary(found: Object) -> str:
    if not found["words"]:
        return 'Nothing was searched for: words of every text, such as "the" and "which", are left out.'
    if not found["count"]:
        return "Nothing was found. All words must be in one text; beg* finds words that begin with beg."
    shown, count = len(found["items"]), found["count"]
    if found["capped"]:
        return f"The {shown} best of the newest {count:,}. Another word, --session or --until narrows the search."
    return f"{shown} of {count:,}." if shown < count else f"{count:,} found."
