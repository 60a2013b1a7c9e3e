"""What `squeue` prints: its rows as jobs, or that it is no answer of `squeue` at all."""

from dataclasses import dataclass

# Fixed widths, as no separator is safe: a name may hold anything, even a new line. The id comes again at the
# end, so that a row without it is known to be cut.
COLUMNS = (
    ("JobArrayID", 40),
    ("State", 20),
    ("RestartCnt", 12),
    ("UserName", 40),
    ("Reason", 60),
    ("StartTime", 22),
    ("EndTime", 22),
    ("TimeUsed", 16),
    ("Name", 300),  # longer than that of any sweep can be
    ("JobArrayID", 40),
)
FORMAT = ",".join(f"{name}:{width}" for name, width in COLUMNS)

# Requeued and then held until a person releases it. Such a job waits.
_HELD = ("REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD")
_OVER = (
    *("BOOT_FAIL", "CANCELLED", "COMPLETED", "COMPLETING", "DEADLINE", "FAILED", "NODE_FAIL"),
    *("OUT_OF_MEMORY", "PREEMPTED", "TIMEOUT"),
)


@dataclass(frozen=True)
class Job:
    """A job, or one task of an array.

    Attributes:
        id: `12`, or `12_3` for a task of an array. The plain number of a task is ambiguous: the last task of
            an array to start has that of the whole array.
        state: PENDING, RUNNING, COMPLETING ...
        restarts: how often it was requeued.
        user: whose it is.
        reason: why it waits.
        name: as submitted.
        over: whether it has ended. If its state is COMPLETING, a process of it may still be saving.
    """

    id: str
    state: str
    restarts: int
    user: str
    reason: str
    name: str
    over: bool = False

    @property
    def array(self) -> str:
        """The number of the whole array."""
        return self.id.partition("_")[0]

    @property
    def task(self) -> int:
        """Its number in the array; 0 for a job that is none."""
        return int(self.id.partition("_")[2] or 0)

    @property
    def pending(self) -> bool:
        """Whether it waits for its start; a requeued job waits again."""
        return self.state == "PENDING" or self.state in _HELD


def read(text: str) -> dict[str, Job]:
    """The jobs that `squeue --Format FORMAT` printed, by id. An empty queue has a head, too.

    Raises:
        ValueError: the text is cut, or something else printed it; the message is the first strange line.
    """
    jobs, heads, row = {}, 0, ""
    for line in text.split("\n"):
        row += line
        if not row or row.startswith("CLUSTER: "):  # said where SLURM_CLUSTERS names several
            row = ""
        elif (words := _columns(row)) is None:
            # A name may go on in the next line. Before the head there is no row, only remarks of a site.
            row = f"{row}\n" if heads else ""
        else:
            if words[1] == "STATE":
                heads += 1
            elif words[1] != "REVOKED":  # in a federation, it runs on another cluster
                id, state, restarts, user, reason, start, end, used, name = words
                # A requeued job is COMPLETING, too, until its old processes have ended. Its times are then
                # those of a job that waits: nothing used, and an end one time limit after the start.
                comes_back = state == "COMPLETING" and used == "0:00" and (start != end or start == "N/A")
                over = state in _OVER and not comes_back
                jobs[id] = Job(id, state, int(restarts), user, reason, name, over)
            row = ""
    if row or not heads:
        raise ValueError(" ".join((row or text).partition("\n")[0].split()))
    return jobs


def _columns(row: str) -> list[str] | None:
    """The words of a row, without the last; None if the row is not whole."""
    words, start = [], 0
    for _, width in COLUMNS[:-2]:
        words.append(row[start : start + width].strip())
        start += width
    rest = row[start:].rstrip()  # widths count bytes: a name with an umlaut moves what comes after it
    whole = words[0] and rest.endswith(words[0]) and (words[2].isdigit() or words[1] == "STATE")
    return [*words, rest.removesuffix(words[0]).strip()] if whole else None
