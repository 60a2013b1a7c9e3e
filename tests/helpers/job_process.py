"""The Python of a job, as submitit starts it, and what its pickle names."""

import io
import pickle

from sweeps.cluster import snapshot

# Nothing of ours is on the path but the working folder.
JOB = f"""
import pickle, sys
from pathlib import Path
sys.path[1:] = [place for place in sys.path[1:] if Path(place).resolve() != Path({str(snapshot.HOME)!r})]
pickle.loads(bytes.fromhex(sys.argv[1])).result()
"""


class Names(pickle.Unpickler):
    """Loads a pickle and keeps the modules of all classes and functions that it names."""

    def __init__(self, file):
        super().__init__(file)
        self.modules = set()

    def find_class(self, module, name):
        self.modules.add(module)
        return super().find_class(module, name)


def modules_named(data):
    """The modules that a pickle names."""
    names = Names(io.BytesIO(data))
    names.load()
    return names.modules
