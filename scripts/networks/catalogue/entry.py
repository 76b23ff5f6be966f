"""One network of the catalogue. Nothing here imports PyTorch: makers do so when they are called."""
import dataclasses
import hashlib
import inspect
import pathlib
from collections.abc import Callable

SCRIPTS = pathlib.Path(__file__).parents[2]
# what else a network's files and references are made of
SHARED = ("networks/catalogue/wrap.py", "networks/randomise.py", "networks/widened.py", "networks/export.py",
          "requirements-networks.txt")


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
        text += "".join((SCRIPTS / name).read_text() for name in SHARED)
        return hashlib.sha256(text.encode()).hexdigest()[:16]
