import runpy
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).resolve().parents[1] / "examples" / "demo.py"


@pytest.mark.slow
def test_the_demo_trains_reports_and_overwrites_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ["--epochs", "8", "--graphs", "600", "--size", "12", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", [str(DEMO), *options])
    runpy.run_path(str(DEMO), run_name="__main__")
    page, printed = (tmp_path / "report.html").read_text(), capsys.readouterr().out
    for method in ("Learned", "Haar", "Canonical"):
        assert method in printed
        assert f"<td>{method}</td>" in page
    assert page.count("<polyline") == 3
    assert "http" not in page
    shares = [float(row.split("</td><td>")[1]) for row in page.split("<tr><td>")[1:]]
    assert shares[0] > 75
    with pytest.raises(SystemExit):
        runpy.run_path(str(DEMO), run_name="__main__")
