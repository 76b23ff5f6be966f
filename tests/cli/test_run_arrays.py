"""unisono run with arrays of any type: .npy and .npz, in and out."""

import io
import warnings
import zipfile

import onnx_file
from command import WRONG, Case, main, npy, parse_npy, write_npy

BIG = 2**60 + 1


def npz(path, members, method=zipfile.ZIP_STORED):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that are given twice
        with zipfile.ZipFile(path, "w", method) as archive:
            for name, data in members:
                archive.writestr(name, data)


def read_npz(path):
    """{name: (type, shape, values)}"""
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        return {n.removesuffix(".npy"): parse_npy(archive.read(n)) for n in archive.namelist()}


class Arrays(Case):
    def setUp(self):
        super().setUp()
        f = onnx_file
        # picks rows of a table, and the largest column of each
        (self.folder / "pick.onnx").write_bytes(f.model(
            [f.node("Gather", ["table", "ids"], ["rows"], axis=0), f.node("ArgMax", ["rows"], ["best"], axis=1, keepdims=0),
             f.node("Add", ["ids", "ids"], ["twice"])],
            [f.value_info("table", f.FLOAT, [4, 2]), f.value_info("ids", f.INT64, ["count"])],
            [f.value_info("rows", f.FLOAT, ["count", 2]), f.value_info("best", f.INT64, ["count"]),
             f.value_info("twice", f.INT64, ["count"])]))
        self.table = npy((4, 2), [0, 1, 3, 2, 4, 5, 7, 6])
        self.ids = npy((3,), [3, 0, 2], "<i8")

    def pick(self, *arguments, **options):
        return self.unisono("run", "pick.onnx", "--repeat", "0", *arguments, **options)

    def refuse(self, *arguments, **options):
        return self.refused("run", "pick.onnx", *arguments, **options)

    def test_members_bind_by_name_and_outputs_come_back(self):
        for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            npz(self.folder / "in.npz", [("ids.npy", self.ids), ("table.npy", self.table)], method)
            out, error = self.pick("--input", "in.npz", "--out", "out.npz", "--check")
            self.assertNotIn("becomes", error)
            self.assertIn("best (3) int64", out)
            self.assertIn("all 3 values agree", out)
            got = read_npz(self.folder / "out.npz")
            self.assertEqual(got["rows"], ("<f4", (3, 2), (7, 6, 0, 1, 4, 5)))
            self.assertEqual(got["best"], ("<i8", (3,), (0, 1, 1)))
            self.assertEqual(got["twice"], ("<i8", (3,), (6, 0, 4)))

    def test_quotients_of_integers_are_checked_as_such(self):
        f = onnx_file
        (self.folder / "divide.onnx").write_bytes(f.model(
            [f.node("Div", ["a", "b"], ["q"])], [f.value_info("a", f.INT64, [4]), f.value_info("b", f.INT64, [4])],
            [f.value_info("q", f.INT64, [4])]))
        npz(self.folder / "in.npz", [("a.npy", npy((4,), [-7, 7, 9, -1], "<i8")), ("b.npy", npy((4,), [2, -2, 4, 3], "<i8"))], zipfile.ZIP_STORED)
        out, _ = self.unisono("run", "divide.onnx", "--input", "in.npz", "--out", "q.npz", "--check", "--repeat", "0")
        self.assertIn("all 4 values agree", out)
        self.assertEqual(read_npz(self.folder / "q.npz")["q"], ("<i8", (4,), (-3, -3, 2, 0)))

    def test_integers_keep_every_bit(self):
        f = onnx_file
        (self.folder / "add.onnx").write_bytes(f.model(
            [f.node("Add", ["x", "x"], ["y"])], [f.value_info("x", f.INT64, [1])], [f.value_info("y", f.INT64, [1])]))
        write_npy(self.folder / "x.npy", (1,), [BIG], "<i8")
        self.unisono("run", "add.onnx", "--input", "x.npy", "--out", "y.npy")
        self.assertEqual(parse_npy((self.folder / "y.npy").read_bytes()), ("<i8", (1,), (2 * BIG,)))
        self.refused("run", "add.onnx", "--input", "x.npy", "--check", code=3, says=("cannot hold", str(2 * BIG), "--check"))

    def test_conversions_are_announced(self):
        npz(self.folder / "in.npz", [("table.npy", npy((4, 2), [0.1] * 8, "<f8")), ("ids.npy", npy((1,), [2], "<i4"))])
        shown = self.json("run", "pick.onnx", "--repeat", "0", "--input", "in.npz")
        self.assertEqual(len(shown["notes"]), 2)
        error = self.pick("--input", "in.npz")[1]
        for words in ("'table' ('in.npz:table.npy'): float64 becomes float32; 8 of 8 values are rounded",
                      "'ids' ('in.npz:ids.npy'): int32 becomes int64; every value is kept"):
            self.assertIn(words, error)

    def test_values_that_the_type_lacks_are_refused(self):
        write_npy(self.folder / "table.npy", (4, 2), [2**24 + 1] * 8, "<i8")
        write_npy(self.folder / "ids.npy", (2,), [1, 0.5], "<f8")
        write_npy(self.folder / "good.npy", (1,), [1], "<i8")
        self.refuse("--input", "table=table.npy", "--input", "ids=good.npy", says=("16777217", "element 0", "float32"))
        (self.folder / "table.npy").write_bytes(self.table)
        self.refuse("--input", "table=table.npy", "--input", "ids=ids.npy", says=("0.5", "element 1", "int64"))

    def test_errors_list_the_inputs(self):
        (self.folder / "table.npy").write_bytes(self.table)
        (self.folder / "ids.npy").write_bytes(self.ids)
        listed = ("table: float32 (4,2)", "ids: int64 (count)")
        self.refuse("--input", "table=table.npy", says=("'ids' is not given", *listed))
        self.refuse("--input", "table.npy", says=("which input", *listed))
        self.refuse("--input", "x=table.npy", says=("no input 'x'", *listed))
        self.refuse("--input", "table=ids.npy", says=("given as int64 (3)", "expected float32 (4,2)", *listed))
        npz(self.folder / "in.npz", [("y.npy", self.table)])
        self.refuse("--input", "in.npz", says=("holds 'y'", *listed))
        self.refuse("--input", "table=table.npy", "--input", "ids=table.npy", "--out", "o.npy", says="expected int64")
        self.refuse("--input", "table=table.npy", "--input", "ids=ids.npy", "--out", "o.npy", says=("3 outputs", ".npz"))

    def test_hostile_archives(self):
        cases = {
            "two members": [("ids.npy", self.ids), ("ids.npy", self.ids)],
            "'..'": [("../ids.npy", self.ids)],
            "absolute": [("/tmp/ids.npy", self.ids)],
            "not an .npy file": [("readme.txt", b"text")],
            "limit": [("ids.npy", npy((1 << 30,), [], "<i8"))],
        }
        for words, members in cases.items():
            npz(self.folder / "bad.npz", members)
            self.refuse("--input", "bad.npz", says=("bad.npz", words))
        npz(self.folder / "bad.npz", [("ids.npy", self.ids)], zipfile.ZIP_BZIP2)
        self.refuse("--input", "bad.npz", says=("method 12", "deflated"))
        with zipfile.ZipFile(self.folder / "bad.npz", "w", zipfile.ZIP_DEFLATED) as archive:
            with archive.open("ids.npy", "w", force_zip64=True) as member:
                for _ in range(1025):
                    member.write(bytes(1 << 20))
        self.refuse("--input", "bad.npz", says=("takes 1074790400 bytes", "limit"))
        for data in (b"", b"PK", b"PK\x05\x06", (self.folder / "bad.npz").read_bytes()[:500]):
            (self.folder / "bad.npz").write_bytes(data)
            self.refuse("--input", "bad.npz", says="bad.npz")

    def test_what_a_terminal_would_obey_is_written_out(self):
        evil = "\x1b]0;pwned\x07\x1b[31m"
        header = repr({"descr": "<f4", "fortran_order": False, "shape": (1,)}).replace("<f4", evil + "<f4").encode()
        (self.folder / "evil.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(4))
        npz(self.folder / "evil.npz", [(evil + ".npy", self.ids)])
        f = onnx_file
        self.assertNotIn("\x1b", self.refuse("--input", "ids=evil.npy", says="\\x1b]0;pwned"))
        self.assertNotIn("\x1b", self.refuse("--input", "evil.npz", says="evil.npz"))
        for name, shape, command in ((evil, [1], "explain"), ("\u009b31mred\u202e", [2], "run"), ("\u009b31mred\u202e", [1], "explain")):
            (self.folder / "evil.onnx").write_bytes(f.model([f.node("Relu", [name], ["y"])], [f.value_info(name, f.FLOAT, [1])],
                                                            [f.value_info("y", f.FLOAT, shape)]))
            out, error = self.unisono(command, "evil.onnx", *(["--random"] if command == "run" else []), code=None)
            for character in "\x1b\x9b\u202e":
                self.assertNotIn(character, out + error)
        self.assertIn("\\x9b31mred\\u202e", out)

    def test_archives_from_a_pipe_have_sizes_behind_the_data(self):
        class Pipe(io.RawIOBase):
            data = b""

            def writable(self):
                return True

            def write(self, data):
                self.data += bytes(data)
                return len(data)
        pipe = Pipe()
        npz(pipe, [("ids.npy", self.ids), ("table.npy", self.table)], zipfile.ZIP_DEFLATED)
        (self.folder / "in.npz").write_bytes(pipe.data)
        self.pick("--input", "in.npz")

    def test_random_integers(self):
        out, error = self.pick("--random", "--dim", "count=5", "--check")
        self.assertIn("'ids' takes int64: random zeros and ones", error)
        self.assertIn("rows (5,2) float32", out)

    def test_halves(self):
        f = onnx_file
        (self.folder / "half.onnx").write_bytes(f.model(
            [f.node("Relu", ["x"], ["y"])], [f.value_info("x", f.FLOAT16, [2])], [f.value_info("y", f.FLOAT16, [2])]))
        write_npy(self.folder / "x.npy", (2,), [-1, 1.5])
        error = self.unisono("run", "half.onnx", "--input", "x.npy", "--out", "y.npz", "--check")[1]
        self.assertIn("float32 becomes float16; every value is kept", error)
        self.assertEqual(read_npz(self.folder / "y.npz")["y"], ("<f2", (2,), (0, 1.5)))
        write_npy(self.folder / "x.npy", (2,), [-1, 1e9])
        self.refused("run", "half.onnx", "--input", "x.npy", says=("1e+09", "float16"))

    def test_images_of_any_network(self):
        from test_run import png
        f = onnx_file
        (self.folder / "grey.png").write_bytes(png(2, 1, (51, 102, 255)))
        for kind, expected in ((f.FLOAT, ("<f4", (0.2, 0.2, 0.4, 0.4, 1, 1))), (f.UINT8, ("|u1", (51, 51, 102, 102, 255, 255)))):
            (self.folder / "same.onnx").write_bytes(f.model(
                [f.node("Identity", ["x"], ["y"])], [f.value_info("x", kind, ["n", 3, "h", "w"])],
                [f.value_info("y", kind, ["n", 3, "h", "w"])]))
            self.unisono("run", "same.onnx", "--image", "grey.png", "--out", "y.npz")
            got = read_npz(self.folder / "y.npz")["y"]
            self.assertEqual(got[0], expected[0])
            for a, b in zip(got[2], expected[1], strict=True):
                self.assertAlmostEqual(a, b, 6)
        self.refused("run", "same.onnx", "--image", "grey.png", "--mean", "0.5", says="as they are")
        (self.folder / "same.onnx").write_bytes(f.model(
            [f.node("Identity", ["x"], ["y"])], [f.value_info("x", f.FLOAT, ["n", 3, "h", "w"])],
            [f.value_info("y", f.FLOAT, ["n", 3, "h", "w"])]))
        self.unisono("run", "same.onnx", "--image", "grey.png", "--mean", "0.2,0.4,0.5", "--std", "0.5", "--out", "y.npy")
        for a, b in zip(parse_npy((self.folder / "y.npy").read_bytes())[2], (0, 0, 0, 0, 1, 1), strict=True):
            self.assertAlmostEqual(a, b, 6)
        self.refused("run", "same.onnx", "--image", "grey.png", "--mean", "0.5,0.5", code=WRONG, says="one a channel")


if __name__ == "__main__":
    main()
