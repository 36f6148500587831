"""The zip that travels: what it has, and that it runs on a node."""

from __future__ import annotations

import ast
import io
import sys
import zipfile
from collections.abc import Iterator

import pytest

from gpusmith.errors import ToolError
from gpusmith.node import bundle


def texts() -> Iterator[tuple[str, str]]:
    archive = zipfile.ZipFile(io.BytesIO(bundle.bundle()))
    return ((name, archive.read(name).decode()) for name in archive.namelist())


def test_all_of_it_is_python_that_the_oldest_node_understands() -> None:
    for name, text in texts():
        assert name.endswith(".py")
        ast.parse(text, name, feature_version=(3, 8))


def test_the_same_files_make_the_same_zip() -> None:
    before = bundle.bundle()
    bundle.bundle.cache_clear()
    assert bundle.bundle() == before
    assert bundle.bundle() is bundle.bundle()


def test_the_bindings_bring_what_the_probe_uses_and_their_licence() -> None:
    found = dict(texts())
    bindings, probe = found["pynvml.py"], found["gpusmith/probe/nvml.py"]
    assert "Redistribution and use in source and binary forms" in bindings

    module = type(sys)("pynvml_part")
    sys.modules["pynvml_part"] = module
    try:
        exec(compile(bindings, "pynvml.py", "exec"), module.__dict__)
    finally:
        del sys.modules["pynvml_part"]
    used = {
        node.attr
        for node in ast.walk(ast.parse(probe))
        if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "pynvml"
    }
    assert len(used) > 20
    assert [name for name in used if not hasattr(module, name)] == []


def test_a_module_loses_what_nobody_needs() -> None:
    source = (
        "# Licence\nimport os\nA = 1\nB = A\nERROR_X = 3\n"
        "@wrap\ndef used():\n    return B\ndef unused():\n    return 2\ndef wrap(f):\n    return f\nprint(os)\n"
    )
    part = bundle.needed_part(source, {"used"}, kept="ERROR_")
    assert part == source.replace("def unused():\n    return 2\n", "")
    assert (
        bundle.needed_part(source, set(), kept="ERROR_") == "# Licence\nimport os\nERROR_X = 3\nprint(os)\n"
    )


def test_a_module_that_is_not_installed_is_named() -> None:
    with pytest.raises(ToolError, match="'no_such_module'"):
        bundle._folder("no_such_module")


def test_comments_and_docstrings_stay_at_home_but_for_those_of_the_head() -> None:
    head = '"""What it is."""\n\n# Copyright.\n\nimport os\n\n'
    source = head + '# Why.\nA = """\n# text\n"""\nif A:\n    # Why.\n    B = 1  # noqa\n'
    told = head + '\nA = """\n# text\n"""\nif A:\n\n    B = 1  # noqa\n'
    assert bundle.without_comments(source) == told
    assert (
        bundle.without_comments(
            'class A:\n    """What."""\n\n    b = 1\n\n\ndef c():\n    """What.\n\n    More.\n    """\n'
        )
        == 'class A:\n    ""\n\n    b = 1\n\n\ndef c():\n    ""\n\n\n\n'
    )
    assert bundle.without_comments("") == ""
    assert bundle.without_comments("# Copyright.\n") == "# Copyright.\n"


def test_what_divides_gpus_takes_what_it_uses_of_the_probe_and_no_more() -> None:
    archive = zipfile.ZipFile(io.BytesIO(bundle.partition()))
    found = {name: archive.read(name).decode() for name in archive.namelist()}
    for name, text in found.items():
        ast.parse(text, name, feature_version=(3, 8))
    assert {
        "__main__.py",
        "gpusmith/partition/__main__.py",
        "gpusmith/probe/usage.py",
        "pynvml.py",
    } <= found.keys()
    assert not [name for name in found if "kubernetes" in name or name.startswith(("yaml", "tomli"))]
    assert "def nvmlDeviceSetMigMode" in found["pynvml.py"]
    assert "nvmlDeviceSetMigMode" not in dict(texts())["pynvml.py"], "the probe changes nothing"
