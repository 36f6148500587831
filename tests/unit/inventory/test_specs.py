"""The one reader of argument_specs."""

from __future__ import annotations

from pathlib import Path

import yaml

from gpusmith.inventory import specs
from gpusmith.inventory.specs import PROJECT, Spec, did_you_mean, parse


def test_an_option_with_parts() -> None:
    inner = {"uris": {"type": "list", "elements": "str"}, "key": {"type": "str", "required": True}}
    spec = parse({"type": "list", "elements": "dict", "options": inner, "description": ["One.", "Two."]})
    assert spec.description == ("One.", "Two.")
    assert spec.element is not None
    assert spec.element.options["uris"].element == Spec("str")
    assert spec.element.options["key"].required
    assert parse({"type": "list"}).element is None
    assert parse({}).type == "str"


def test_roles_and_project_are_read_from_a_checkout(tmp_path: Path) -> None:
    def write(path: str, name: str) -> None:
        (tmp_path / path).parent.mkdir(parents=True)
        entry = {"options": {name: {"type": "int", "default": 3}}}
        (tmp_path / path).write_text(yaml.safe_dump({"argument_specs": {"main": entry, "install": entry}}))

    write("meta/project_argument_specs.yml", "gpusmith_count")
    write("roles/one/meta/argument_specs.yml", "one_count")
    (tmp_path / "roles/two").mkdir()
    found = specs.load(tmp_path)
    assert found.variables == {
        "gpusmith_count": Spec("int", default=3),
        "one_count": Spec("int", default=3, owner="one"),
    }
    assert list(found.of("one")) == ["one_count"]
    assert list(found.of(PROJECT)) == ["gpusmith_count"]
    assert found.prefixes == ("gpu_upgrade_", "gpusmith_", "one_", "two_", "validation_")


def test_the_nearest_name_is_offered() -> None:
    assert did_you_mean("gpusmith_cuont", ["gpusmith_count", "other"]) == "Did you mean 'gpusmith_count'?"
    assert "docs/variables.md" in did_you_mean("x", ["gpusmith_count"])
