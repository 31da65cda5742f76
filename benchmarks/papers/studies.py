"""All studies by name."""

from __future__ import annotations

from benchmarks.papers import kmomd, mcodm, odm, sodm, ssodm

STUDIES = {study.name: study for paper in (odm, mcodm, kmomd, sodm, ssodm) for study in paper.STUDIES}
