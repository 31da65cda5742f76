"""The page about Spark runs from top to bottom."""

from pathlib import Path

from ..doc_blocks import blocks_of, run_page

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "spark.md"


def test_page_runs(spark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert all(block.runs for block in blocks_of(PAGE))
    names = run_page(PAGE, tmp_path)
    assert names["spark"] is spark
    assert names["again"].gap <= 1e-3
