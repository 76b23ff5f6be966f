"""Help, version, wrong usage, and output that cannot be written."""

import os
import re
import signal
import subprocess

from command import COMMAND, SOURCES, Case, WRONG, main

COMMANDS = ("run", "explain", "doctor", "demo", "cache", "bench")


class Usage(Case):
    def test_help_has_examples_and_exit_codes(self):
        out, error = self.unisono("--help")
        self.assertEqual(error, "")
        self.assertIn("Exit codes:", out)
        for command in COMMANDS:
            self.assertIn(command, out)
            text, error = self.unisono(command, "--help")
            self.assertEqual(error, "")
            self.assertIn("Examples:\n  unisono " + command, text.replace("echo", "unisono " + command))
            self.assertIn("--json", text)

    def test_version(self):
        version = re.search(r"^project\(unisono VERSION ([\d.]+) ", (SOURCES / "CMakeLists.txt").read_text(), re.M)[1]
        self.assertEqual(self.unisono("--version")[0], f"unisono {version}\n")
        self.assertEqual(self.json("doctor")["version"], version)

    def test_wrong_usage(self):
        self.refused(says="no command was given; expected one of run, explain")
        self.refused("dance", says="dance")
        self.refused("doctor", "--deep", says="--deep")
        self.refused("explain", says="SUBJECT")
        self.refused("run", "--devise", "cuda", says="unknown option '--devise'; did you mean '--device'?")
        self.refused("run", "x.onnx", "--image", "a.png", "--randon", says="unknown option '--randon'; did you mean '--random'?")
        self.refused("run", "x.onnx", says="--image")
        self.refused("run", "x.onnx", "--random", "--image", "a.png")
        self.refused("run", "x.onnx", "--random", "--dim", "batch", says=("--dim", "'batch'"))
        self.refused("run", "x.onnx", "--random", "--threads", "-3", says="--threads")

    def test_values_that_are_none(self):
        """An empty text is not an absent value, and no error prints the largest number of a type."""
        model = ("run", "model.onnx", "--random")
        for arguments, message in (((*model, "--memory-limit", ""), "--memory-limit: expected a value; found an empty text"),
                                   (("cache", "prune", "--older-than", ""), "--older-than: expected a value; found an empty text"),
                                   (("explain", "store acc as y", "--svg", ""), "--svg: expected a value; found an empty text"),
                                   ((*model, "--seed", "-1"), "--seed: expected 0 or more; found -1"),
                                   ((*model, "--std", "0"), "--std: expected numbers above 0; found '0'"),
                                   (("bench", "cases.txt", "--copy-tbps", "-1"), "--copy-tbps: expected 1e-06 to 1000000; found -1")):
            self.refused(*arguments, says=message)

    def test_full_disk_is_reported(self):
        with open("/dev/full", "w") as full:
            result = subprocess.run([COMMAND, "explain", "store acc : f32"], stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual(result.returncode, WRONG)
        self.assertIn("No space left on device", result.stderr)

    def test_closed_output_is_reported(self):
        result = subprocess.run([COMMAND, "explain", "store acc : f32"], stderr=subprocess.PIPE, text=True,
                                preexec_fn=lambda: os.close(1))
        self.assertEqual(result.returncode, WRONG)
        self.assertIn("standard output", result.stderr)

    def without_reader(self, **options):
        """Runs the command with a pipe that nobody reads as its standard output."""
        reader, writer = os.pipe()
        os.close(reader)
        result = subprocess.run([COMMAND, "explain", "store acc : f32"], stdout=writer, stderr=subprocess.PIPE, text=True,
                                **options)
        os.close(writer)
        return result

    def test_reader_that_went_away_ends_it_quietly(self):
        result = self.without_reader()
        self.assertEqual(result.stderr, "")
        self.assertEqual(result.returncode, -signal.SIGPIPE)

    def test_ignored_sigpipe_gives_a_message(self):
        result = self.without_reader(restore_signals=False)  # Python ignores SIGPIPE, and the command inherits that
        self.assertIn("Broken pipe", result.stderr)
        self.assertEqual(result.returncode, WRONG)


if __name__ == "__main__":
    main()
