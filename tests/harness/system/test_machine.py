"""What this process asks of the machine: memory that it keeps."""

import platform
import subprocess
import sys

import pytest

# Pages that the third round of three blocks of 24 MiB gets from the system, which fills each with zeros.
ROUNDS = """
import resource, sys
from htbench.harness.system import machine

if "keep" in sys.argv:
    machine.keep_memory()
for _ in range(3):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    blocks = [bytearray(24 * 2**20) for _ in range(3)]
    del blocks
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library has no such setting")
def test_freed_memory_is_used_again():
    pages = [
        int(subprocess.check_output([sys.executable, "-c", ROUNDS, word])) for word in ("keep", "give back")
    ]
    assert pages[0] < 100 < 5_000 < pages[1], "three blocks are 18,432 pages"
