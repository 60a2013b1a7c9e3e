"""What this process asks of the machine: memory that it keeps."""

import platform
import subprocess
import sys

import pytest

# Pages that the last of three threads gets from the system, which fills each with zeros, for three blocks
# of 24 MiB.
ROUNDS = """
import resource, sys, threading
from htbench.harness.system import machine

def fill():
    global pages
    pages = -resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    [bytearray(24 * 2**20) for _ in range(3)]
    pages += resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    filled.release()
    threading.Event().wait()

"keep" in sys.argv and machine.keep_memory()
filled = threading.Semaphore(0)
for _ in range(3):
    threading.Thread(target=fill, daemon=True).start()
    filled.acquire()
print(pages)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library has no such setting")
def test_freed_memory_is_used_again_by_whatever_thread():
    pages = [
        int(subprocess.check_output([sys.executable, "-c", ROUNDS, word])) for word in ("keep", "give back")
    ]
    assert pages[0] < 100 < 5_000 < pages[1], "three blocks are 18,432 pages"
