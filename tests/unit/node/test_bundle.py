"""The zip that travels: what it has, and that it runs on a node."""

from __future__ import annotations

import ast
import io
import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpusmith.errors import ToolError
from gpusmith.node import bundle
from gpusmith.node.records import parse
from tests.unit.pythons import PYTHONS


def texts() -> Iterator[tuple[str, str]]:
    archive = zipfile.ZipFile(io.BytesIO(bundle.bundle()))
    return ((name, archive.read(name).decode()) for name in archive.namelist())


@pytest.mark.parametrize("python", PYTHONS)
def test_the_program_prints_one_record_as_json(python: str) -> None:
    # Without the environment's own packages, as on a node.
    command = [python, "-I", "-S", "-c", bundle.BOOTSTRAP]
    done = subprocess.run(command, input=bundle.bundle(), capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    record = json.loads(done.stdout)
    assert set(record) >= {"host", "packages", "nvml", "xids", "containerd", "cdi", "kubernetes", "system"}
    assert parse(record).host.kernel


def test_where_there_are_no_files_in_memory_no_file_stays(tmp_path: Path) -> None:
    code = "import os; del os.memfd_create\n" + bundle.BOOTSTRAP
    done = subprocess.run(
        [sys.executable, "-I", "-c", code],
        input=bundle.bundle(), capture_output=True, timeout=60, env={"TMPDIR": str(tmp_path)}, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout)["schema"] == "gpusmith.probe/1"
    assert list(tmp_path.iterdir()) == []


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


def test_comments_stay_at_home_but_for_those_of_the_head() -> None:
    head = '"""What it is."""\n\n# Copyright.\n\nimport os\n\n'
    source = head + '# Why.\nA = """\n# text\n"""\nif A:\n    # Why.\n    B = 1  # noqa\n'
    told = head + '\nA = """\n# text\n"""\nif A:\n\n    B = 1  # noqa\n'
    assert bundle.without_comments(source) == told
    assert bundle.without_comments("") == ""
    assert bundle.without_comments("# Copyright.\n") == "# Copyright.\n"
