"""A small linter: `python3 ci/lint.py FOLDER...`

It checks for syntax errors, unused imports, long lines and trailing blanks.
"""

import ast
import pathlib
import sys

LONGEST = 120


def faults(path: pathlib.Path):
    text = path.read_text(encoding="utf-8")
    for number, line in enumerate(text.splitlines(), start=1):
        if len(line) > LONGEST:
            yield number, f"line of {len(line)} characters, {LONGEST} at most"
        if line != line.rstrip():
            yield number, "blanks at the end of the line"
    tree = ast.parse(text, str(path))
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                name = (alias.asname or alias.name).split(".")[0]
                if name not in used:
                    yield node.lineno, f"{name} is imported and never used"


files = sorted(path for folder in sys.argv[1:] for path in pathlib.Path(folder).rglob("*.py"))
found = [f"{path}:{line}: {fault}" for path in files for line, fault in faults(path)]
print("\n".join([*found, f"{len(files)} files, {len(found)} faults"]))
sys.exit(1 if found else 0)
