"""examples/quickstart.ipynb runs from top to bottom, and what it shows is there."""

from __future__ import annotations

from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).resolve().parent.parent / "examples" / "quickstart.ipynb"


def test_the_notebook_runs_clean_and_shows_what_it_says(tmp_path):
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    pytest.importorskip("plotly")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    assert not any(cell.get("outputs") for cell in notebook.cells), "the notebook is kept without outputs"
    nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert not [output for output in outputs if output.output_type == "error"]
    html = "".join(str(output.data.get("text/html", "")) for output in outputs if "data" in output)
    assert "expected, trial" in html  # the recommendation
    assert "TreeSearcher(16 trials" in html
    assert "chance_to_improve" in html  # the explanation
    figures = [output for output in outputs if "data" in output and "application/vnd.plotly.v1+json" in output.data]
    assert len(figures) == 2
    printed = "".join(output.text for output in outputs if output.output_type == "stream")
    assert sum(line.startswith("#") for line in printed.splitlines()) == 16
    blocks = [output for output in outputs if output.output_type == "display_data" and "16 of 16 trials" in str(output.data)]
    assert len(blocks) == 1  # one block, renewed in its place
    assert (tmp_path / "report.html").exists()
