"""The Optuna studies of a sweep. The only room that imports Optuna."""
