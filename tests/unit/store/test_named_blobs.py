"""Every blob that a fact can name is counted: one that was forgotten would lose its file."""

import typing
from dataclasses import fields, is_dataclass
from typing import Any

from ozzie_server_ext.domain.events import EVENT_CLASSES
from ozzie_server_ext.domain.ids import BlobRef
from ozzie_server_ext.store.projections.blobs import HANDLES

REF_FIELDS = {"storage_ref"}
"""Those that name a blob in other words."""


def names_a_blob(kind: Any) -> bool:
    """Whether a value of this type can hold a reference, at any depth."""
    if kind is BlobRef:
        return True
    names = [field.name for field in fields(kind)] if is_dataclass(kind) else getattr(kind, "__struct_fields__", ())
    if names:
        hints = typing.get_type_hints(kind)
        return any(name in REF_FIELDS or names_a_blob(hints[name]) for name in names)
    return any(map(names_a_blob, typing.get_args(kind)))


def test_every_fact_that_can_name_a_blob_is_counted() -> None:
    naming = {kind.type for kind in EVENT_CLASSES if names_a_blob(kind)}

    assert naming | {"artifact.erased"} == {kind.type for kind in HANDLES}
    assert len(naming) == 10
