"""The probe as one zip: what travels to a node, by the suite and by Ansible alike.

A node's Python compiles all of it for every probe, so what the probe does not use stays at home.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
import zipfile
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import gpusmith
from gpusmith.errors import ToolError
from gpusmith.probe.own import PACKAGE as PACKAGE_OF_OWN

PACKAGE = Path(gpusmith.__file__).parent
# Parts of PyYAML that make events of a text. Its __init__ would import the others; an empty one takes its place.
YAML = ("error", "events", "parser", "reader", "scanner", "tokens")
# Each file's time: the same content makes the same zip.
EPOCH = (1980, 1, 1, 0, 0, 0)

# For ``python3 -c``: takes the zip from standard input and runs it. It stays in memory; where there are no files in memory, it
# lies in a folder of its own for as long as it runs.
BOOTSTRAP = """\
import os, sys
folder = None
try:
    path = "/proc/self/fd/%d" % os.memfd_create("gpusmith-probe")
except (AttributeError, OSError):
    import shutil, tempfile
    folder = tempfile.mkdtemp()
    path = os.path.join(folder, "probe.zip")
try:
    with open(path, "wb") as file:
        file.write(sys.stdin.buffer.read())
    sys.path.insert(0, path)
    import gpusmith.probe.__main__
finally:
    if folder:
        shutil.rmtree(folder)
"""


def _folder(name: str) -> Path:
    """Where an installed module or package is.

    Raises:
        ToolError: it is not installed.
    """
    found = find_spec(name)
    if found is None or not found.origin:
        raise ToolError(f"'{name}', which the probe takes along, is not installed.", "Run 'make setup'.")
    return Path(found.origin).parent


def _defined(statement: ast.stmt) -> set[str]:
    """Names that a statement of a module defines."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return {statement.name}
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return {target.id for target in targets if isinstance(target, ast.Name)}


def needed_part(source: str, wanted: Iterable[str], kept: str) -> str:
    """A module's text without the definitions that nobody needs.

    Args:
        source: of the module.
        wanted: names that its users use; what these need in turn stays as well.
        kept: beginning of names that stay in any case.
    """
    lines, statements = source.splitlines(keepends=True), ast.parse(source).body
    starts = [
        min([row.lineno, *(above.lineno for above in getattr(row, "decorator_list", ()))]) - 1
        for row in statements
    ]
    texts = ["".join(lines[start : row.end_lineno]) for start, row in zip(starts, statements, strict=True)]
    places: dict[str, set[int]] = {}
    # What defines nothing, such as an import, does something.
    waiting = []
    for place, row in enumerate(statements):
        names = _defined(row)
        for name in names:
            places.setdefault(name, set()).add(place)
        if not names or any(name.startswith(kept) for name in names):
            waiting.append(place)
    waiting += [place for name in wanted for place in places.get(name, ())]
    needed: set[int] = set()
    while waiting:
        place = waiting.pop()
        if place not in needed:
            needed.add(place)
            words = re.findall(r"[A-Za-z_]\w*", texts[place])
            waiting += [other for word in words for other in places.get(word, ())]
    # With the module's own head, which has its licence.
    return "".join([*lines[: starts[0]], *(texts[place] for place in sorted(needed))])


def without_comments(source: str) -> str:
    """A module's text with empty lines for comments and docstrings, but for those of its head, which has its licence."""
    lines, tree = source.splitlines(keepends=True), ast.parse(source)
    statements = tree.body
    code = (
        row.lineno
        for row in statements
        if not (isinstance(row, ast.Expr) and isinstance(row.value, ast.Constant))
    )
    head = next(code, len(lines))
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        row, column = token.start
        if token.type == tokenize.COMMENT and row > head and not lines[row - 1][:column].strip():
            lines[row - 1] = "\n"
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node, clean=False):
            begin, end = node.body[0].lineno - 1, node.body[0].end_lineno or 0
            lines[begin:end] = [lines[begin][: node.body[0].col_offset] + '""\n', *["\n"] * (end - begin - 1)]
    return "".join(lines)


Own = tuple[tuple[str, str], ...]
"""Files of a site's own that gather facts: name and text."""


def _files(own: Own) -> Iterator[tuple[str, str]]:
    """What the zip has, with its place there."""
    if own:
        yield f"{PACKAGE_OF_OWN}/__init__.py", ""
    for name, text in own:
        yield f"{PACKAGE_OF_OWN}/{name}.py", text
    ours = [PACKAGE / "__init__.py", *(PACKAGE / "probe").glob("*.py")]
    texts = {path: path.read_text(encoding="utf-8") for path in ours}
    for path, text in texts.items():
        yield f"gpusmith/{path.relative_to(PACKAGE)}", text
    used = {name for text in texts.values() for name in re.findall(r"\bpynvml\.(\w+)", text)}
    bindings = (_folder("pynvml") / "pynvml.py").read_text(encoding="utf-8")
    # It makes its classes of errors by going through these names.
    yield "pynvml.py", needed_part(bindings, used, kept="NVML_ERROR_")
    yield "yaml/__init__.py", ""
    for name in YAML:
        yield f"yaml/{name}.py", (_folder("yaml") / f"{name}.py").read_text(encoding="utf-8")
    for path in _folder("tomli").glob("*.py"):
        yield f"tomli/{path.name}", path.read_text(encoding="utf-8")


@cache
def bundle(own: Own = ()) -> bytes:
    """The zip, made once per process.

    Args:
        own: as of `Own`; only the suite has any.

    Raises:
        ToolError: a module of it is not installed.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compresslevel=9) as archive:
        for place, text in sorted(_files(own)):
            row = zipfile.ZipInfo(place, EPOCH)
            row.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(row, without_comments(text))
    return buffer.getvalue()
