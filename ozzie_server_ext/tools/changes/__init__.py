"""Changes to project files, made exactly on what was seen or not at all.

A tool looks (`seen.look`), a person approves the change, perhaps hours later, and then `replace.replace`,
`held.make_folders` or `trash.move_to_trash` makes it. They return once it is done; FileChanged, FileBusy and any other
ToolFailed mean that it was not; Unsettled means that a person has to look. ADR 26 has the reasons.
"""
