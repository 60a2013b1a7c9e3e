"""Standard streams that are closed, full or no longer read: no command ends by it, and no run is lost."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from htbench.harness.config.key import resolved
from htbench.harness.config.settings import resolve_config
from htbench.harness.errors import EXIT_OK, EXIT_RUN_FAILED, EXIT_USAGE, RunFailedError
from htbench.harness.show.status import Status
from htbench.harness.store import Store
from htbench.harness.system import streams
from htbench.harness.system.environment import HOME
from htbench.harness.train.monitor import Monitor, handle
from htbench.harness.train.run import run
from tests.helpers.command import HTBENCH, TINY, Htbench
from tests.helpers.sweeping import SPEC, carried_out, check_whole

RUN = ["run", *(f"{name}={value}" for name, value in TINY.items())]

# What is done to the process before it is `htbench`.
CLOSED = "os.close({0}); sys.{1} = None"
LEFT = "end, other = os.pipe(); os.close(end); os.dup2(other, {0})"
FULL = "os.dup2(os.open('/dev/full', os.O_WRONLY), {0})"
STDIN, STDOUT, STDERR = ("0", "stdin"), ("1", "stdout"), ("2", "stderr")

# Every command settles its streams in one place; these print a table, train, draw, or refuse.
COMMANDS = [
    (["table"], EXIT_OK),
    (RUN, EXIT_OK),
    (["figure", "loss", "--source", "published"], EXIT_OK),
    (["judge", "nonsense.csv"], EXIT_USAGE),
]


def done(root, words, *losses, cwd=None):
    """The command, in a process that has lost some streams."""
    code = "; ".join(loss.format(*stream) for loss, stream in losses)
    code = f"import os, sys; {code}\nfrom htbench.harness.cli import main; sys.exit(main())"
    return Htbench(root, cwd)("-c", code, *words)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished tiny sweep, for commands that only look."""
    return carried_out(tmp_path_factory.mktemp("finished"), SPEC)[0]


def files(root):
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


@pytest.mark.parametrize(("words", "status"), COMMANDS)
def test_a_command_does_without_streams(finished, tmp_path, words, status):
    root = tmp_path / "store" if words == RUN else finished
    closed = [(CLOSED, stream) for stream in (STDIN, STDOUT, STDERR)]
    assert done(root, words, *closed, cwd=tmp_path).returncode == status


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that is heard."""
    root = tmp_path_factory.mktemp("whole")
    assert done(root, [*RUN, "log_every=1"]).returncode == EXIT_OK
    return root


@pytest.mark.parametrize("loss", [CLOSED, LEFT, FULL], ids=["closed", "left", "full"])
def test_a_run_that_nobody_hears_is_like_any_other(whole, tmp_path, loss):
    lost = tmp_path / "lost"
    ended = done(lost, [*RUN, "log_every=1"], *((loss, stream) for stream in (STDOUT, STDERR)))
    assert ended.returncode == (EXIT_RUN_FAILED if loss == FULL else EXIT_OK)
    assert files(lost) == files(whole)
    for name in ("log.txt", "metrics.jsonl"):
        texts = [next(root.glob(f"runs/*/*/{name}")).read_text() for root in (whole, lost)]
        assert len(set(text.count("\n") for text in texts)) == 1


def test_a_sweep_that_nobody_hears_comes_to_its_end(tmp_path, write_spec):
    words = ["sweep", "run", write_spec(SPEC)]
    ended = done(tmp_path / "store", words, *((FULL, stream) for stream in (STDOUT, STDERR)))
    assert ended.returncode == EXIT_RUN_FAILED
    check_whole(tmp_path / "store")


def test_what_a_full_disk_swallows_is_told(finished):
    ended = done(finished, ["runs", "ls"], (FULL, STDOUT))
    assert ended.returncode == EXIT_RUN_FAILED
    assert ended.stderr.count("\n") == 1 and "No space left on device" in ended.stderr


def test_watching_ends_with_its_reader(tmp_path, write_spec):
    spec = write_spec(SPEC)
    words = ["sweep", "status", spec, "--watch", "--every", "0.01"]
    assert done(tmp_path / "store", words, (LEFT, STDOUT)).returncode == EXIT_OK


def test_a_shell_closes_the_streams(tmp_path):
    """As the others, but with a fresh Python, which has its own ways with closed files."""
    line = " ".join([*HTBENCH, "zoo", "--root", str(tmp_path)])
    shown = subprocess.run(f"{line} <&- 2>&-", shell=True, capture_output=True, text=True)
    assert shown.returncode == 0 and "htmuon" in shown.stdout
    assert subprocess.run(f"{line} <&- >&- 2>&-", shell=True).returncode == EXIT_OK


def test_what_watches_a_run_may_fail_it_for_now_only(tmp_path, tiny):
    def progress(step):
        raise BrokenPipeError(32, "Broken pipe")

    config = resolve_config(tiny)
    with pytest.raises(RunFailedError, match="stopped"):
        run(resolved(config), Store(tmp_path), Monitor(progress))
    (name,) = (path.parent.name for path in tmp_path.glob("runs/*/*/log.txt"))
    assert Store(tmp_path).state(name).status is Status.WAITING
    assert run(resolved(config), Store(tmp_path)).status == "completed"


def test_a_full_pipe_that_does_not_block_is_waited_for():
    """A parent, such as node, may have set its end so; print() would raise BlockingIOError."""
    end, other = os.pipe()
    os.set_blocking(other, False)
    text, got = b"x" * (1 << 20), []
    reader = threading.Thread(target=lambda: got.append(open(end, "rb").read()))
    with streams._Output(other, "wb") as raw:
        left = memoryview(text)
        left = left[raw.write(left) :]
        reader.start()
        while left:
            left = left[raw.write(left) :]
    reader.join()
    assert got == [text]


@pytest.mark.parametrize("ignored", [False, True])
def test_a_hangup_asks_for_a_stop_unless_nohup_forbids_it(ignored):
    monitor = Monitor()
    kept = signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL)
    try:
        before = handle(monitor._request_stop, [signal.SIGHUP])
        assert before.keys() == (set() if ignored else {signal.SIGHUP})
        os.kill(os.getpid(), signal.SIGHUP)
        assert monitor.stop_requested != ignored
    finally:
        signal.signal(signal.SIGHUP, kept)


def test_colours_and_bars_of_ours_are_obeyed_and_words_of_others_are_not(tmp_path):
    """As on a terminal: what `harmless.obeyed` lets through, and what any other writing may not do."""
    code = (
        "import sys; from htbench.harness.show.harmless import obeyed\n"
        "from htbench.harness.system import streams\n"
        "streams.settle()\n"
        "with obeyed(sys.stdout): sys.stdout.write('\\x1b[31mred\\x1b[0m')\n"
        "sys.stdout.write('\\x1b[31m')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=HOME)
    assert done.stdout == "\x1b[31mred\x1b[0m\\x1b[31m", done.stderr
