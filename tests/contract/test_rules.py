"""Each rule of the contract that is prose."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.contract.reference import RULES, Rule

TABLE = "Rules"

TESTS = Path(__file__).parent.parent


@cache
def names_in(file: str) -> frozenset[str]:
    tree = ast.parse((TESTS / file).read_text())
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.says)
def test_a_rule_is_held(rule: Rule):
    """Check that the rule's tests exist; the summary at the end of the run has their results."""
    assert rule.tests
    for test in rule.tests:
        file, _, name = test.partition("::")
        assert name in names_in(file), test
