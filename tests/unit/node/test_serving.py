"""A change of a service on a node that serves: proved, or taken back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from gpusmith.errors import ToolError
from gpusmith.node.serving import CRI, Change, TakenBack, Unproved
from gpusmith.wait import WaitTimeout

UP = (0, "Type: io.containerd.grpc.v1\nID: cri\n", "")
DOWN = (0, f"{UP[1]}Error:\n  Message: no watcher\n", "")
RUNTIME = "nvidia-container-runtime --version"


class Node:
    """A machine whose unit runs as long as its file says something good."""

    def __init__(self, text: str = "old", **changes: Any) -> None:
        self.text, self.kept, self.packages, self.former = text, "old", "2.0", "2.0"
        self.starts, self.before, self.clock, self.open = 1, "1", 100.0, True
        self.steps: list[str] = []
        self.bad = {"bad"}
        self.saved, self.gone = True, False
        self.lives = True
        self.dies_after = 1e9
        self.aside, self.answers = "", {CRI: UP}
        vars(self).update(changes)

    def step(self, name: str) -> Mapping[str, Any]:
        self.steps.append(name)
        if name == "restart":
            self.starts, self.clock = self.starts + 1, 0.0
        elif name == "restore":
            self.text = self.kept
        elif name == "end":
            self.open = False
        elif name == "begin" and not self.open:
            self.open, self.kept, self.before = True, self.text, str(self.starts)
        return self.seen() if name == "look" else {}

    def seen(self) -> Mapping[str, Any]:
        if self.text in self.bad:
            state = ("activating", "auto-restart", "no such signal")
        elif self.clock > self.dies_after:
            self.starts, self.clock = self.starts + 1, 0.0
            state = ("active", "running", "panic")
        else:
            state = ("active", "running", "")
        return {
            "open": self.open, "active": state[0], "sub": state[1], "words": state[2],
            "invocation": str(self.starts), "before": self.before, "up_s": self.clock, "started": 1000.0, "ready": True,
            "files": ["/f"] if self.text != self.kept else [],
            "packages": {"p": self.former} if self.packages != self.former else {},
            "former": {"p": self.former}, "folder": "/saved", "saved": self.saved, "aside": self.aside,
            "answers": [
                {"asked": asked, "status": row[0], "output": row[1], "error": row[2]} for asked, row in self.answers.items()
            ],
        }  # fmt: skip

    def sleep(self, seconds: float) -> None:
        self.clock += max(seconds, 1.0)

    def heartbeat(self, since: float, ready: bool) -> None:
        self.steps.append(f"heartbeat since {since:.0f}{' ready' if ready else ''}")
        if not self.lives or self.text == "mute":
            raise WaitTimeout("Waited 120 s for a heartbeat of node 'gpu-1'; last seen: nothing.")

    def put(self, versions: Mapping[str, str], folder: str) -> None:
        self.steps.append(f"packages {dict(versions)} from {folder or 'a repository'}")
        self.packages = versions["p"]

    def save(self, versions: Mapping[str, str], folder: str) -> None:
        if self.gone:
            raise ToolError("Neither a repository nor the cache has 'p' in version '2.0'.")
        self.steps.append(f"save {dict(versions)} in {folder}")

    def change(self, *restart_with: str) -> Change:
        return Change(
            "gpu-1", "kubelet", self.step, self.heartbeat, self.put, self.save, restart_with, 5.0, self.sleep
        )


def restarted(node: Node) -> Node:
    node.step("restart")
    node.steps.clear()
    return node


def test_a_restarted_unit_must_stay_up_and_its_node_must_live() -> None:
    node = restarted(Node("good"))
    assert node.change().prove() is True
    assert node.steps.count("heartbeat since 1000 ready") == 1
    assert node.steps[-1] == "end"
    # It is looked at for the whole time, and once more after the sign of life.
    assert node.steps.count("look") >= 7


def test_what_was_not_restarted_needs_no_proof() -> None:
    node = Node("good", clock=100.0)
    assert node.change("packages").prove() is False
    assert node.steps == ["look", "look", "end"]


@pytest.mark.parametrize(
    ("changed", "restart_with", "due"),
    [
        ({"text": "good"}, ("files",), True),
        ({"text": "good"}, ("packages",), False),
        ({"packages": "2.1"}, ("packages",), True),
        ({"packages": "2.1"}, (), False),
    ],
)
def test_nobody_runs_on_with_what_was_there_before(
    changed: dict[str, str], restart_with: tuple[str, ...], due: bool
) -> None:
    node = Node(**changed)
    assert node.change(*restart_with).prove() is due
    assert ("restart" in node.steps) is due


def test_a_unit_that_ends_is_found_at_once_with_its_last_words() -> None:
    node = restarted(Node("bad"))
    with pytest.raises(
        Unproved, match=r"'kubelet' is activating \(auto-restart\)\. Its last words: no such signal"
    ):
        node.change().prove()
    assert node.steps == ["look", "look"]
    assert node.open


def test_a_unit_that_is_started_again_and_again_is_not_up() -> None:
    node = restarted(Node("good", dies_after=3))
    with pytest.raises(Unproved, match=r"does not stay up. Its last words: panic"):
        node.change().prove()


def test_a_unit_that_ends_before_the_sign_of_life_is_not_proved() -> None:
    node = restarted(Node("good"))

    def late(since: float, ready: bool) -> None:
        node.heartbeat(since, ready)
        node.step("restart")

    change = Change("gpu-1", "kubelet", node.step, late, node.put, node.save, (), 5.0, node.sleep)
    with pytest.raises(Unproved, match="started anew meanwhile"):
        change.prove()


def test_a_node_without_a_sign_of_life_is_not_proved() -> None:
    node = restarted(Node("mute"))
    with pytest.raises(Unproved, match="heartbeat of node 'gpu-1'"):
        node.change().prove()
    assert node.open


def test_what_was_there_before_comes_back_and_is_proved() -> None:
    node = restarted(Node("bad", packages="2.1"))
    assert node.change().take_back() == TakenBack(
        True, "What was there before is back, and 'kubelet' runs with it."
    )
    assert (node.text, node.packages, node.open) == ("old", "2.0", False)
    order = [step for step in node.steps if step != "look"]
    assert order == [
        "packages {'p': '2.0'} from /saved",
        "restore",
        "restart",
        "heartbeat since 1000 ready",
        "end",
    ]


def test_what_changed_nothing_is_left_alone() -> None:
    for node in (Node(), Node(open=False)):
        assert node.change().take_back() == TakenBack(False, "Nothing was changed on it.")
        assert "restart" not in node.steps


def test_a_unit_that_backed_out_by_itself_is_only_proved() -> None:
    node = restarted(Node("old"))
    assert node.change().take_back().said.startswith("What was there before is back")
    assert "restart" not in node.steps


def test_what_cannot_be_taken_back_is_kept_for_the_next_run() -> None:
    node = restarted(Node("bad", lives=False))
    assert "cannot be proved either: Waited" in node.change().take_back().said
    assert node.open

    def refused(versions: Mapping[str, str], folder: str) -> None:
        raise ToolError("No repository offers 'p'.")

    node = restarted(Node("bad", packages="2.1"))
    change = Change("gpu-1", "kubelet", node.step, node.heartbeat, refused, node.save, (), 5.0, node.sleep)
    assert "No repository offers 'p'." in change.take_back().said
    assert (node.text, node.open) == ("old", True)


@pytest.mark.parametrize(
    ("wanted", "changes", "steps"),
    [
        ("2.1", {}, ["look", "save {'p': '2.0'} in /saved"]),
        # The kubelet's settings change, or a revision is not told: no repository is asked.
        ("2.0", {"former": "2.0-1.1"}, ["look"]),
        # Of an open change the packages were saved before it.
        ("2.1", {"open": True}, ["look"]),
    ],
)
def test_packages_are_saved_before_other_versions_come(
    wanted: str, changes: dict[str, Any], steps: list[str]
) -> None:
    node = Node(**{"open": False, **changes})
    node.change().save({"p": wanted}, node.step("look"))
    assert node.steps == steps


def test_without_a_way_back_nothing_is_begun() -> None:
    node = Node(open=False, gone=True)
    with pytest.raises(Unproved, match=r"'gpu-1': nothing was changed.*'p' in version '2\.0'") as told:
        node.change().save({"p": "2.1"}, node.step("look"))
    assert node.steps == ["look"]
    assert "repository" in told.value.hint


def test_a_change_of_an_older_release_goes_back_by_a_repository() -> None:
    node = restarted(Node("bad", packages="2.1", saved=False))
    node.change().take_back()
    assert "packages {'p': '2.0'} from a repository" in node.steps


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ({CRI: DOWN}, "but its CRI plugin is down: no watcher"),
        (
            {CRI: UP, RUNTIME: (1, "", "error loading config\n")},
            f"but '{RUNTIME}' fails: error loading config",
        ),
    ],
)
@pytest.mark.parametrize("clock", [0.0, 1000.0])
def test_what_runs_and_serves_nobody_is_not_proved(answers: Any, said: str, clock: float) -> None:
    # Restarted by the proof itself, or not at all.
    node = Node("good", clock=clock, answers=answers)
    with pytest.raises(Unproved, match=said):
        node.change(*(["files"] if clock == 0 else [])).prove()
    assert ("restart" in node.steps) is (clock == 0)
    assert node.open
    # Ready is no proof: of a runtime that is down a node tells later.
    assert not [step for step in node.steps if step.startswith("heartbeat")]


def test_what_serves_a_moment_later_is_proved() -> None:
    node = restarted(Node("good", answers={CRI: (1, "", "connection refused")}))

    def sleep(seconds: float) -> None:
        node.sleep(seconds)
        if node.clock > 8:
            node.answers = {CRI: UP}

    assert Change(
        "gpu-1", "containerd", node.step, node.heartbeat, node.put, node.save, (), 5.0, sleep
    ).prove()


def test_what_the_change_brought_is_not_asked_of_what_was_there_before() -> None:
    node = restarted(Node("bad", answers={CRI: UP, RUNTIME: (127, "", "no such file")}))
    assert node.change().take_back().said.startswith("What was there before is back")
    node = restarted(Node("bad", answers={CRI: DOWN}))
    assert "cannot be proved either" in node.change().take_back().said


def test_a_repair_of_what_a_killed_run_left_is_what_comes_back() -> None:
    node = Node("repaired", starts=2)
    node.change().begin({"p": "2.0"}, ready=True)
    assert (node.open, node.kept) == (True, "repaired")
    node.text = "bad"
    node.change().take_back()
    assert node.text == "repaired"


@pytest.mark.parametrize(
    "changes",
    [
        {"starts": 1},  # it still runs with what was kept
        {"clock": 30.0},  # Ready may be from before
        {"text": "bad"},
        {"answers": {CRI: DOWN}},
        {"ready": False},
    ],
)
def test_what_a_killed_run_broke_is_not_kept(changes: dict[str, Any]) -> None:
    changes = {"starts": 2, **changes}
    ready = changes.pop("ready", True)
    node = Node(**{"text": "written", **changes})
    node.change().begin({"p": "2.0"}, ready=ready)
    assert (node.open, node.kept) == (True, "old")


def test_what_comes_in_the_place_of_something_unknown_says_where_that_is() -> None:
    node = restarted(Node("bad", aside="/changes/kubelet.found-1"))
    assert (
        node.change()
        .take_back()
        .said.endswith("runs with it. What it took the place of is in '/changes/kubelet.found-1'.")
    )
