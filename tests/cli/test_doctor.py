"""unisono doctor: the CPU backend must work wherever the tests run."""

import os

from command import Case, main


class Doctor(Case):
    def test_text(self):
        out, error = self.unisono("doctor")
        self.assertIn("arch=sm120 compiled, never run", out)
        self.assertEqual(error, "")
        for words in ("machine", "CPU backend", "oneDNN", "self-test     passed", "CUDA", "compiler", "cache", "backends", "used: it runs everywhere"):
            self.assertIn(words, out)

    def test_json(self):
        found = self.json("doctor")
        self.assertTrue(found["self_test"]["passed"])
        self.assertTrue(found["backends"]["cpu"]["used"])
        self.assertTrue(found["backends"]["cuda"]["why"])
        self.assertGreaterEqual(found["cpu"]["usable_processors"], 1)
        self.assertEqual(bool(found["cuda"]["gpus"]), not found["cuda"]["problem"])

    def test_cache_folder(self):
        environment = dict(os.environ, XDG_CACHE_HOME=str(self.folder))
        cache = self.json("doctor", env=environment)["cache"]
        self.assertEqual(cache["folder"], str(self.folder / "unisono"))
        self.assertTrue(cache["writable"])
        # the probe is gone; the self-test keeps a kernel where there is a GPU
        self.assertEqual([entry for entry in (self.folder / "unisono").iterdir() if entry.name != "kernels"], [])
        (self.folder / "file").write_text("")
        cache = self.json("doctor", env=dict(os.environ, XDG_CACHE_HOME=str(self.folder / "file")))["cache"]
        self.assertFalse(cache["writable"])
        self.assertTrue(cache["problem"])


if __name__ == "__main__":
    main()
