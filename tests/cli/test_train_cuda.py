"""unisono train on the emulated GPU: near the CPU's training, the same twice, and resumed bit for bit."""

import os
import pathlib
import shutil
import signal
import sys

import browser
import test_train
from command import main

EMULATOR = pathlib.Path(sys.argv[4])  # a toolkit: lib/libcuda.so.1 and lib/libnvrtc.so.13

NO_DEVICE = 5


class TrainOnGpu(test_train.TrainCase):
    def setUp(self):
        super().setUp()
        bare = {k: v for k, v in os.environ.items() if k not in ("CUDA_HOME", "CUDA_PATH", "UNISONO_PACKS", "XDG_CACHE_HOME", "UNISONO_TUNING")}
        self.env = dict(bare, CUDA_HOME=str(EMULATOR), LD_LIBRARY_PATH=str(EMULATOR / "lib"), HOME=str(self.folder),
                        UNISONO_CACHE_DIR=str(EMULATOR / "cache"), XDG_RUNTIME_DIR=str(self.folder), UNISONO_EMULATOR_SMS="8")

    def short(self, name, **changed):
        return self.config(name, **{"steps": 12, "report_every": 4, "validate_every": 6, "checkpoint_every": 5, "folder": name[:-5],
                                    "device": "cuda", **changed})

    def test_near_the_cpu_the_same_twice_and_resumed(self):
        self.unisono("train", self.short("cpu.json", device="cpu"))
        self.unisono("train", self.short("gpu.json"), env=self.env)
        log, expected = (test_train.lines(self.folder / name) for name in ("gpu", "cpu"))
        self.assertEqual([line["step"] for line in log], [line["step"] for line in expected])
        for line, near in zip(log, expected):
            for key in {"loss", "validation_loss"} & line.keys():
                self.assertAlmostEqual(line[key], near[key], delta=0.03)
        whole = (self.folder / "gpu" / "checkpoint.safetensors").read_bytes()
        self.assertNotEqual(whole, (self.folder / "cpu" / "checkpoint.safetensors").read_bytes())
        # interrupted behind the first checkpoint
        self.short("parts.json", checkpoint_every=1, device="cuda:0")
        process = self.start("parts.json", env=self.env)
        self.wait_for("parts/checkpoint.safetensors", process)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, error)
        shutil.copytree(self.folder / "parts", self.folder / "mixed")
        self.unisono("train", "parts.json", "--resume", env=self.env)
        self.assertEqual(whole, (self.folder / "parts" / "checkpoint.safetensors").read_bytes())
        self.assertEqual(log, test_train.lines(self.folder / "parts"))
        self.assertEqual((self.folder / "gpu" / "model.onnx").read_bytes(), (self.folder / "parts" / "model.onnx").read_bytes())
        # or on the CPU, with other bits
        self.refused("train", self.short("mixed.json", seed=9), "--resume", env=self.env, says="config differs")
        self.unisono("train", self.short("mixed.json", device="cpu"), "--resume")
        last, near = (test_train.lines(self.folder / name)[-1] for name in ("mixed", "gpu"))
        self.assertAlmostEqual(last["validation_loss"], near["validation_loss"], delta=0.03)

    def test_a_page_of_a_step(self):
        self.unisono("train", self.short("plain.json"), env=self.env)
        self.unisono("train", self.short("shown.json"), "--html", "page.html", env=self.env)
        self.assertEqual(*[(self.folder / name / "checkpoint.safetensors").read_bytes() for name in ("plain", "shown")])
        data = browser.data_of((self.folder / "page.html").read_text())
        self.assertTrue(data["measured"] and data["complete"] and data["precision"])
        for launch in data["launches"]:
            self.assertIn("measured_us", launch, launch["what"])
            self.assertTrue("compiled" in launch or "source" not in launch, launch["what"])
        self.assertTrue(any("compiled" in launch for launch in data["launches"]))

    def test_devices_that_are_none(self):
        for device in ("gpu", "cuda:", "cuda:x", "cuda:-1", "cuda1", "CUDA", ""):
            self.refused("train", self.short("c.json", device=device), says=(f'c.json: device is "{device}"; expected "cpu", "cuda", or "cuda:"'))
        self.refused("train", self.short("c.json", device="cuda:7"), env=self.env, says="7")
        none = dict(self.env, UNISONO_FAKE_NO_GPU="1")
        self.refused("train", self.short("c.json"), env=none, code=NO_DEVICE, says=("c.json: device is \"cuda\": ", '"cpu" needs none'))


if __name__ == "__main__":
    main()
