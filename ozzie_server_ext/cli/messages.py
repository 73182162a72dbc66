"""`ozzie messages`: list and erase messages."""

import argparse
import sys

from ozzie_server_ext.cli.http import Object, delete, get
from ozzie_server_ext.cli.sessions import ERASING_S, find_session
from ozzie_server_ext.cli.terminal import agreed, local_time, print_json, print_result
from ozzie_server_ext.render.text import LINE_WIDTH, cut_columns, visible_label

_MOST = 500


def list_messages(options: argparse.Namespace) -> int:
    """Print the newest messages of a session with their ids. Raises as `find_session` does."""
    session = get(f"sessions/{find_session(options.session)['id']}", limit=min(options.limit, _MOST))
    messages: list[Object] = session["messages"]
    if options.json:
        print_json(messages)
        return 0
    if not messages:
        print("No messages.")
    for message in messages:
        who = "you" if message["role"] == "user" else "Ozzie"
        line = f"{message['message_id']}  {local_time(message['ts'])}  {who:<5}  {visible_label(message['content'])}"
        print(cut_columns(line, LINE_WIDTH))
    return 0


def erase_message(options: argparse.Namespace) -> int:
    """Erase a message with its turn, after asking back. Raises NotRunning, Misused without a terminal to ask at;
    Answered if there is none or a turn of its session runs."""
    message_id = visible_label(options.message_id)
    question = f"Erase the message {message_id} and its turn: the answer, the tool calls, and what they made?"
    if not options.yes and not agreed(f"{question} It can't be undone.", about="erase it"):
        print("Nothing was erased.", file=sys.stderr)
        return 1
    delete(f"messages/{options.message_id}", timeout_s=ERASING_S)
    line = "The message and its turn are erased. What other turns quote of them stays."
    return print_result({"erased": options.message_id}, line, as_json=options.json)
