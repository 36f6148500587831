"""Options, fixtures and hooks of the validation suite; what is checked is in src/gpusmith, see docs/validation.md."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from types import FrameType

import pytest
from rich.console import Console

from gpusmith.checks.findings import Outcome
from gpusmith.checks.register import CLUSTER, TIERS, catalog
from gpusmith.cluster import kubeconfig as kubeconfigs
from gpusmith.errors import GpusmithError, InputError, ToolError
from gpusmith.paths import working_root
from gpusmith.report import baseline, files, github
from gpusmith.report.coverage import percent_of
from gpusmith.report.results import EVERY_NODE, ExitCode
from gpusmith.report.terminal import terminal
from gpusmith.suite import evidence, forecast, from_cluster, maintenance, options, own, replay
from gpusmith.suite.run import Suite, tiers_of, usual
from gpusmith.wanted.inventory import Inventory, read
from gpusmith.workloads import own as own_workloads
from gpusmith.workloads.budget import budget_of
from gpusmith.workloads.register import in_order

PROGRAMS = Path(__file__).parent / "workloads" / "programs"
SUITE = pytest.StashKey[Suite]()
FOLDER = pytest.StashKey[Path]()
SUMMARY = pytest.StashKey[Path | None]()
RECORD = pytest.StashKey[Path | None]()
PLANNED = pytest.StashKey[list[tuple[str, str]]]()
FORECAST = pytest.StashKey[list[str]]()
DONE = pytest.StashKey[bool]()
UNWRITTEN = pytest.StashKey[str]()

Verify = Callable[[str, str], None]


# --- options and the run -------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    """The suite's own options."""
    options.add(parser.getgroup("gpusmith", "validation of GPU nodes").addoption)


def pytest_configure(config: pytest.Config) -> None:
    """Read the inventory before anything is collected: without GPU nodes there is nothing to collect."""
    # Said here as well, since another project's configuration may be in force.
    for tier in TIERS:
        config.addinivalue_line("markers", f"{tier}: checks of tier '{tier}'")
    config.addinivalue_line("markers", "safe: changes nothing and allocates nothing")
    # Of a kubeconfig that does without the server's certificate; pytest would list it for each test.
    config.addinivalue_line("filterwarnings", "ignore::urllib3.exceptions.InsecureRequestWarning")
    if config.getoption("help") or config.getoption("version") or config.getoption("markers", default=False):
        return
    folder, replayed = (config.getoption(name, default=None) for name in ("--report-dir", replay.OPTION))
    here = Path(config.invocation_params.dir)
    default = working_root() / "reports" / ("replay" if replayed else "latest")
    reports_folder = (here / Path(folder).expanduser()).resolve() if folder else default
    try:
        if config.getoption("numprocesses", default=None) or hasattr(config, "workerinput"):
            raise InputError(
                "Option '-n' of pytest-xdist cannot be used: the suite asks all nodes at once by itself.",
                "Run it without '-n'.",
            )
        _refuse_empty(config, "--report-dir", "--summary-md", replay.OPTION)
        summary = config.getoption("--summary-md", default=None)
        config.stash[SUMMARY] = (here / Path(summary).expanduser()).resolve() if summary else None
        recorded = replay.read(replayed, here) if replayed else None
        if recorded:
            _refuse_beside_replay(config, recorded, reports_folder)
        if not (config.getoption("collectonly") or config.getoption("--dry-run")):
            files.clear(reports_folder)
            evidence.clear(reports_folder)
            github.prepare(config.stash.get(SUMMARY, None))
        given = {name: config.getoption(name, default=None) for name in from_cluster.ALL}
        _refuse_empty(config, "--record-baseline", *given)
        record = config.getoption("--record-baseline", default=None)
        config.stash[RECORD] = (here / Path(record).expanduser()).resolve() if record else None
        asked_budget = config.getoption("--gpu-budget", default=None)
        budget_of(asked_budget, 1)
        of_cluster = config.getoption("--from-cluster", default=False)
        from_cluster.refuse(given, of_cluster)
        possible = from_cluster.tiers(given) if of_cluster else TIERS
        asked = config.getoption("--tier", default=None)
        tiers = recorded.tiers if recorded and asked is None else tiers_of(asked, possible)
        least = percent_of(config.getoption("--min-coverage", default=None))
        upgrade, inventory = (
            (recorded.maintenance, recorded.inventory) if recorded else _asked(given, of_cluster, tiers, here)
        )
        if asked is None and not recorded:
            tiers = usual(tiers, inventory, upgrade)
        # What is wrong with a site's own checks, also of plugins of pytest, is said before nodes are asked.
        own.load(inventory.folders)
        own_workloads.register(inventory.hosts.values())
        in_order()
    except GpusmithError as error:
        said = f"{error.message}\n  Next: {error.hint}" if error.hint else error.message
        if isinstance(error, ToolError):
            pytest.exit(said, returncode=int(ExitCode.BROKEN))
        raise pytest.UsageError(said) from error
    # The summary of this suite says each cause once; pytest's own sections would say it twice more.
    if config.option.tbstyle == "auto":
        config.option.tbstyle = "no"
    config.option.reportchars = ""
    config.stash[FOLDER] = reports_folder
    config.stash[SUITE] = Suite(
        inventory,
        PROGRAMS,
        tiers,
        _sayer(config),
        nodes=recorded.nodes if recorded else None,
        working_folder=here,
        min_coverage=recorded.min_coverage if recorded and least is None else least,
        maintenance=upgrade,
        evidence=evidence.Evidence(
            None
            if recorded or config.getoption("collectonly") or config.getoption("--dry-run")
            else reports_folder / evidence.FOLDER
        ),
        recorded=recorded,
        gpu_budget=budget_of(asked_budget, sum(host.gpu_count for host in inventory.hosts.values())),
    )
    config.stash[SUITE].sources.only_looks = config.getoption("--dry-run")


