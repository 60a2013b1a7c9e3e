"""A benchmark in miniature, written as the three CSV files of the real one."""

import csv

import pytest


class Logs:
    """Log files to be filled evaluation by evaluation; `write` makes a folder that the reader takes."""

    def __init__(self, folder):
        self.folder = folder
        self.history, self.runs, self.losses = [], [], []

    def result(self, steps, loss, n, log):
        number = len(self.history) + 1
        self.history.append([number, steps, loss, n, "2026/01/01", log])

    def log(self, folder, name, evaluations, total=100, gpu="H100"):
        """A log with (step, loss) pairs."""
        self.runs.append(
            [folder, name, evaluations[-1][0], total, evaluations[-1][1], 1, gpu, len(evaluations)]
        )
        self.losses += [[folder, name, step, total, loss] for step, loss in evaluations]

    def write(self):
        heads = {
            "history": "number,steps_to_target,mean_loss,n,date,log",
            "runs": "result,run,last_step,total_steps,final_val_loss,step_ms,gpu,evaluations",
            "val_loss": "result,run,step,total_steps,val_loss",
        }
        rows = {"history": self.history, "runs": self.runs, "val_loss": self.losses}
        for name, head in heads.items():
            with (self.folder / f"{name}.csv").open("w", newline="") as file:
                csv.writer(file, lineterminator="\n").writerows([head.split(","), *rows[name]])
        return self.folder


@pytest.fixture
def logs(tmp_path):
    return Logs(tmp_path)
