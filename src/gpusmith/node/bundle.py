"""Programs as one zip each: the probe, which travels to a node by the suite and by Ansible alike, and what divides its GPUs.

A node's Python compiles all of it for every probe, so what a program does not use stays at home.
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


def _ours(entry: str) -> dict[str, str]:
    """Files of a package of ours and of the packages' parts that it uses, by their place in the zip."""
    waiting, texts = [PACKAGE / "__init__.py", *sorted((PACKAGE / entry).glob("*.py"))], dict[Path, str]()
    while waiting:
        path = waiting.pop()
        if path in texts:
            continue
        texts[path] = path.read_text(encoding="utf-8")
        for package, name, parts in re.findall(
            r"^from gpusmith\.(\w+)(?:\.(\w+))? import (.+)", texts[path], re.MULTILINE
        ):
            names = [name] if name else re.findall(r"\w+", parts)
            found = (PACKAGE / package / f"{one}.py" for one in ("__init__", *names))
            waiting += [one for one in found if one.exists()]
    return {f"gpusmith/{path.relative_to(PACKAGE)}": text for path, text in texts.items()}


def _bindings(texts: Iterable[str]) -> str:
    """What these texts need of NVML's bindings."""
    used = {name for text in texts for name in re.findall(r"\bpynvml\.(\w+)", text)}
    bindings = (_folder("pynvml") / "pynvml.py").read_text(encoding="utf-8")
    # It makes its classes of errors by going through these names.
    return needed_part(bindings, used, kept="NVML_ERROR_")


def _files(own: Own) -> Iterator[tuple[str, str]]:
    """What the probe's zip has, with its place there."""
    if own:
        yield f"{PACKAGE_OF_OWN}/__init__.py", ""
    for name, text in own:
        yield f"{PACKAGE_OF_OWN}/{name}.py", text
    ours = _ours("probe")
    yield from ours.items()
    yield "pynvml.py", _bindings(ours.values())
    yield "yaml/__init__.py", ""
    for name in YAML:
        yield f"yaml/{name}.py", (_folder("yaml") / f"{name}.py").read_text(encoding="utf-8")
    for path in _folder("tomli").glob("*.py"):
        yield f"tomli/{path.name}", path.read_text(encoding="utf-8")


@cache
def bundle(own: Own = ()) -> bytes:
    """The probe's zip, made once per process.

    Args:
        own: as of `Own`; only the suite has any.

    Raises:
        ToolError: a module of it is not installed.
    """
    return _packed(_files(own))


@cache
def partition() -> bytes:
    """The zip that divides a node's GPUs, as ``python3`` runs it.

    Raises:
        ToolError: a module of it is not installed.
    """
    ours = _ours("partition")
    start = "import gpusmith.partition.__main__\n"
    return _packed([*ours.items(), ("pynvml.py", _bindings(ours.values())), ("__main__.py", start)])


def _packed(files: Iterable[tuple[str, str]]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compresslevel=9) as archive:
        for place, text in sorted(files):
            row = zipfile.ZipInfo(place, EPOCH)
            row.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(row, without_comments(text))
    return buffer.getvalue()
