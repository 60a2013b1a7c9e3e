"""Wait for what another process does, as long as it takes on a slow machine, and never for ever."""

import time

MOST = 3600  # seconds, whatever goes on


def wait_for(condition, seconds=120, every=0.02, told=lambda: "", progress=lambda: None):
    """What `condition` gives once it is true; if it never is, the test fails with the words of `told`.

    The seconds begin anew if `progress` then gives something else than when they began.
    """
    began = since = time.monotonic()
    seen = progress()
    while not (found := condition()):
        if time.monotonic() > since + seconds:
            assert (now := progress()) != seen and time.monotonic() < began + MOST, told()
            seen, since = now, time.monotonic()
        time.sleep(every)
    return found
