"""Every network that is exported and judged, by name."""
import zlib

from . import (diffusers, diffusion, full_size, language, medical, perception, rapidocr, recurrent, segmentation,
               super_resolution, timm, torchvision, transformers)

ENTRIES = {}
for _library in (torchvision, timm, diffusers, diffusion, transformers, language, perception, segmentation, medical,
                 super_resolution, recurrent, rapidocr):
    for _entry in _library.ENTRIES:
        # two libraries may have a network of one name
        _name = _entry.name if _entry.name not in ENTRIES else f"{_entry.library}_{_entry.name}"
        ENTRIES[_name] = _entry

# at the sizes at which they are run on a GPU; too large for a list that a CPU goes through
GPU_ENTRIES = ENTRIES | {entry.name: entry for entry in full_size.ENTRIES}

# those that a GPU gets from the dynamo exporter, too: one in six, by a hash of the name, so that a new network moves no other
BY_DYNAMO = {name for name, entry in GPU_ENTRIES.items() if zlib.crc32(name.encode()) % 6 == 0 and not entry.large}
