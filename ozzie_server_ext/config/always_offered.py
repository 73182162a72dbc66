"""The tools that every turn is offered, unless somebody says otherwise (`tools.always`; ADR 38)."""

ALWAYS_OFFERED = (
    *("calculator", "list_files", "read_file", "search", "write_file", "edit_file"),
    *("shell", "apply_changes", "list_kernels"),
    *("read_notebook", "insert_cell", "edit_cell", "undo_cell_edit"),
    *("read_artifact", "read_note", "write_note", "ask_user"),
)
"""What every task on files and notebooks needs, what results and failures of tools name as the next step, and what the
notebooks that come with Ozzie show."""
