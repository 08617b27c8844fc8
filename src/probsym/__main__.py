"""`probsym` and `python -m probsym`: the command line, or one line that says what it needs."""

import sys

from probsym import __version__


def main() -> None:
    """Run the command line, if what it stands on is installed."""
    try:
        from probsym.cli import main as run  # noqa: PLC0415, which is what may be missing
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "probsym":
            raise
        if sys.argv[1:] == ["--version"]:
            sys.stdout.write(f"probsym {__version__}\n")
            return
        sys.exit(f"Expected the command line's libraries (got no {error.name}); pip install 'probsym[lab]' has them")
    run()


if __name__ == "__main__":
    main()
