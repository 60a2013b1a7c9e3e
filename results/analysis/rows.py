"""Rows of the tidy frame as mappings."""

from __future__ import annotations

from typing import Any

import pandas as pd


def rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows in their order, by the names of the columns.

    Like `to_dict("records")`, which takes ten times as long for a few rows of many columns.
    """
    names = [str(name) for name in frame.columns]
    columns = [frame[name].tolist() for name in frame.columns]
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]
