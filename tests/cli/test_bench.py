"""unisono bench, as far as it needs no GPU: cases as JSON, and what is refused."""

import json
import subprocess

from command import COMMAND, SOURCES, WRONG, Case, main

CASES = SOURCES / "bench" / "cases"


class Bench(Case):
    def test_lists_the_committed_suites(self):
        out, _ = self.unisono("bench", *(CASES / f"{s}.txt" for s in ("conv", "block", "epilogue")), "--list")
        suites = {s["suite"]: s["cases"] for s in json.loads(out)}
        self.assertEqual([c["name"] for c in suites["conv"]], [c["name"] for c in suites["block"]])
        self.assertEqual(len(suites["conv"]), 11)
        self.assertTrue(all(c["bare"] for c in suites["conv"]))
        self.assertEqual({o["name"] for o in suites["block"][0]["operands"]}, {"bias", "gamma", "beta"})
        self.assertEqual(len({c["name"] for c in suites["epilogue"]}), len(suites["epilogue"]))

    def test_only(self):
        out, _ = self.unisono("bench", CASES / "block.txt", "--list", "--only", "1,512")
        self.assertEqual([c["name"] for c in json.loads(out)[0]["cases"]], ["1,512,512,128,128,3"])
        self.refused("bench", CASES / "block.txt", "--list", "--only", "7,7", says=("'7,7'", "1,512,512,128,128,3"))

    def test_refuses_wrong_files(self):
        self.refused("bench", "absent.txt", "--list", says="absent.txt")
        wrong = self.folder / "wrong.txt"
        wrong.write_text("suite s\nepilogue e\n  store mihs(acc) as y\ncase 1,8,8,8,8,1\n")
        self.refused("bench", wrong, "--list", says=("wrong.txt:4", "did you mean 'mish'?"))
        wrong.write_text("suite s\nepilogue e\n  store acc as y : bf16\ncase 1,8,8,8,1\n")
        self.refused("bench", wrong, "--list", says=("wrong.txt:4", "N,H,W,C,K,R"))

    def test_lists_nothing_into_a_full_disk(self):
        with open("/dev/full", "w") as full:
            result = subprocess.run([COMMAND, "bench", CASES / "conv.txt", "--list"], stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual(result.returncode, WRONG)
        self.assertIn("standard output", result.stderr)


if __name__ == "__main__":
    main()
