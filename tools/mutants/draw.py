"""``python -m tools.mutants.draw COUNT`` draws mutants by a fixed seed, for drawn.toml. People name them."""

from __future__ import annotations

import ast
import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path

SEED = 29

_OTHERS: dict[type[ast.AST], str] = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==", ast.Is: "is not",
    ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in", ast.And: "or", ast.Or: "and",
}  # fmt: skip
"""The operator that takes the place of another one."""


def mutations(node: ast.AST) -> Iterator[tuple[ast.expr, str]]:
    """Each part of the node that can be changed, with what takes its place."""
    match node:
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
            yield test, f"not ({ast.unparse(test)})"
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            yield node, f"{ast.unparse(left)} {_OTHERS[type(operator)]} {ast.unparse(right)}"
        case ast.BoolOp(op=operator, values=values):
            yield node, f" {_OTHERS[type(operator)]} ".join(f"({ast.unparse(value)})" for value in values)
        case ast.Constant(value=bool() as value):
            yield node, str(not value)
        case ast.Constant(value=int() as value):
            yield node, str(value + 1)
        case ast.Return(value=ast.expr() as value) if ast.unparse(value) != "None":
            yield value, "None"


def candidates(path: Path) -> list[tuple[str, str, str]]:
    """The mutants of a file: its path, the whole lines that change, and the same lines changed."""
    source = path.read_text()
    lines = source.splitlines(keepends=True)
    found = []
    for node in ast.walk(ast.parse(source)):
        for part, replacement in mutations(node):
            first, last = part.lineno - 1, (part.end_lineno or part.lineno) - 1
            before = lines[first].encode()[: part.col_offset].decode()
            after = lines[last].encode()[part.end_col_offset or 0 :].decode()
            new = before + replacement + after
            # Lines that stand twice in the file are told apart by those before them.
            start = first
            while source.count("".join(lines[start : last + 1])) > 1:
                start -= 1
            found.append((str(path), "".join(lines[start : last + 1]), "".join(lines[start:first]) + new))
    return sorted(found)


def main(count: int) -> None:
    """Print so many mutants as TOML. The first ones are the same for every count."""
    everywhere = [mutant for path in sorted(Path("app").rglob("*.py")) for mutant in candidates(path)]
    random.Random(SEED).shuffle(everywhere)  # noqa: S311 - nothing secret
    for file, old, new in everywhere[:count]:
        print(f'[[mutant]]\nbreaks = ""\nfile = "{file}"\nold = {json.dumps(old)}\nnew = {json.dumps(new)}\n')


if __name__ == "__main__":
    main(int(sys.argv[1]))
