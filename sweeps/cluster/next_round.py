"""How jobs go on with a search in rounds: the one that ends a round plans what follows, and trains it.

So one `sweep submit` is enough, and no job waits for another. Two jobs that end at the same time plan the
same round. If the last job of a round dies before that, the next `sweep submit` goes on.
"""

from pathlib import Path

from htbench.harness.errors import UsageError
from htbench.harness.show.emit import say
from htbench.harness.show.status import Status
from htbench.harness.store import Store, submissions
from htbench.harness.store.points import SPEC, Point, sweep_folder
from htbench.harness.system import atomic
from htbench.sweeps.plan.planned import objective
from htbench.sweeps.plan.replicas import everything_with_states
from htbench.sweeps.plan.stored import write_plan
from htbench.sweeps.spec import sweep_file
from htbench.sweeps.spec.search import REFINE


def plan_next_round(root: Path, point: Point) -> list[Point]:
    """The points that follow on the round of a point and wait, without those that `submit` has given a job.

    Args:
        root: the store, whose plan has them afterwards.
        point: one that a job has trained.
    """
    sweep = point.sweep
    try:
        folder = sweep_folder(root, sweep)
        atomic.refresh_file_cache(folder)
        if point.slot or not (folder / SPEC).is_file():
            return []
        (spec,) = sweep_file.load_all([str(folder / SPEC)], [], root, trains=True)
        if spec.search.mode != REFINE:
            return []
        planned, run_states = everything_with_states(Store(root), spec)
        write_plan(root, spec, planned)
    except UsageError as error:
        say(f"what follows in sweep {sweep} is left to the next `sweep submit`: {error}")
        return []
    # Empty if the stored file is a new one, without the point.
    trained = {objective(p.point, spec) for p in planned if p.point.id == point.id}
    submitted = {id for array in submissions.read(root, sweep) for id in array.points}
    return [
        p.point
        for p in planned
        if objective(p.point, spec) in trained
        and run_states[p.point.id].status is Status.WAITING
        and p.point.id not in submitted
    ]