def _asked(
    given: Mapping[str, str | None], of_cluster: bool, tiers: tuple[str, ...], here: Path
) -> tuple[maintenance.Maintenance, Inventory]:
    """The upgrade that nodes are tested for, and the nodes."""
    upgrade = maintenance.asked(
        given[maintenance.ID], given[maintenance.VERSION], given[maintenance.LAYOUT], tiers
    )
    inventory = (
        from_cluster.asked(given, here)
        if of_cluster
        else read(given["--inventory"], given["--limit"], here, cluster=tiers != ("nodes",))
    )
    return upgrade, maintenance.applied(upgrade, inventory)


def _refuse_beside_replay(config: pytest.Config, recorded: replay.Recorded, reports_folder: Path) -> None:
    """A replay takes what the run had; and its reports must not take the place of the run's."""
    options = (*from_cluster.ALL, "--from-cluster", "--dry-run")
    given = [name for name in options if config.getoption(name, default=None)]
    if given:
        raise InputError(
            f"Option '{given[0]}' cannot be used with '{replay.OPTION}'.",
            "Leave it out: a replay takes nodes and versions of the run. '-k' and '--tier' select checks.",
        )
    if reports_folder in (recorded.folder, recorded.folder.parent):
        raise InputError(
            f"Option '--report-dir' names the folder that is replayed: '{reports_folder}'.",
            "Give it another folder.",
        )


def _refuse_empty(config: pytest.Config, *options: str) -> None:
    for option in options:
        if config.getoption(option, default=None) == "":
            raise InputError(
                f"Option '{option}' is empty.",
                "Leave it out for its default; was a variable of your shell not set?",
            )


def _sayer(config: pytest.Config) -> Callable[[str], None]:
    """Progress that reaches the terminal although pytest captures output."""

    def say(text: str) -> None:
        reporter = config.pluginmanager.getplugin("terminalreporter")
        capture = config.pluginmanager.getplugin("capturemanager")
        if reporter is None:
            return
        if capture is None:
            reporter.write_line(f"    {text}")
            return
        with capture.global_and_fixture_disabled():
            reporter.ensure_newline()
            reporter.write_line(f"    {text}")

    return say


# --- collection ------------------------------------------------------------------------------------------------


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Tests of tiers that were not asked for are not made: one for each check and node takes longer than many checks."""
    suite = config.stash.get(SUITE, None)
    if suite is None or collection_path.parent != Path(__file__).parent:
        return None
    return (collection_path.name in TIERS and collection_path.name not in suite.tiers) or None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test per check of the tier and target; the test's marker says which tier."""
    suite = metafunc.config.stash.get(SUITE, None)
    if suite is None or not {"check", "target"} <= set(metafunc.fixturenames):
        return
    (tier,) = (name for name in TIERS if metafunc.definition.get_closest_marker(name))
    planned = suite.plan(tier)
    # -k goes by these: of a check that is made once, its id alone, so that '-k cluster' means the tier.
    ids = [check if target in (CLUSTER, EVERY_NODE) else f"{check}-{target}" for check, target in planned]
    metafunc.parametrize(("check", "target"), planned, ids=ids)


