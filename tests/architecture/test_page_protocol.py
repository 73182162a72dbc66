"""The extension's idea of the protocol is that of the gateway."""

from tests.architecture.page_protocol import SCHEMA, TABLE, table, written


def test_the_schema_that_the_page_is_typed_from_is_that_of_the_code() -> None:
    assert SCHEMA.read_text() == written(), "run `make types`"
    assert TABLE.read_text() == table(), "run `make types`"
