"""The offline script: what it asks for and what it says, conversation by conversation."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ozzie_server_ext.agent.rounds import result_text
from ozzie_server_ext.domain.events import ToolUse
from ozzie_server_ext.domain.ids import CallId
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.models.driver import ChatMessage
from ozzie_server_ext.models.offline import LABEL, MAX_QUESTION_CHARS, next_move
from ozzie_server_ext.models.offline_moves import Ask, Say, find_expression

ALL_TOOLS = frozenset({"calculator", "current_time", "list_files", "read_file"})
LISTING: Json = {
    "path": "data",
    "entries": [{"name": "raw", "kind": "folder"}, {"name": "sales.csv", "kind": "file", "size": 61}],
}


def user(text: str) -> ChatMessage:
    return ChatMessage(role="user", content=text)


def result(data: Json) -> str:
    """What a model reads of a call that gave `data`, or of one that failed: `{"error": why}`. One that says why by its
    data, such as the output of a command, has that too."""
    if not isinstance(data, dict) or "error" not in data:
        return result_text(data=data)
    why = data["error"]
    if not isinstance(why, dict):
        return result_text(error={"code": "tool.failed", "message": why})
    if "message" in why:
        return result_text(error=why)
    return result_text(data=why, error={"code": "tool.failed", "message": "in a few words"})


def gave(tool: str, data: Json) -> tuple[ChatMessage, ChatMessage]:
    use = ToolUse(call_id=CallId(f"c_{tool}"), name=tool, arguments="{}")
    return (
        ChatMessage(role="assistant", content="", tool_uses=(use,)),
        ChatMessage(role="tool", content=result(data), tool_call_id=use.call_id, name=tool),
    )


def said(*messages: ChatMessage, tools: frozenset[str] = ALL_TOOLS) -> str:
    move = next_move(messages, tools)
    assert isinstance(move, Say), move
    return move.text


def asked(*messages: ChatMessage, tools: frozenset[str] = ALL_TOOLS) -> Ask:
    move = next_move(messages, tools)
    assert isinstance(move, Ask), move
    return move


def test_it_says_what_it_is_and_labels_itself_in_the_first_line() -> None:
    text = said(user("Say hello and tell me what you are."))
    assert text.split("\n")[0] == LABEL
    assert "Hello. This is Ozzie" in text
    assert text.count(LABEL) == 1


def test_a_percentage_goes_to_the_calculator_and_its_result_into_the_answer() -> None:
    question = user("What is 17.5 % of 2,480? Use the calculator.")
    assert asked(question) == Ask("calculator", {"expr": "17.5/100*2480"})
    text = said(question, *gave("calculator", {"value": "434"}))
    assert "434" in text
    assert LABEL in text


@pytest.mark.parametrize(
    ("question", "expression"),
    [
        ("What is 2 + 2?", "2+2"),
        ("2+2", "2+2"),
        ("calculate (3 + 4) × 12 ÷ 7", "(3+4)*12/7"),
        ("How much is 1,234,567 minus 67?", "1234567-67"),
        ("what's 2^10", "2**10"),
        ("12 times 3 =", "12*3"),
        ("What is -4 * 2.5?", "-4*2.5"),
        ("what is 15 percent of 80", "15/100*80"),
    ],
)
def test_it_finds_the_sum_in_a_sentence(question: str, expression: str) -> None:
    assert find_expression(question) == expression


@pytest.mark.parametrize(
    "question",
    ["What is in data/2024-01.csv?", "I was born on 3-4", "What is 42?", "What is (2+2?", "What is 3+x?", ""],
)
def test_it_finds_no_sum_where_none_is_asked_for(question: str) -> None:
    assert find_expression(question) is None


def test_asking_for_the_calculator_without_a_sum_is_answered_without_a_tool() -> None:
    assert "no sum" in said(user("Use the calculator."))


def test_counting_rows_takes_two_steps_and_leaves_the_header_out() -> None:
    question = user("How many rows has @data/sales.csv?")
    assert asked(question) == Ask("list_files", {"path": "data"})
    listed = gave("list_files", LISTING)
    assert asked(question, *listed) == Ask("read_file", {"path": "data/sales.csv"})
    text = 'month,note\njan,"two\nlines"\nfeb,x\n'
    read = gave("read_file", {"path": "data/sales.csv", "text": text, "lines": 4, "truncated": False})
    assert "**2 rows**" in said(question, *listed, *read)


def test_rows_of_a_file_that_the_folder_has_not_got_end_with_what_there_is() -> None:
    text = said(user("How many rows has @data/sale.csv?"), *gave("list_files", LISTING))
    assert "There is no `sale.csv` in `data`." in text
    assert "`sales.csv`" in text


def test_a_truncated_table_is_counted_by_its_lines_and_says_so() -> None:
    question = user("How many rows has @big.csv?")
    read = gave("read_file", {"text": "a\n1\n", "lines": 5001, "truncated": True})
    text = said(question, *gave("list_files", {"entries": [{"name": "big.csv"}]}), *read)
    assert "5,000 lines below its header line" in text


@pytest.mark.parametrize(
    ("question", "path"),
    [
        ("list files in data", "data"),
        ("List the files here.", "."),
        ("Which files are in the folder notes/old?", "notes/old"),
        ("list the files of this project", "."),
        ("ls", "."),
        ("What files are in @data?", "data"),
    ],
)
def test_listing_names_the_folder(question: str, path: str) -> None:
    assert asked(user(question)) == Ask("list_files", {"path": path})
    text = said(user(question), *gave("list_files", LISTING))
    assert "- `raw/`" in text
    assert "- `sales.csv`, 61 bytes" in text


def test_reading_shows_the_beginning_in_a_fence_that_the_file_cannot_close() -> None:
    question = user("Read @notes/todo.md")
    assert asked(question) == Ask("read_file", {"path": "notes/todo.md"})
    lines = "\n".join(["```", "x", "```", *map(str, range(20))])
    text = said(question, *gave("read_file", {"path": "notes/todo.md", "text": lines, "lines": 23, "truncated": False}))
    assert "23 lines" in text
    assert text.count("````") == 2
    assert "\n19\n" not in text


def test_the_time_is_asked_in_the_zone_that_was_named() -> None:
    assert asked(user("What time is it?")) == Ask("current_time", {})
    question = user("What time is it in Europe/Berlin?")
    assert asked(question) == Ask("current_time", {"timezone": "Europe/Berlin"})
    assert "12:00" in said(question, *gave("current_time", {"iso": "2026-01-01T12:00:00+01:00"}))


def test_a_tool_that_is_not_offered_is_named() -> None:
    assert "`calculator`, which is not offered here" in said(user("What is 2 + 2?"), tools=frozenset())


@pytest.mark.parametrize(
    "content",
    [result_text(error={"code": "calc.zero", "message": "Division by zero."}), "Division by zero."],
)
def test_an_error_of_a_tool_becomes_the_answer(content: str) -> None:
    message = ChatMessage(role="tool", content=content, tool_call_id="c", name="calculator")
    assert "Division by zero." in said(user("What is 1/0?"), message)


def test_a_tool_result_that_is_no_json_ends_the_turn_instead_of_asking_again() -> None:
    message = ChatMessage(role="tool", content="\ud800 not json", tool_call_id="c", name="calculator")
    assert "\ufffd not json" in said(user("What is 2+2?"), message)


def test_results_of_an_earlier_turn_do_not_answer_this_one() -> None:
    earlier = (user("What is 2 + 2?"), *gave("calculator", {"value": "4"}), ChatMessage(role="assistant", content="4"))
    assert asked(*earlier, user("What is 3 + 3?")) == Ask("calculator", {"expr": "3+3"})


NOTE = "Write a two-line note to notes/hello.md."
TWO = "Line 1 of 2 from Ozzie's offline script.\nLine 2 of 2 from Ozzie's offline script.\n"
THREE = TWO.replace("of 2", "of 3") + "Line 3 of 3 from Ozzie's offline script.\n"
WRITING = frozenset({"read_file", "write_file"})


def wanted(tool: str, args: Json, result: Json) -> tuple[ChatMessage, ChatMessage]:
    """A call with these arguments, and what came of it."""
    asking, given = gave(tool, result)
    use = ToolUse(call_id=asking.tool_uses[0].call_id, name=tool, arguments=json.dumps(args))
    return ChatMessage(role="assistant", content="", tool_uses=(use,)), given


def test_a_note_is_written_and_one_that_is_there_is_read_first() -> None:
    assert asked(user(NOTE), tools=WRITING) == Ask("write_file", {"path": "notes/hello.md", "text": TWO})
    there = gave("write_file", {"error": "notes/hello.md is there already: read it first, and name its version."})
    assert asked(user(NOTE), *there, tools=WRITING) == Ask("read_file", {"path": "notes/hello.md"})
    read = gave("read_file", {"path": "notes/hello.md", "text": THREE, "version": "v1"})
    again = asked(user(NOTE), *there, *read, tools=WRITING)
    assert again == Ask("write_file", {"path": "notes/hello.md", "text": TWO, "version": "v1"})
    assert "stands in `notes/hello.md`" in said(user(NOTE), *there, *read, *gave("write_file", {"path": "p"}))


def test_a_file_that_somebody_else_wrote_is_left_as_it_is() -> None:
    there = gave("write_file", {"error": "notes/hello.md is there already: read it first, and name its version."})
    read = gave("read_file", {"path": "notes/hello.md", "text": TWO + "and mine\n", "version": "v1"})
    assert "leaves it as it is" in said(user(NOTE), *there, *read, tools=WRITING)


def test_why_a_note_was_not_written_is_said() -> None:
    rejected = gave("write_file", {"error": 'Rejected by Ana: "One line is enough."'})
    assert '"One line is enough."' in said(user(NOTE), *rejected, tools=WRITING)


@pytest.mark.parametrize("result", [{"path": "notes/hello.md"}, {"error": "Not done: nobody was there to ask."}])
def test_it_is_written_again_with_one_more_line(result: Json) -> None:
    earlier = wanted("write_file", {"path": "notes/hello.md", "text": TWO}, result)
    question = user("Write it again with one more line.")
    so_far = (user(NOTE), *earlier, question)
    assert asked(*so_far, tools=WRITING) == Ask("read_file", {"path": "notes/hello.md"})
    read = gave("read_file", {"path": "notes/hello.md", "text": TWO, "version": "v1"})
    written = Ask("write_file", {"path": "notes/hello.md", "text": THREE, "version": "v1"})
    assert asked(*so_far, *read, tools=WRITING) == written
    gone = gave("read_file", {"error": "notes/hello.md does not exist."})
    anew = Ask("write_file", {"path": "notes/hello.md", "text": THREE})
    assert asked(*so_far, *gone, tools=WRITING) == anew


@pytest.mark.parametrize("arguments", ["", "[1]", '{"path": 1}', '{"path": "a", "text": null}', "{"])
def test_what_was_never_written_is_not_written_again(arguments: str) -> None:
    use = ToolUse(call_id=CallId("c"), name="write_file", arguments=arguments)
    earlier = ChatMessage(role="assistant", content="", tool_uses=(use,))
    assert "can't answer this" in said(user("x"), earlier, user("Write it again with one more line."))


def test_it_asks_back_and_says_what_was_answered() -> None:
    tools = frozenset({"ask_user"})
    which = user("Ask me whether I want tea or coffee.")
    options: Json = [{"label": "Tea"}, {"label": "Coffee"}]
    assert asked(which, tools=tools) == Ask("ask_user", {"question": "Tea or coffee?", "options": options})
    assert "Your answer is `Coffee`." in said(which, *gave("ask_user", {"answer": "Coffee"}))
    assert "You skipped the question." in said(which, *gave("ask_user", {"answer": None, "note": "skipped"}))
    name = Ask("ask_user", {"question": "What is your name?"})
    assert asked(user("Ask me for my name."), tools=tools) == name


HANDS = ALL_TOOLS | {"shell", "python", "host_command"}


@pytest.mark.parametrize(
    ("question", "tool", "args"),
    [
        ("Run `wc -l data/*.csv`", "shell", {"command": "wc -l data/*.csv"}),
        ("Please run the command `ls data` for me.", "shell", {"command": "ls data"}),
        ("Run the Python program `print(6 * 7)`", "python", {"code": "print(6 * 7)"}),
        ("Run ``ls -l``", "shell", {"command": "ls -l"}),
        ("Run `git log -n 3` on this machine.", "host_command", {"argv": ["git", "log", "-n", "3"]}),
        ("Please run `sh -c 'ls | wc'` on my computer", "host_command", {"argv": ["sh", "-c", "ls | wc"]}),
    ],
)
def test_a_command_between_backticks_is_run(question: str, tool: str, args: JsonObject) -> None:
    assert asked(user(question), tools=HANDS) == Ask(tool, args)


def test_a_command_that_is_no_list_of_words_is_not_run() -> None:
    assert "can't split this into words" in said(user("Run `echo 'a` on this machine"), tools=HANDS)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ({"exit_code": 0, "output": "3\n"}, "It ran.\n\n```\n3\n```"),
        ({"exit_code": 0, "output": ""}, "It ran. It printed nothing."),
        ({"error": {"exit_code": 2, "output": "no `x`"}}, "It ended with `exit 2`.\n\n```\nno `x`\n```"),
        (
            {"error": {"exit_code": None, "output": "", "ended": "It was ended after 1 s."}},
            "It was ended after 1 s. It",
        ),
        ({"exit_code": 0, "output": {"cut": True}, "kept": [{"name": "x"}, {"head": "1\n", "tail": "9\n"}]}, "1\n…\n"),
        ({"error": {"code": "sandbox.unavailable", "message": "Not here."}}, "gave no result: Not here."),
    ],
)
def test_what_it_printed_and_how_it_ended_is_the_answer(data: Json, told: str) -> None:
    assert told in said(user("Run `wc -l x`"), *gave("shell", data), tools=HANDS)


@pytest.mark.parametrize(
    ("question", "tool", "args"),
    [
        ("Fetch https://example.org/a?b=c#d.", "fetch_url", {"url": "https://example.org/a?b=c#d"}),
        ("Please fetch http://example.org/list/files", "fetch_url", {"url": "http://example.org/list/files"}),
        ("Search the web for jupyter kernels.", "web_search", {"query": "jupyter kernels"}),
        ("Please search the web for `what is 2+2`", "web_search", {"query": "what is 2+2"}),
    ],
)
def test_an_address_is_fetched_and_the_web_is_searched(question: str, tool: str, args: JsonObject) -> None:
    assert asked(user(question), tools=ALL_TOOLS | {"fetch_url", "web_search"}) == Ask(tool, args)
    assert f"needs the tool `{tool}`" in said(user(question))


@pytest.mark.parametrize(
    ("question", "tool", "data", "told"),
    [
        (
            "Fetch https://a.b/",
            "fetch_url",
            {"url": "https://a.b/", "title": "T", "text": "# Hi\n"},
            "`T` begins:\n\n```\n# Hi",
        ),
        ("Fetch https://a.b/", "fetch_url", {"url": "https://a.b/", "text": ""}, "`https://a.b/` has no text."),
        (
            "Fetch https://a.b/",
            "fetch_url",
            {"url": "https://a.b/", "text": {"cut": True}, "kept": [{"head": "Long\n", "tail": "."}]},
            "`https://a.b/` begins:\n\n```\nLong\n…\n```",
        ),
        (
            "Fetch https://a.b/",
            "fetch_url",
            {"url": "https://a.b/", "leads_to": "https://c.d/"},
            "`https://a.b/` redirects to `https://c.d/`, which was not followed.",
        ),
        (
            "Search the web for x",
            "web_search",
            {"results": [{"title": "A `b`", "url": "https://a.b/"}]},
            "- `A ˋbˋ`: `https://a.b/`",
        ),
        ("Search the web for x", "web_search", {"results": []}, "The search found nothing."),
        (
            "Search the web for x",
            "web_search",
            {"error": {"code": "web.challenged", "message": "Not now."}},
            "Not now.",
        ),
    ],
)
def test_what_the_web_gave_is_the_answer(question: str, tool: str, data: Json, told: str) -> None:
    assert told in said(user(question), *gave(tool, data), tools=ALL_TOOLS | {tool})


CHANGES: Json = {
    "exit_code": 0,
    "output": "",
    "changes": {"artifact": "changes/a.json", "files": [{"path": "src/a.py", "is": "changed"}, {"path": "src/b.py"}]},
}


def test_what_a_command_changed_in_a_folder_that_it_may_change_is_applied() -> None:
    question, tools = user("Run `sed -i s/a/b/ src/*` changing `src`."), HANDS | {"apply_changes"}
    assert asked(question, tools=tools) == Ask("shell", {"command": "sed -i s/a/b/ src/*", "editable_folder": "src"})
    apply = Ask("apply_changes", {"artifact": "changes/a.json", "paths": ["src/a.py", "src/b.py"]})
    assert asked(question, *gave("shell", CHANGES), tools=tools) == apply
    done = gave("apply_changes", {"applied": ["src/a.py", "src/b.py"]})
    assert "Applied: `src/a.py`, `src/b.py`." in said(question, *gave("shell", CHANGES), *done, tools=tools)
    partly = gave("apply_changes", {"error": {"applied": ["a"], "not_applied": ["b"], "why": "b is busy."}})
    assert "Applied: `a`. Not applied: `b`. b is busy." in said(question, *gave("shell", CHANGES), *partly, tools=tools)


@pytest.mark.parametrize("changes", [None, 7, {}, {"files": []}, {"files": [], "refused": "Too much."}, {"files": 7}])
def test_where_a_command_left_no_changes_none_are_applied(changes: Json) -> None:
    question = user("Run `true` changing `src`.")
    left: Json = {"exit_code": 0, "output": "", "changes": changes}
    assert "It ran. It printed nothing." in said(question, *gave("shell", left), tools=HANDS | {"apply_changes"})


def test_anything_else_is_answered_with_what_it_can_do() -> None:
    text = said(user("Write a poem."))
    assert "calculate, tell the time, list folders and read files" in text
    assert "No tool is offered here" in said(user("Write a poem."), tools=frozenset())


def test_a_conversation_without_a_user_gets_an_answer_all_the_same() -> None:
    assert LABEL in said(ChatMessage(role="system", content="You are a program."))


@pytest.mark.parametrize("data", [None, [], 7, "text", {"entries": "no"}, {"entries": [1, None]}, {"value": None}, {}])
@pytest.mark.parametrize(
    ("question", "tool"),
    [("What is 2+2?", "calculator"), ("What time is it?", "current_time"), ("list files", "list_files"),
     ("Read @a.txt", "read_file"), ("Fetch https://a.b/", "fetch_url"), ("Search the web for x", "web_search")],
)  # fmt: skip
def test_results_of_any_shape_end_in_an_answer(question: str, tool: str, data: Json) -> None:
    assert LABEL in said(user(question), *gave(tool, data))


WORDS = st.sampled_from(
    ["what", "is", "1", "17.5", "%", "of", "2,480", "how many rows", "list", "files", "in", "@data/x.csv", "@", "read",
     "calculator", "time", "hello", "(", ")", "**", "-", ".", "\n", "\ud800", "\u2028", "`", "```"]
)  # fmt: skip


@given(
    st.lists(WORDS | st.text(max_size=5), max_size=12).map(" ".join), st.frozensets(st.sampled_from(sorted(ALL_TOOLS)))
)
def test_whatever_is_asked_it_answers_with_its_label_or_asks_for_a_tool_on_offer(
    question: str, tools: frozenset[str]
) -> None:
    move = next_move([user(question)], tools)
    if isinstance(move, Ask):
        assert move.tool in tools
    else:
        assert move.text.startswith(LABEL)


def test_what_stands_far_behind_in_a_question_is_not_searched() -> None:
    assert "can't answer this" in said(user("x" * MAX_QUESTION_CHARS + " What is 2 + 2?"))
    assert asked(user("x" * 1000 + " What is 2 + 2?")) == Ask("calculator", {"expr": "2+2"})


def test_it_lists_the_kernels_that_run() -> None:
    question = user("Which kernels run?")
    assert asked(question, tools=frozenset({"list_kernels"})) == Ask("list_kernels", {})
    told: Json = {
        "kernels": [{"notebook": "a.ipynb", "state": "idle"}, {"notebook": "", "name": "python3", "state": "busy"}]
    }
    assert "- `a.ipynb`: `idle`\n- `python3`: `busy`" in said(question, *gave("list_kernels", told))
    nothing = gave("list_kernels", {"kernels": [], "note": "No kernel runs in this Jupyter server."})
    assert "No kernel runs in this Jupyter server." in said(question, *nothing)


def test_a_fact_about_tea_is_known_and_one_about_anything_else_is_not() -> None:
    ask = "Tell one fact about {}, in one sentence: where it comes from."
    assert said(user(ask.format("tea"))).startswith(f"{LABEL}\n\nAll tea comes from")
    assert "none about `coffee`" in said(user(ask.format("coffee")))


def test_a_note_of_facts_has_each_of_them_and_the_label_once() -> None:
    facts = "\n".join(f"{number}. {LABEL}\n\nFact {number}." for number in (1, 2, 3))
    text = said(
        user(f"Make a note about tea in Markdown: a heading, then a list of these facts, word for word.\n\n{facts}")
    )
    assert text.count(LABEL) == 1
    assert "# Tea\n\n- Fact 1.\n- Fact 2.\n- Fact 3.\n" in text
