"""Wait for what another process does, as long as it takes on a slow machine, and never for ever."""

import time

MOST = 3600  # seconds, whatever goes on


def wait_for(condition, seconds=120, every=0.02, told=lambda: "", progress=lambda: None):
    """What `condition` gives once it is true; if it never is, the test fails with the words of `told`.

    The seconds begin anew each time `progress` gives something else than before.
    """
    began = since = time.monotonic()
    seen = progress()
    while not (found := condition()):
        if (now := progress()) != seen:
            seen, since = now, time.monotonic()
        assert time.monotonic() < min(since + seconds, began + MOST), told()
        time.sleep(every)
    return found
