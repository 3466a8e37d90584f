"""Operations survive the way between guest and owner; what is none is refused."""

import json
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convmem.message import Metadata
from convmem.operations import Command, Query, UpdateMessage
from convmem.sharing import wire
from tests.convmem.strategies import any_text, metadata

integers = st.integers(-(2**53), 2**53)
changes = st.builds(
    lambda content, labels: {"content": content} | vars_of(labels), any_text, metadata
)
operations = st.one_of(
    [
        st.builds(UpdateMessage, changes=changes) if kind is UpdateMessage else st.from_type(kind)
        for kind in (*get_args(Command), *get_args(Query))
    ]
)
anything = st.recursive(
    st.none() | st.booleans() | integers | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


def vars_of(labels: Metadata) -> dict[str, Any]:
    return {name: getattr(labels, name) for name in Metadata.__dataclass_fields__}


def sent(operation: Command | Query) -> Any:
    """The JSON as it arrives."""
    return json.loads(json.dumps(wire.encode(operation)))


@given(operations)
def test_an_operation_comes_back(operation: Command | Query) -> None:
    assert wire.decode(sent(operation)) == operation


@given(anything)
def test_what_is_no_operation_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        wire.decode(value)


@given(operations, st.data())
def test_an_operation_with_another_value_is_refused_or_is_another(
    operation: Command | Query, data: st.DataObject
) -> None:
    value = sent(operation)
    name = data.draw(st.sampled_from([*value, "other"]))
    value[name] = data.draw(anything)
    try:
        other = wire.decode(value)
    except ValueError:
        return
    assert wire.decode(sent(other)) == other
