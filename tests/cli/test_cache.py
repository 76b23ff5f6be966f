"""unisono cache: entries of a cache that a test program has filled (with a compiler of its own)."""

import json
import os
import subprocess
import sys

from command import COMMAND, FAILED, Case, main

FILL = sys.argv[3]  # makes entries: FILL FOLDER TITLE…


class Cache(Case):
    def setUp(self):
        super().setUp()
        self.cache = self.folder / "cache"
        self.env = dict(os.environ, UNISONO_CACHE_DIR=str(self.cache), XDG_RUNTIME_DIR=str(self.folder))

    def fill(self, *titles):
        subprocess.run([FILL, self.cache, *titles], check=True, env=self.env)
        return {e["title"]: e for e in self.list()}

    def list(self):
        return self.json("cache", "list", env=self.env)["entries"]

    def age(self, entry, days):
        path = os.path.join(entry["path"], "entry.json")
        time = os.stat(path).st_mtime - days * 24 * 3600
        os.utime(path, (time, time))

    def test_path_follows_the_environment(self):
        self.assertEqual(self.unisono("cache", "path", env=self.env)[0], f"{self.cache}\n")
        xdg = {k: v for k, v in dict(self.env, XDG_CACHE_HOME=str(self.folder)).items() if k != "UNISONO_CACHE_DIR"}
        self.assertEqual(self.json("cache", "path", env=xdg)["folder"], str(self.folder / "unisono" / "kernels"))
        self.assertEqual(self.unisono("cache", "path", "--folder", "/a/pack", env=self.env)[0], "/a/pack\n")
        none = {k: v for k, v in xdg.items() if k not in ("HOME", "XDG_CACHE_HOME")}
        self.refused("cache", "path", env=none, says="HOME")

    def test_empty_cache(self):
        self.assertIn("0 entries", self.unisono("cache", "list", env=self.env)[0])
        self.assertIn("0 of 0 entries", self.unisono("cache", "verify", env=self.env)[0])
        self.unisono("cache", "prune", "--all", env=self.env)
        self.assertFalse(self.cache.exists())

    def test_list(self):
        entries = self.fill("one kernel", "another")
        self.assertEqual(set(entries), {"one kernel", "another"})
        entry = entries["one kernel"]
        self.assertEqual(len(entry["key"]), 32)
        self.assertEqual(entry["arch"], "sm_90a")
        self.assertGreater(entry["bytes"], 3000)
        self.assertIsNone(entry["problem"])
        self.assertGreater(entry["kernels"]["kernel_of_test"]["registers"], 0)
        out = self.unisono("cache", "list", env=self.env)[0]
        for words in ("title", "registers", "spills", "one kernel", entry["key"][:12], "2 entries", str(self.cache)):
            self.assertIn(words, out)

    def test_verify(self):
        entries = self.fill("one", "two")
        self.unisono("cache", "verify", env=self.env)
        with open(os.path.join(entries["one"]["path"], "kernel.cubin"), "r+b") as file:
            file.truncate(10)
        out = self.unisono("cache", "verify", code=FAILED, env=self.env)[0]
        self.assertIn(f"{entries['one']['path']}: kernel.cubin has 10 bytes", out)
        self.assertIn("1 of 2 entries broken", out)
        found = json.loads(self.unisono("cache", "verify", "--json", code=FAILED, env=self.env)[0])
        self.assertEqual(found["broken"], 1)

    def test_prune(self):
        entries = self.fill("one", "two", "three")
        self.age(entries["two"], 10)
        self.age(entries["three"], 40)
        pruned = self.json("cache", "prune", "--older-than", "30d", env=self.env)
        self.assertEqual([e["title"] for e in pruned["removed"]], ["three"])
        pruned = self.json("cache", "prune", "--max-size", str(entries["one"]["bytes"]), env=self.env)
        self.assertEqual([e["title"] for e in pruned["removed"]], ["two"])
        self.assertEqual((pruned["kept"], pruned["kept_bytes"]), (1, entries["one"]["bytes"]))
        self.assertIn("removed 1 entry", self.unisono("cache", "prune", "--all", env=self.env)[0])
        self.assertEqual(self.list(), [])

    def test_prune_alone_removes_what_is_broken(self):
        entries = self.fill("one", "two")
        os.remove(os.path.join(entries["two"]["path"], "kernel.cubin"))
        self.assertIn("removed 1 entry", self.unisono("cache", "prune", env=self.env)[0])
        self.assertEqual([e["title"] for e in self.list()], ["one"])

    def test_other_folders_are_never_pruned(self):
        for name in ("tmp", "broken", "failed"):
            thesis = self.folder / "mine" / name / "thesis"
            thesis.parent.mkdir(parents=True)
            thesis.write_text("x")
            self.refused("cache", "prune", "--all", "--folder", self.folder / "mine", env=self.env, says=("folder of compiled kernels", "thesis"))
            self.assertEqual(thesis.read_text(), "x")
            thesis.unlink()
        # in a cache, too, only what is its own goes
        self.fill("one")
        (self.cache / "broken").mkdir()
        (self.cache / "broken" / "thesis").write_text("x")
        self.unisono("cache", "prune", "--all", env=self.env)
        self.assertEqual((self.cache / "broken" / "thesis").read_text(), "x")
        self.assertTrue((self.cache / "unisono-kernels").exists())

    def test_folder_that_others_may_write_to(self):
        self.fill("one")
        self.cache.chmod(0o777)
        for action in ("list", "verify", "prune"):
            self.refused("cache", action, env=self.env, says=("chmod go-w", str(self.cache)))
        kernels = self.json("doctor", env=self.env)["kernels"]
        self.assertEqual((kernels[0]["folder"], kernels[0]["used"]), (str(self.cache), False))
        self.assertIn("mode 777", kernels[0]["refused"])
        self.assertIn("NOT USED", self.unisono("doctor", env=self.env)[0])
        self.cache.chmod(0o755)
        self.assertEqual([e["title"] for e in self.list()], ["one"])
        self.assertTrue(self.json("doctor", env=self.env)["kernels"][0]["used"])

    def test_titles_do_not_reach_the_terminal_raw(self):
        self.fill("\x1b[31mred")
        self.assertIn("\\x1b[31mred", self.unisono("cache", "list", env=self.env)[0])

    def test_wrong_usage(self):
        self.refused("cache", env=self.env)
        self.refused("cache", "dance", env=self.env)
        self.refused("cache", "prune", "--older-than", "soon", env=self.env, says=("--older-than", "'soon'"))
        self.refused("cache", "prune", "--max-size", "-1G", env=self.env, says=("--max-size", "'-1G'"))
        self.refused("cache", "list", "--all", env=self.env, says="--all")
        (self.folder / "file").write_text("")
        self.refused("cache", "list", "--folder", self.folder / "file", env=self.env, says="file")


if __name__ == "__main__":
    main()