def _planned(item: pytest.Item) -> tuple[str, str] | None:
    """Check and target of a test; None for one that is not ours."""
    parameters = getattr(item, "callspec", None)
    found = parameters.params if parameters else {}
    return (found["check"], found["target"]) if {"check", "target"} <= found.keys() else None


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None, None, None]:
    """Order of the checks, and --tier; a kubeconfig, if what is selected needs one."""
    suite = config.stash.get(SUITE, None)
    if suite is None:
        yield
        return
    _sort_and_select(config, suite, items)
    yield
    if not suite.asks:
        return
    if any(catalog()[row[0]].tier != "nodes" for item in items if (row := _planned(item)) is not None):
        try:
            # Refused now, and not when the first check asks the cluster: nodes that do not answer would come first.
            kubeconfigs.load(suite.inventory.access)
        except GpusmithError as error:
            raise pytest.UsageError(f"{error.message}\n  Next: {error.hint}") from error
    if config.getoption("--dry-run"):
        config.stash[PLANNED] = [row for item in items if (row := _planned(item)) is not None]
        items.clear()


def _sort_and_select(config: pytest.Config, suite: Suite, items: list[pytest.Item]) -> None:
    order = {name: place for place, name in enumerate(catalog())}

    def place(item: pytest.Item) -> int:
        row = _planned(item)
        return order[row[0]] if row else -1

    items.sort(key=place)
    left_out = [
        item for item in items if (row := _planned(item)) and catalog()[row[0]].tier not in suite.tiers
    ]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        gone = set(map(id, left_out))
        items[:] = [item for item in items if id(item) not in gone]


# --- tests -------------------------------------------------------------------------------------------------------


