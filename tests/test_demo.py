import runpy
from pathlib import Path

import pytest

DEMO = Path(__file__).resolve().parents[1] / "examples" / "demo.py"


@pytest.mark.slow
def test_the_demo_shows_what_it_promises(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(DEMO), run_name="__main__")
    page = capsys.readouterr().out
    for part in ("Group laws", "ShapeError: Expected input 2", "pairs in order on fresh sets", "4,096 points"):
        assert part in page
    before, after = (float(share.rstrip("%,")) for share in page.split("fresh sets: ")[1].split()[:3:2])
    assert before < 60
    assert after > 95
