"""The table of docs/documents.md: requirements from the specification documents, and the tests that prove them.

`python -m tests.docs.documents_page` writes it.
"""

from dataclasses import dataclass
from pathlib import Path

from tests.docs.generated import replaced

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "documents.md"
HEAD = ("What Ozzie does", "Passage", "Tests")


@dataclass(frozen=True, slots=True)
class Bound:
    """A requirement, the passage that says it, and tests: a file below `tests/` with the names of functions in it."""

    does: str
    passage: str
    tests: tuple[tuple[str, tuple[str, ...]], ...]


def bound(does: str, passage: str, **tests: str) -> Bound:
    """Make a row; each keyword is a file of FILES, with names of its tests, separated by spaces."""
    return Bound(does, passage, tuple((FILES[name], tuple(text.split())) for name, text in tests.items()))


FILES = {
    "ws": "integration/gateway/test_ws.py",
    "rest": "integration/gateway/test_rest.py",
    "ways_in": "integration/gateway/test_further_messages.py",
    "kernels": "integration/gateway/test_kernel_access.py",
    "cells": "integration/kernel/test_list_magics.py",
    "calls": "unit/agent/test_causes_of_calls.py",
    "turns": "unit/agent/test_turn.py",
    "server": "integration/jupyter/test_server.py",
    "attached": "integration/gateway/test_attached.py",
    "causes": "contract/test_what_led_to_an_event.py",
    "runs": "integration/tasks/test_waiting_runs.py",
    "messages": "integration/tasks/test_further_messages.py",
    "quick": "integration/tasks/test_quick_steps.py",
    "chains": "integration/tasks/test_chains.py",
    "conversation": "unit/agent/test_conversation.py",
    "tasks": "integration/tasks/test_task_tools.py",
    "results": "unit/agent/test_result_summaries.py",
    "magics": "unit/kernel/test_list_magics.py",
    "contents": "integration/jupyter/test_contents.py",
    "inspecting": "integration/jupyter/test_inspecting.py",
    "compaction": "unit/agent/test_compaction.py",
    "laundering": "integration/tasks/test_labels_of_summaries.py",
    "activity": "contract/test_activity.py",
    "readable": "contract/test_readable.py",
    "budgets": "integration/kernel/test_budget_scopes.py",
    "moments": "integration/tasks/test_every_moment_of_sessions.py",
    "moments_of_runs": "integration/tasks/test_every_moment_of_runs.py",
    "registry": "unit/models/test_registry.py",
    "files": "documents/test_files.py",
    "examples": "documents/test_tasks.py",
    "recovery": "unit/tasks/test_driver.py",
    "projects": "integration/tasks/test_projects.py",
    "folders": "integration/gateway/test_projects.py",
    "notebooks": "unit/tasks/test_notebooks.py",
}

