"""Wait for what another process does, as long as it takes on a slow machine, and never for ever."""

import time


def wait_for(condition, seconds=120, every=0.02, told=lambda: ""):
    """What `condition` gives once it is true; if it never is, the test fails with the words of `told`."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, told()
        time.sleep(every)
    return found
