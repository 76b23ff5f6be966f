"""unisono tune on the emulated GPU: times mean nothing there, but what is kept, used and rejected does."""

import json
import os
import pathlib
import sqlite3
import struct
import subprocess
import sys
import time

import onnx_file
from command import COMMAND, FAILED, SOURCES, WRONG, Case, main

EMULATOR = pathlib.Path(sys.argv[4])  # a toolkit: lib/libcuda.so.1 and lib/libnvrtc.so.13
TEXT = "store relu(acc + bias[n]) as y : bf16"
SHAPE = ("--conv", "1,8,16,64->16,3x3")
QUICK = ("--candidates", 2, "--rotate", 0, "--jobs", 2)


class Tune(Case):
    def setUp(self):
        super().setUp()
        bare = {k: v for k, v in os.environ.items() if k not in ("CUDA_HOME", "CUDA_PATH", "UNISONO_PACKS", "XDG_CACHE_HOME", "UNISONO_TUNING")}
        self.env = dict(bare, CUDA_HOME=str(EMULATOR), LD_LIBRARY_PATH=str(EMULATOR / "lib"), HOME=str(self.folder),
                        UNISONO_CACHE_DIR=str(EMULATOR / "cache"), XDG_RUNTIME_DIR=str(self.folder), UNISONO_EMULATOR_SMS="8")
        self.database = self.folder / ".cache" / "unisono" / "tuning.db"

    def origin(self, **env):
        return self.json("explain", TEXT, *SHAPE, "--device", "cuda", env=dict(self.env, **env))["origin"]

    def test_found_kept_and_used(self):
        report = self.json("tune", TEXT, *SHAPE, *QUICK, env=self.env)
        (problem,) = report["problems"]
        self.assertEqual((problem["error"], problem["rejected"], problem["timed"], problem["known"]), ("", [], 2, False))
        self.assertGreater(problem["us"], 0)
        self.assertEqual(report["database"], str(self.database))
        again = self.json("tune", TEXT, *SHAPE, *QUICK, env=self.env)["problems"][0]
        self.assertTrue(again["known"])
        self.assertEqual(again["plan"], problem["plan"])
        self.assertIn("tuned", self.origin())
        self.assertEqual(self.origin(UNISONO_TUNING="off"), "the cost model")
        self.assertEqual(self.origin(UNISONO_TUNING=str(self.folder / "absent.db")), "the cost model")
        # as text, and back into another file
        text, _ = self.unisono("tune", "--export", "-", env=self.env)
        line = text.splitlines()[1]
        self.assertIn("emulated GPU/8 | ", line)
        self.assertIn(f" | 1,8,16,64->16,3x3,pad=1,dtype=bf16 | relu #", line)
        self.assertIn(f" | {problem['plan']} | ", line)
        (self.folder / "rows.txt").write_text("an earlier file, and longer than the rows are" * 100)
        self.unisono("tune", "--export", "rows.txt", env=self.env)  # takes its place
        self.assertEqual((self.folder / "rows.txt").read_text(), text)
        other = dict(self.env, UNISONO_TUNING=str(self.folder / "other.db"))
        self.assertIn("1 plans are now in", self.unisono("tune", "--import", "rows.txt", env=other)[0])
        self.assertEqual(self.unisono("tune", "--export", "-", env=other)[0], text)
        self.assertIn("tuned", self.origin(UNISONO_TUNING=other["UNISONO_TUNING"]))
        # a plan that is not legal: said, and passed over
        bad = text.replace(problem["plan"], "tile=256x256 order=cooperative load=gather")
        (self.folder / "rows.txt").write_text(bad)
        self.unisono("tune", "--import", "rows.txt", env=other)
        out, error = self.unisono("explain", TEXT, *SHAPE, "--device", "cuda", env=other)
        self.assertIn("the cost model", out)
        self.assertIn("tile=256x256 order=cooperative load=gather", error)

    def test_model(self):
        f = onnx_file
        weights = struct.pack("<5184f", *(0.01 * (i % 7 - 3) for i in range(24 * 24 * 9)))
        same = dict(pads=[1, 1, 1, 1])
        (self.folder / "m.onnx").write_bytes(f.model(
            [f.node("Conv", ["x", "w"], ["h"], **same), f.node("Relu", ["h"], ["r"]), f.node("Conv", ["r", "w"], ["s"], **same), f.node("Relu", ["s"], ["y"])],
            [f.value_info("x", f.FLOAT, [1, 24, 8, 8])], [f.value_info("y", f.FLOAT, [1, 24, 8, 8])], constants=[f.constant("w", f.FLOAT, [24, 24, 3, 3], weights)]))
        (problem,) = self.json("tune", "m.onnx", *QUICK, env=self.env)["problems"]
        self.assertEqual((problem["uses"], problem["error"]), (2, ""))
        launches = self.json("explain", "m.onnx", "--device", "cuda", env=self.env)["cuda"]["launches"]
        self.assertEqual(sum("tuned" in launch["how"] for launch in launches), 2)
        out, _ = self.unisono("run", "m.onnx", "--random", "--device", "cuda", "--check", "--repeat", 1, env=self.env)
        self.assertIn("agree", out)
        # what a profile says of a GPU
        out, _ = self.unisono("run", "m.onnx", "--random", "--device", "cuda", "--profile", "--repeat", 1, "--trace", "t.json",
                           "--svg", "t.svg", env=self.env)
        for words in ("TFLOP/s", "GB/s", "of peak", "arithmetic and memory allow", "on the GPU"):
            self.assertIn(words, out)
        lanes = {e["tid"] for e in json.loads((self.folder / "t.json").read_text())["traceEvents"] if e["ph"] == "X"}
        self.assertEqual(lanes, {1, 2})
        self.assertIn("% of the peak", self.assert_svg(self.folder / "t.svg"))
        self.unisono("explain", "m.onnx", "--device", "cuda", "--svg", "e.svg", env=self.env)
        self.assertIn("us predicted", self.assert_svg(self.folder / "e.svg"))

    def faulty(self, header, good, bad):
        """An environment in which kernels are compiled with a fault."""
        text = (SOURCES / "kernels" / "unisono" / header).read_text()
        self.assertIn(good, text)
        faulty = self.folder / "faulty" / header
        faulty.parent.mkdir(parents=True)
        faulty.write_text(text.replace(good, bad))
        return dict(self.env, UNISONO_EMULATOR_HEADERS=str(self.folder / "faulty"), UNISONO_CACHE_DIR=str(self.folder / "cache"))

    def test_wrong_kernels_are_not_kept(self):
        env = self.faulty("sm90/main_loop.cuh", "k < kStepBytes / 32", "k < kStepBytes / 64")  # every second product is left out
        out, _ = self.unisono("tune", TEXT, *SHAPE, *QUICK, code=FAILED, env=env)
        self.assertIn("nothing kept: none of its plans", out)
        self.assertEqual(out.count("outside of their tolerances"), 2, out)
        self.assertNotIn(" | ", self.unisono("tune", "--export", "-", env=env)[0].split("\n", 1)[1])

    def test_the_next_best_wins_where_one_is_wrong(self):
        # halo tiles are read at the wrong line; im2col tiles are not concerned
        env = self.faulty("sm90/main_loop.cuh", "line = (kLineBytes >> 4) * g.dilation_h - pixel * g.taps_w", "line = (kLineBytes >> 4) * g.dilation_h")
        (problem,) = self.json("tune", TEXT, *SHAPE, "--candidates", 4, "--rotate", 0, "--jobs", 2, code=None, env=env)["problems"]
        self.assertEqual(problem["error"], "")
        self.assertIn("load=im2col", problem["plan"])

    def test_damage_and_wrong_use(self):
        self.database.parent.mkdir(parents=True)
        self.database.write_bytes(b"x" * 5000)
        self.refused("tune", TEXT, *SHAPE, *QUICK, says=("tuning.db", "damaged"), env=self.env)
        self.refused("tune", "--export", "-", says="damaged", env=self.env)
        out, error = self.unisono("explain", TEXT, *SHAPE, "--device", "cuda", env=self.env)
        self.assertIn("the cost model", out)
        self.assertIn("plans are not used", error)
        self.assertEqual(self.database.read_bytes(), b"x" * 5000)
        self.refused("tune", TEXT, *SHAPE, says="--database", env=dict(self.env, UNISONO_TUNING="off"))
        self.refused("tune", says="expected a model", env=self.env)
        self.refused("tune", TEXT, "--import", "x", says="--import", env=self.env)
        self.refused("tune", TEXT, *SHAPE, "--rotate", "many", says="--rotate", env=self.env)
        (self.folder / "rows.txt").write_text("# nothing\nnonsense\n")
        self.refused("tune", "--import", "rows.txt", says=("rows.txt, line 2", "nonsense"), env=self.env)

    def test_fifo(self):
        os.mkfifo(self.folder / "fifo")
        self.refused("tune", "--export", "-", env=dict(self.env, UNISONO_TUNING=str(self.folder / "fifo")), says="is a FIFO")
        self.refused("tune", "--import", "fifo", env=self.env, says="is a FIFO")
        rows = "emulated GPU/8 | CUDA 12.0 | 0 | 1 | bare #0 | tile=64x64 | 1.00 us | 1.00 us | 2026-01-01T00:00:00Z\n"
        self.unisono("tune", "--import", "-", env=self.env, input=rows)  # standard input is a pipe

    def test_locked_file_stalls_nobody(self):
        rows = "emulated GPU/8 | CUDA 12.0 | 0 | 1 | bare #0 | tile=64x64 | 1.00 us | 1.00 us | 2026-01-01T00:00:00Z\n"
        self.unisono("tune", "--import", "-", env=self.env, input=rows)
        with sqlite3.connect(self.database) as db:
            db.execute("PRAGMA locking_mode=EXCLUSIVE")
            db.execute("BEGIN EXCLUSIVE")
            start = time.monotonic()
            _, error = self.unisono("explain", TEXT, *SHAPE, "--device", "cuda", env=self.env)
            self.assertLess(time.monotonic() - start, 40)  # 20 s a look-up before; on a machine that is busy, too
        self.assertEqual(error.count("locked"), 2, error)  # what SQLite says, and for how long: once

    def test_processes_at_once(self):
        rows = "# rows\n" + "".join(f"emulated GPU/8 | CUDA 12.0 | 0 | {i} | bare #0 | tile=64x64 | 1.00 us | 1.00 us | 2026-01-01T00:00:00Z\n" for i in range(50))
        (self.folder / "rows.txt").write_text(rows)
        started = [subprocess.Popen([COMMAND, "tune", "--import", "rows.txt"], cwd=self.folder, env=self.env, stdout=subprocess.DEVNULL) for _ in range(6)]
        self.assertEqual([p.wait() for p in started], [0] * 6)
        with sqlite3.connect(self.database) as db:
            self.assertEqual(db.execute("SELECT count(*) FROM plans").fetchone()[0], 50)


if __name__ == "__main__":
    main()
