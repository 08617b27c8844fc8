"""How long `probsym report` takes over all results, from the start of the interpreter to the written page.

Run: python benchmarks/report.py [--results results] [--repeats 5] [--out FILE]. The last line is JSON.
"""

import argparse
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.record import finish, side_by_side
from probsym.lab.provenance import provenance


def main() -> None:
    """Write the report a few times, print the median, end with JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    with TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"

        def report() -> None:
            for file in (page, page.with_suffix(".md")):
                file.unlink(missing_ok=True)
            command = [sys.executable, "-m", "probsym.cli", "report", "--out", str(page)]
            subprocess.run([*command, "--results", str(arguments.results)], check=True, capture_output=True)

        seconds = side_by_side({"report": report}, repeats=arguments.repeats, device=torch.device("cpu"))["report"]
        result = {"benchmark": "report", "seconds": seconds, "page_bytes": page.stat().st_size}
    result["files"] = sum(1 for _ in arguments.results.rglob("*.json"))
    print(f"{result['files']} files in {seconds:.2f} s")
    finish({**result, **provenance(torch.device("cpu"))}, arguments.out)


if __name__ == "__main__":
    main()
