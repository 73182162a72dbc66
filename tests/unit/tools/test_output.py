"""Large results stay out of the conversation, and nothing of them is lost (TL-5)."""

import json
from typing import Any

import pytest

from ozzie_server_ext.protocol.jsontext import InvalidJson
from ozzie_server_ext.store.blobs import InMemoryBlobs
from ozzie_server_ext.tools.output import compact


@pytest.mark.parametrize("data", [None, 1, "x" * 98, {"a": [1, 2]}, "é" * 98, "😀" * 98])
async def test_what_fits_goes_through_as_it_is(data: Any) -> None:
    assert await compact(data, max_chars=100, blobs=InMemoryBlobs()) == (data, None)


@pytest.mark.parametrize("data", ["x" * 99, "é" * 99, {"a": "y" * 500}, list(range(100))])
async def test_what_does_not_fit_leaves_its_head_and_lies_whole_in_a_blob(data: Any) -> None:
    blobs = InMemoryBlobs()

    told, ref = await compact(data, max_chars=100, blobs=blobs)

    assert ref is not None
    whole = (await blobs.get(ref)).decode()
    assert json.loads(whole) == data
    assert told == {"cut": True, "head": whole[:100], "total_chars": len(whole)}


@pytest.mark.parametrize("data", [float("nan"), object(), b"bytes", "\ud800"])
async def test_what_is_no_json_is_refused_before_it_gets_anywhere(data: Any) -> None:
    with pytest.raises(InvalidJson):
        await compact(data, max_chars=100, blobs=InMemoryBlobs())