@pytest.fixture
def verify(request: pytest.FixtureRequest) -> Verify:
    """Asks for the finding of a check on a target, and fails or skips the test by it."""
    suite = request.config.stash[SUITE]

    def ask(check: str, target: str) -> None:
        found = [suite.evaluate(check, each) for each in suite.targets(target)]
        request.node.stash[DONE] = True
        bad = [row for row in found if row.outcome in (Outcome.FAILED, Outcome.ERROR)]
        if bad:
            said = "" if bad[0].outcome is Outcome.FAILED else "The check could not be made. "
            more = f" ({len(bad)} of {len(found)} nodes)" if len(found) > 1 else ""
            pytest.fail(f"{said}{bad[0].cause}{more}\n  Next: {bad[0].next_step}", pytrace=False)
        if all(row.outcome is Outcome.SKIPPED for row in found):
            pytest.skip(found[0].cause)

    return ask


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that broke before it had a finding is an error in the results, too."""
    report = yield
    suite, row = item.config.stash.get(SUITE, None), _planned(item)
    if suite is not None and row is not None and report.failed and not item.stash.get(DONE, False):
        item.stash[DONE] = True
        why = call.excinfo.value if call.excinfo else "no reason given"
        for each in _without_finding(suite, *row):
            suite.broke(row[0], each, f"The test of check '{row[0]}' broke: {why}")
    return report


# --- the end -----------------------------------------------------------------------------------------------------


@pytest.hookimpl
def pytest_sessionstart(session: pytest.Session) -> None:
    """Being told to end is an interruption as by Ctrl-C: what runs in the cluster is removed, and reports are written."""
    if (
        session.config.stash.get(SUITE, None) is not None
        and threading.current_thread() is threading.main_thread()
    ):
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGALRM):
            signal.signal(number, _interrupt)
        signal.setitimer(signal.ITIMER_REAL, session.config.getoption("--timeout") or 0.0)


def _interrupt(number: int, _: FrameType | None) -> None:
    raise KeyboardInterrupt("--timeout" if number == signal.SIGALRM else signal.Signals(number).name)


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """An interruption ends the run by name: of its own accord pytest shows a line of some program with it."""
    try:
        return (yield)
    except KeyboardInterrupt as error:
        if session.config.stash.get(SUITE, None) is None:
            raise
        pytest.exit(f"interrupted by {str(error) or 'Ctrl-C'}", returncode=pytest.ExitCode.INTERRUPTED)


def exit_code_of(suite: Suite, status: int) -> int:
    """Exit code of the run; see docs/validation.md.

    Args:
        suite: the run.
        status: pytest's own: 0 passed, 1 failed, 2 interrupted or not collected, 3 internal error, 4 usage, 5 nothing collected.
    """
    if status in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        code = int(suite.results().exit_code)
        # A failure that no check recorded, such as one of a fixture: the tool's, and never a pass.
        return int(ExitCode.BROKEN) if status == pytest.ExitCode.TESTS_FAILED and code == 0 else code
    if status == pytest.ExitCode.NO_TESTS_COLLECTED:
        return int(ExitCode.BAD_INPUT)
    return int(status)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Write the reports, then set the exit code by what was found."""
    suite = session.config.stash.get(SUITE, None)
    if suite is None or session.config.getoption("collectonly"):
        return
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    if session.config.getoption("--dry-run"):
        session.exitstatus = _forecast(session.config, suite)
        return
    code = exit_code_of(suite, int(exitstatus))
    if code == pytest.ExitCode.INTERRUPTED and session.testsfailed and not suite.findings:
        # Test files that cannot be imported: pytest calls that an interruption.
        code = int(ExitCode.BROKEN)
    if code not in (ExitCode.PASSED, ExitCode.FAILED) and code != suite.results().exit_code:
        suite.end(ExitCode(code), _not_made(session, suite))
    try:
        results = suite.results()
        files.write(results, session.config.stash[FOLDER])
        github.write(results, session.config.stash.get(SUMMARY, None), os.environ)
        record = session.config.stash.get(RECORD, None)
        if record is not None:
            suite.say(baseline.write(results, record))
        if of_cluster := session.config.getoption("--record"):
            from_cluster.record(
                suite, Path(session.config.invocation_params.dir) / Path(of_cluster).expanduser(), code
            )
    except GpusmithError as error:
        session.config.stash[UNWRITTEN] = str(error)
        code = int(ExitCode.BROKEN)
    if trouble := suite.sources.evidence.trouble:
        session.config.stash.setdefault(UNWRITTEN, trouble)
        code = int(ExitCode.BROKEN)
    session.exitstatus = code


def _forecast(config: pytest.Config, suite: Suite) -> int:
    planned, said = config.stash.get(PLANNED, []), config.stash.setdefault(FORECAST, [])
    try:
        said += forecast.lines(suite, planned)
    except GpusmithError as error:
        said.append(str(error))
        return int(ExitCode.BROKEN)
    return int(ExitCode.PASSED if planned else ExitCode.BAD_INPUT)


def _not_made(session: pytest.Session, suite: Suite) -> list[tuple[str, str]]:
    planned = [row for item in session.items if (row := _planned(item)) is not None]
    return [(check, each) for check, target in planned for each in _without_finding(suite, check, target)]


def _without_finding(suite: Suite, check: str, target: str) -> list[str]:
    made = {finding.target for finding in suite.findings if finding.check == check}
    return [each for each in suite.targets(target) if each not in made]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """The summary, verdict last."""
    suite = config.stash.get(SUITE, None)
    if suite is None or config.getoption("collectonly"):
        return
    unwritten = config.stash.get(UNWRITTEN, "")
    terminalreporter.ensure_newline()
    if config.getoption("--dry-run"):
        for line in config.stash.get(FORECAST, []):
            terminalreporter.write_line(line)
        return
    if not suite.findings:
        terminalreporter.write_line(
            "No check was made. -k takes ids of checks, such as 'nodes.xid', or parts of them; --collect-only lists all."
        )
        if unwritten:
            terminalreporter.write_line(unwritten)
        return
    writer = terminalreporter._tw  # noqa: SLF001 - the only way to the terminal that pytest writes to
    console = Console(file=writer._file, force_terminal=writer.hasmarkup, width=max(writer.fullwidth, 100))  # noqa: SLF001
    results = suite.results()
    if github.inside(os.environ):
        for line in github.commands(results):
            terminalreporter.write_line(line)
    terminal(results, config.stash[FOLDER], console, unwritten)
