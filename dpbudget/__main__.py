"""The program: `dpbudget`, and `python -m dpbudget`. Ctrl-C is answered from the first import on."""

import signal
import sys


def run() -> None:
    """Run the command line on the arguments of the process."""
    try:
        from dpbudget.cli import main

        main()
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        sys.stderr.write("interrupted\n")
        sys.exit(130)


if __name__ == "__main__":
    run()
