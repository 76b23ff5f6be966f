"""One network of the catalogue. Nothing here imports PyTorch: makers do so when they are called."""
import dataclasses
import functools
import hashlib
import inspect
import pathlib
from collections.abc import Callable

SCRIPTS = pathlib.Path(__file__).parents[2]
# what else a network's files and references are made of
SHARED = ("networks/catalogue/wrap.py", "networks/catalogue/named.py", "networks/randomise.py", "networks/widened.py",
          "networks/export.py")
REQUIREMENTS = "requirements-networks.txt"
EXPORTING = ("torch", "onnx", "onnxscript")  # packages that every network is made with


@functools.cache
def text_of(name):
    return (SCRIPTS / name).read_text()


@dataclasses.dataclass(frozen=True)
class Entry:
    library: str
    name: str
    maker: Callable  # (*arguments) -> (module, {input: tensor}); of rapidocr, the file and its inputs
    arguments: tuple = ()
    convolutional: bool = True  # counts in the geometric mean of times beside ONNX Runtime
    open: str = ""  # which extents of a second export stay open: "n" the batch, "nhw" an image's size too
    large: bool = False  # gigabytes of weights: run with --large
    gpu_batch: int = 0  # times its batch on a GPU; 0: as the run says

    def key(self):
        """A hash of everything that this network's files are made of."""
        text = inspect.getsource(self.maker) + repr((self.name, self.arguments, self.open))
        text += "".join(map(text_of, SHARED)) + self.packages()
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def packages(self):
        """The versions of what this network is made with: another library's version is no reason to judge it again."""
        wanted = {package.lower() for package in (*EXPORTING, self.library)}
        lines = text_of(REQUIREMENTS).splitlines()
        return "\n".join(line for line in lines if line.split("==")[0].lower() in wanted)
