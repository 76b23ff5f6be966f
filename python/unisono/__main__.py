"""python -m unisono COMMAND …: `doctor` is the package's own; all others are those of the command `unisono`."""

import os
import signal
import sys

from .compiler import environment
from .doctor import command, doctor


def main() -> int:
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # a reader that ends (`| head`) ends it, as it ends the command
    arguments = sys.argv[1:]
    if arguments == ["doctor"]:
        report = doctor()
        print(report)
        return 1 if "FAILED" in report else 0
    tool = command()
    if tool is None:
        print("python -m unisono: neither this package nor PATH has the `unisono` command; only `doctor` works",
              file=sys.stderr)
        return 2
    os.execve(tool, [tool, *arguments], environment())


if __name__ == "__main__":
    sys.exit(main())
