"""Lays the collection into the wheel, where Ansible finds it, as package `ansible` does; the rest is in pyproject.toml."""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
COLLECTION = "ansible_collections/gpusmith/gpu"
PARTS = (
    "data",
    "examples",
    "galaxy.yml",
    "LICENSE",
    "meta",
    "playbooks",
    "plugins",
    "README.md",
    "roles",
    "validation",
)


class WithCollection(build_py):
    """The library, and the collection beside it."""

    def run(self) -> None:
        """Build both; an editable installation has the collection in the checkout."""
        super().run()
        if self.editable_mode:
            return
        for part in PARTS:
            source, target = ROOT / part, Path(self.build_lib) / COLLECTION / part
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(
                    source, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__")
                )
            else:
                shutil.copyfile(source, target)


setup(cmdclass={"build_py": WithCollection})
