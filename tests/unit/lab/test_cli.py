from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest
from gpulab import cli, releases
from gpulab.simgpu import hardware, packages
from gpulab.state import Shape


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def test_status_without_a_lab_fails_and_prints_an_empty_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["status", "--json"]) == cli.NO_LAB
    assert json.loads(capsys.readouterr().out) == {"nodes": []}


@pytest.mark.parametrize(
    "words",
    [
        ["ssh", "gpu-1"],
        ["kubectl", "get", "nodes"],
        ["reboot", "--all"],
        ["heal", "gpu-1"],
        ["delay", "gpu-1"],
        ["depot", "stop"],
    ],
)
def test_commands_that_need_a_lab_say_so(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(words) == cli.BROKEN
    said = capsys.readouterr().err
    assert "No lab is up." in said
    assert "gpulab up" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["up", "--subnet", "nonsense"], "'nonsense'"),
        (["up", "--gpus", "0"], "--gpus 0"),
        (["up", "--gpus", "8,4,1"], "--gpus 8,4,1"),
        (["up", "--gpu-nodes", "1000"], "--gpu-nodes 1000"),
        (["up", "--os", "gpu-9=rocky-9"], "'gpu-9'"),
        (["up", "--os", "cp-1=rocky-9"], "'cp-1'"),
    ],
)
def test_wrong_input_is_refused_by_name(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(words) == cli.BAD_INPUT
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["depot"],
        ["reboot"],
        ["reboot", "gpu-1", "--all"],
        ["fly"],
        ["up", "--gpus", "many"],
        ["up", "--gpus", "4,"],
        ["up", "--os", "windows-11"],
        ["up", "--os", "gpu-1=rocky-9,gpu-1=rocky-10"],
        ["up", "--os", "rocky-9,rocky-10"],
        ["up", "--kubernetes", "1.35.4"],
        ["up", "--containerd", "1.7.31"],
    ],
)
def test_wrong_words_end_with_usage(words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(words)
    assert ended.value.code == cli.BAD_INPUT


@pytest.mark.parametrize("command", [[], *[[name] for name in cli.COMMANDS]])
def test_every_command_has_help(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main([*command, "--help"])
    assert ended.value.code == 0
    assert "usage: gpulab" in capsys.readouterr().out


def test_the_help_of_the_depot_names_the_broken_drivers(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["depot", "--help"])
    said = capsys.readouterr().out
    assert all(row["version"] in said for row in packages.table("broken")["drivers"])


def test_kubectl_gets_its_options_untouched(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []

    def record(_: object, options: argparse.Namespace) -> int:
        seen.append(options.words)
        return 0

    monkeypatch.setitem(cli.COMMANDS, "kubectl", record)
    assert cli.main(["kubectl", "-n", "kube-system", "get", "pods", "--all"]) == 0
    assert seen == [["-n", "kube-system", "get", "pods", "--all"]]


def test_up_without_options_keeps_the_running_shape() -> None:
    running = Shape(gpu_nodes=3, gpus=(8,), model="b200", subnet="10.78.0.0/24")
    assert cli.shape_of(cli.parser().parse_args(["up"]), running) == running
    assert cli.shape_of(cli.parser().parse_args(["up", "--gpu-nodes", "5"]), running).gpu_nodes == 5


def test_machines_of_different_sizes() -> None:
    options = cli.parser().parse_args(["up", "--gpu-nodes", "3", "--gpus", "8,4,1"])
    assert cli.shape_of(options, None).gpus == (8, 4, 1)


def test_operating_systems_of_all_and_of_single_machines() -> None:
    shape = cli.shape_of(cli.parser().parse_args(["up", "--os", "rocky-9,gpu-2=ubuntu-24.04"]), None)
    assert [shape.system(name) for name in ("gpu-1", "gpu-2")] == ["rocky-9", "ubuntu-24.04"]
    assert cli.shape_of(cli.parser().parse_args(["up"]), shape) == shape


@pytest.mark.parametrize(("of", "unknown"), [("kubernetes", "1.33"), ("containerd", "1.6")])
def test_an_unknown_release_is_refused_with_the_known_ones(
    of: str, unknown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["up", f"--{of}", unknown])
    assert ended.value.code == cli.BAD_INPUT
    said = capsys.readouterr().err
    assert f"--{of}" in said
    assert all(f"'{name}'" in said for name in (unknown, *releases.known(of)))


def test_an_unknown_model_is_refused_with_the_known_ones_also_while_a_lab_is_up(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.parser().parse_args(["up", "--model", "b999"])
    assert ended.value.code == cli.BAD_INPUT
    said = capsys.readouterr().err
    assert "Unknown GPU model 'b999'" in said
    assert all(name in said for name in hardware.models())


def test_the_help_of_up_names_each_release_and_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["up", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert "--kubernetes {1.34,1.35,1.36}" in said
    assert "(default: 1.36)" in said
    assert "--containerd {1.7,2.0,2.3}" in said
    assert "(default: 2.3)" in said


def test_up_without_options_keeps_the_running_releases() -> None:
    words = ["up", "--kubernetes", "1.34", "--containerd", "1.7"]
    shape = cli.shape_of(cli.parser().parse_args(words), None)
    assert (shape.kubernetes, shape.containerd) == ("1.34", "1.7")
    assert "Kubernetes 1.34, containerd 1.7" in str(shape)
    assert cli.shape_of(cli.parser().parse_args(["up"]), shape) == shape


def test_up_has_the_documented_defaults() -> None:
    assert cli.shape_of(cli.parser().parse_args(["up"]), None) == Shape(
        2, (4,), "h100-sxm", 0, "10.77.0.0/24", True
    )
