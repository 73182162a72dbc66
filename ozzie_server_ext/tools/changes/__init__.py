"""Changes to files of the project that are made on exactly what was seen, or not at all.

A tool looks (`seen.look`), a person approves what it would do, perhaps hours later, and then `replace.replace`,
`folders.make_folders` or `trash.move_to_trash` does it. They return when it was done; FileChanged, FileBusy and any
other ToolFailed mean that it was not; Unsettled means that a person has to look. ADR 26 has the reasons.
"""
