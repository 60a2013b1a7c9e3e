"""Many runs: a YAML sweep becomes points, points become runs on this machine or on SLURM."""
