"""Clients that tools generate from the served document call every operation, and their answers and errors are typed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.client import DOCUMENT
from tests.clients.calls import CALLS
from tests.clients.tool import Tool
from tests.clients.tools import TOOLS

OPERATIONS = {operation["operationId"] for item in DOCUMENT["paths"].values() for operation in item.values()}


def test_every_operation_of_the_document_is_called() -> None:
    assert {call.operation for call in CALLS.values()} == OPERATIONS


# xdist's loadscope gives one process all tests that are named alike up to the last "::". So a client is generated once.
@pytest.mark.parametrize(
    ("tool", "outcomes", "name"),
    [pytest.param(tool, tool, name, id=f"{tool.name}::{name}") for tool in TOOLS for name in CALLS],
    indirect=["outcomes"],
    scope="session",
)
def test_a_call_has_its_outcome(tool: Tool, outcomes: dict[str, Any], name: str) -> None:
    assert outcomes[name] == tool.differences.get(name, CALLS[name].outcome)


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_a_difference_of_a_tool_is_one(tool: Tool) -> None:
    for name, outcome in tool.differences.items():
        assert outcome != CALLS[name].outcome
