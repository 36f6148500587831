"""The list of dnf's versionlock: lines of ours beside those of an administrator; module and probe read it alike."""

from __future__ import annotations

import pytest
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages import versionlock

from gpusmith.probe import packages as probe

SITE = "# of the site\n\nkernel-0:5.14*\n!nvidia-driver-3:595*\n\n# Added lock on Sun Nov 22\nbash-0:5.1.8-9.el9.*\n"
DRIVER = "3:580.95.05-1.el9"


def listed(text: str = SITE) -> versionlock.Listed:
    found = versionlock.read(text)
    found = found.with_block("nvidia-driver", {"nvidia-driver": [DRIVER], "nvidia-modprobe": [DRIVER]})
    return found.with_block(versionlock.HELD, {"nvidia-driver": [DRIVER]})


def test_lines_of_others_stay_as_they_are() -> None:
    text = listed().render()
    assert text.startswith(SITE)
    assert "nvidia-modprobe-3:580.95.05-1.el9.?*\n" in text
    again = versionlock.read(text)
    assert again.render() == text
    empty = again.with_block("nvidia-driver", {}).with_block(versionlock.HELD, {})
    assert empty.render() == SITE


def test_lines_that_lost_their_comments_are_still_ours() -> None:
    """As 'dnf versionlock delete' leaves the file."""
    rewritten = "".join(f"{line}\n" for line in listed().render().splitlines() if line and line[0] != "#")
    found = versionlock.read(rewritten)
    assert set(found.ours) == {versionlock.HELD}
    assert set(found.ours[versionlock.HELD]) == {"nvidia-driver", "nvidia-modprobe"}
    assert found.others == ["kernel-0:5.14*", "!nvidia-driver-3:595*", "bash-0:5.1.8-9.el9.*"]


@pytest.mark.parametrize(
    ("lines", "name", "version", "held"),
    [
        ([], "bash", "5.1.8-9.el9", False),
        (["bash-0:5.1.8-9.el9.*"], "bash", "5.1.8-9.el9", True),
        (["bash-5.1.8-9.el9.x86_64"], "bash", "5.1.8-9.el9", True),
        (["bash-5.1.8"], "bash", "5.1.8-9.el9", True),
        (["bash-5.1*"], "bash", "5.1.8-9.el9", True),
        (["bash-0:5.1.9-1.el9.*"], "bash", "5.1.8-9.el9", False),
        # Two versions are allowed, so that one can become the other.
        (["bash-0:5.1.8-9.el9.*", "bash-0:5.1.9-1.el9.*"], "bash", "5.1.8-9.el9", False),
        (["bash-completion-2.11-4"], "bash", "5.1.8-9.el9", False),
        (["!bash-5.1.9*"], "bash", "5.1.8-9.el9", False),
        (["# bash-0:5.1.8-9.el9.*"], "bash", "5.1.8-9.el9", False),
        (["*nvidia*-580*"], "nvidia-driver", DRIVER, True),
        (["*nvidia*-580*"], "nvidia-container-toolkit", "1.20.1-1", False),
        ([f"nvidia-driver-{DRIVER}.?*"], "nvidia-driver", DRIVER, True),
        ([versionlock.HEAD + versionlock.HELD + ".", f"nvidia-driver-{DRIVER}.?*"], "nvidia-driver", DRIVER, True),
        # A pin alone is no hold, as for apt.
        ([versionlock.HEAD + "nvidia-driver.", f"nvidia-driver-{DRIVER}.?*"], "nvidia-driver", DRIVER, False),
        ([f"nvidia-driver-{DRIVER}.?*"], "nvidia-driver", "3:595.71.05-1.el9", False),
        (["cuda-toolkit-12-8-12.8.1-1"], "cuda-toolkit-12-8", "12.8.1-1", True),
    ],
)  # fmt: skip
def test_module_and_probe_agree_on_what_is_held(
    lines: list[str], name: str, version: str, held: bool
) -> None:
    text = "\n".join(lines) + "\n"
    assert versionlock.read(text).holds(name, version) is held
    assert probe.is_held(name, version, "x86_64", probe.locked(text)) is held


def test_a_line_of_others_that_allows_another_version_only_is_named() -> None:
    found = listed("nvidia-driver-570*\n")
    assert found.hinders("nvidia-driver", DRIVER) == "nvidia-driver-570*"
    assert found.hinders("nvidia-driver", "3:570.1-1.el9") is None
    assert found.hinders("nvidia-modprobe", DRIVER) is None
    # Ours do not hinder: who asks for another version moves them.
    assert listed("").hinders("nvidia-driver", "3:595.71.05-1.el9") is None


def test_lines_go_by_name_but_for_versions_to_keep() -> None:
    found = listed().without(["nvidia-driver"], {})
    assert found.ours == {"nvidia-driver": {"nvidia-modprobe": [DRIVER]}, versionlock.HELD: {}}
    assert listed().without(["nvidia-driver"], {"nvidia-driver": DRIVER}).ours == listed().ours
