"""Moved to `harness.show.harmless`; goes when nobody imports it from here."""

from harness.show.harmless import csv_cell as csv_cell
from harness.show.harmless import in_a_line as in_a_line
from harness.show.harmless import markdown as markdown
from harness.show.harmless import markdown_cell as markdown_cell
from harness.show.harmless import visible as visible
