"""What random networks found, once small: every model agrees now.

usage: replay.py JUDGE FOLDER [JUDGE'S OPTIONS …]
"""

import pathlib
import sys

from opinions import Judge


def main():
    judge, files = Judge([sys.argv[1]] + sys.argv[3:]), sorted(pathlib.Path(sys.argv[2]).glob("*.onnx"))
    wrong = 0
    for file in files:
        verdict = judge.ask(file)
        if verdict["verdict"] != "agrees":
            wrong += 1
            print(f"{file.name}: {verdict['verdict']} ({verdict.get('stage', '')}): {verdict.get('text', '')}")
    judge.close()
    print(f"{len(files) - wrong} of {len(files)} agree")
    sys.exit(1 if wrong or not files else 0)


if __name__ == "__main__":
    main()