ROWS = (
    bound(
        "The session of a WebSocket's handshake counts for requests that name none; an unknown one is refused, and a "
        "connection without one begins its own",
        "S3 F1",
        ws="test_the_session_of_the_handshake_is_that_of_requests_that_name_none "
        "test_a_handshake_with_a_session_that_is_unknown_is_refused "
        "test_a_kernel_can_not_name_another_session_in_its_handshake "
        "test_a_connection_without_a_session_begins_one_with_its_first_message",
        attached="test_an_attached_server_passes_on_the_session_of_a_handshake",
    ),
    bound(
        "Feeds and `GET /events` take the names of events that frames show, and refuse unknown ones; a frame without a "
        "method is answered with its id",
        "S0 §3.2, §3.3",
        ws="test_a_feed_takes_the_names_that_frames_show test_a_bad_frame_is_answered_and_the_connection_lives "
        "test_a_frame_without_a_method_is_answered_with_its_id",
        rest="test_events_are_found_by_the_names_that_frames_show test_a_type_of_events_that_is_unknown_is_refused",
    ),
    bound(
        "Each event names its trace, the work that it is part of, the event that led to it, and the part that emitted "
        "it",
        "S4 §8.1.2, S1",
        causes="test_each_event_of_a_turn_names_the_one_before_it "
        "test_a_turn_is_one_trace_from_its_first_event_on "
        "test_a_delegated_task_is_of_the_trace_of_the_one_that_delegated_it "
        "test_an_event_of_a_call_belongs_to_that_call_and_any_other_to_its_task",
        calls="test_parallel_calls_follow_from_their_answer test_a_call_that_asks_first_follows_from_its_answer_too "
        "test_an_outcome_follows_from_the_start_of_its_call test_a_call_goes_on_from_its_yes",
        files="test_the_sources_of_a_runs_events_are_the_documents",
    ),
    bound(
        "The end of a model's call names its alias, its provider and its model; so does a session its provider",
        "S4 §8.9, S3 F1",
        turns="test_an_answer_is_streamed_and_recorded_whole",
        registry="test_an_alias_of_the_offline_script_keeps_its_name",
        readable="test_a_session_is_there_with_its_messages",
        files="test_a_session_is_written_with_the_fields_of_the_documents",
    ),
    bound(
        "A task, an event and a tool's contract are shown with the documents' fields",
        "S4 §8.1.2, §8.5.2",
        examples="test_a_task_and_an_event_have_the_documents_fields test_a_tools_contract_has_the_documents_fields",
    ),
    bound(
        "Only a retry raises a task's attempt; a run whose open steps all wait is waiting itself",
        "S4 §5.1.2, §8.1.2",
        recovery="test_a_recovered_task_goes_on_in_the_same_attempt_with_another_claim",
        runs="test_it_waits_for_the_yes_of_its_step_and_goes_on_with_it test_it_says_for_which_signal_it_waits "
        "test_a_restart_records_nothing_for_a_waiting_run",
        moments_of_runs="test_a_run_cut_off_behind_any_append_ends_as_one_that_was_not",
    ),
    bound(
        "A plain message answers the question of its session, else is an update of the sender's running task, else a "
        "turn behind it; the reply says which",
        "S4 §6.3.1",
        messages="test_it_answers_the_question_that_the_session_waits_with "
        "test_it_is_an_update_of_the_senders_running_task test_otherwise_it_becomes_a_queued_turn "
        "test_an_approval_is_not_answered test_with_two_questions_it_answers_neither",
        ways_in="test_it_answers_the_question_of_its_session_over_every_way_in "
        "test_over_the_websocket_it_is_an_update_unless_the_sender_awaits_an_answer "
        "test_over_rest_it_is_an_update_unless_the_sender_waits test_a_kernels_message_is_never_an_update "
        "test_a_question_from_a_terminal_is_never_an_update "
        "test_a_terminal_that_answers_a_question_shows_what_follows",
        cells="test_a_cell_that_answers_an_earlier_question_says_so",
        moments="test_a_turn_that_sums_up_cut_off_behind_any_append_ends_as_one_that_was_not",
    ),
    bound(
        "An agent or a graph is chosen for a message, and the log says why",
        "S4 §6, §8.3",
        messages="test_a_message_that_is_a_skills_keyword_runs_it_and_the_log_says_why "
        "test_otherwise_an_agent_answers_and_the_log_says_why test_a_keyword_of_two_skills_runs_neither",
    ),
    bound(
        "A step that only reads leaves its start and its call in the log, in one append with its end",
        "S4 §8.3",
        quick="test_a_call_that_only_reads_is_recorded_whole_in_one_append_with_its_step",
        moments_of_runs="test_a_run_cut_off_behind_any_append_ends_as_one_that_was_not",
    ),
    bound(
        "An answer whose worker dies in the middle of it is asked for once more by itself",
        "S4 §12.3",
        chains="test_an_answer_whose_worker_is_lost_in_the_middle_of_it_is_asked_for_once_more "
        "test_if_the_next_worker_is_lost_in_it_too_the_turn_ends_and_what_came_is_kept",
    ),
    bound(
        "A model reads each result of a tool as `{ok, data, error, artifact_refs}`",
        "S4 §10.3",
        conversation="test_every_outcome_of_a_call_is_read_in_the_same_form",
    ),
    bound(
        "A session's tasks can be listed, shown and stopped by a tool",
        "S4 §8.3",
        tasks="test_it_lists_those_of_its_session_and_shows_one_with_its_answer "
        "test_it_stops_what_is_queued_behind_it_and_neither_itself_nor_another_sessions",
    ),
    bound(
        "A result that is too long is summarized by the summarizer, if there is one, else cut",
        "S4 §8.5",
        results="test_the_model_reads_the_summary_instead_of_beginning_and_end "
        "test_without_a_summary_the_model_reads_beginning_and_end test_a_summary_has_the_labels_of_the_result",
    ),
    bound(
        "`%tools`, `%tasks`, `%approvals`, `%config` and `%pin` show what the session has; `%config prompt` shows the "
        "latest prompt, and long ones are shortened on the page",
        "S5",
        cells="test_every_list_shows_what_the_gateway_has",
        kernels="test_a_kernel_lists_the_tasks_approvals_and_pins_of_its_own_session "
        "test_another_sessions_are_refused_on_both_ways_in test_it_pins_facts_and_removes_them "
        "test_the_latest_prompt_is_the_recorded_request",
        magics="test_tools_are_listed_with_what_the_rules_say test_a_task_is_listed_with_its_state "
        "test_approvals_are_listed_oldest_first_with_where_to_answer test_the_configuration_is_shown_with_its_files "
        "test_the_prompt_is_shown_as_it_was_sent",
    ),
    bound(
        "Closed notebooks are saved by a contents manager that does more than write files",
        "S5",
        server="test_a_tool_saves_a_closed_notebook_as_the_server_is_configured",
        contents="test_a_manager_that_keeps_a_script_beside_it_keeps_doing_so test_hooks_run",
    ),
    bound(
        "The variables of Ozzie's own kernel can be inspected, while its cell runs",
        "S5",
        inspecting="test_our_own_kernel_shows_its_variables_while_a_cell_runs",
    ),
    bound(
        "A long session is summarized, keeps what is pinned and planted, and forgets no label; a summary is trusted no "
        "more than what it was made from",
        "S4 §8.9",
        compaction="test_a_session_of_many_turns_keeps_its_planted_facts "
        "test_what_is_pinned_is_kept_by_a_summarizer_that_loses_all "
        "test_a_label_of_the_beginning_is_on_the_summary_and_on_all_that_follows",
        laundering="test_a_turn_asks_behind_the_summary_of_one_that_read_a_page "
        "test_a_fork_asks_behind_a_summary_that_was_made_before_it "
        "test_a_turn_asks_behind_the_summary_of_a_long_page test_a_summary_of_a_summary_asks",
        moments="test_a_turn_that_sums_up_cut_off_behind_any_append_ends_as_one_that_was_not",
    ),
    bound(
        "The application's log has a line for each turn, call, approval and failure, with its ids",
        "S2, S4 §12",
        activity="test_each_fact_is_a_line_with_its_ids test_a_run_of_a_skill_and_its_steps_are_lines_of_the_skill",
    ),
    bound(
        "Sessions, events and a diary are files to read, caught up after a crash",
        "S3 F1, F4",
        readable="test_a_session_is_there_with_its_messages test_a_day_has_all_its_events_and_a_diary "
        "test_after_a_crash_what_later_events_touch_is_written_anew",
    ),
    bound(
        "Several project folders under one gateway, each with its own rules, skills, secrets, settings and files; a "
        "session works in one, and a server with another root brings its own",
        "S4 UC6",
        projects="test_each_session_reads_in_its_own_folder test_each_session_writes_in_its_own_folder "
        "test_nothing_of_another_project_can_be_reached_from_a_session test_no_picture_of_another_project_is_shown "
        "test_the_rules_of_a_project_bind_its_own_sessions_only "
        "test_a_skill_of_a_project_is_known_in_its_own_sessions_only "
        "test_a_key_of_a_project_opens_no_model_for_another "
        "test_a_session_goes_on_in_its_project_after_a_start_in_another_folder "
        "test_what_a_call_did_before_a_crash_is_looked_up_in_its_own_folder",
        folders="test_a_session_is_created_in_a_folder_and_says_which test_a_terminal_asks_about_a_folder",
        attached="test_a_session_that_an_attached_server_begins_works_in_its_folder",
        notebooks="test_a_notebook_that_left_its_project_works_in_the_folder_where_it_is_now",
    ),
    bound(
        "Budgets of a task, a session, a project and a day end a turn in words, and show what it cost",
        "S3 F5, S4 §8.9",
        budgets="test_a_task_budget_ends_the_turn_before_its_next_round "
        "test_a_shared_budget_ends_the_turn_that_does_not_fit",
    ),
)


def table() -> str:
    """The rows, with links to the files of the tests."""
    lines = [HEAD, ("---",) * len(HEAD), *((row.does, row.passage, _tests(row)) for row in ROWS)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _tests(row: Bound) -> str:
    return "<br>".join(
        f"[{Path(file).name}](../tests/{file}): {', '.join(f'`{name}`' for name in names)}" for file, names in row.tests
    )


def with_table(page: str) -> str:
    """The page with the table as it is now."""
    return replaced(page, "bound", table())


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text()))
