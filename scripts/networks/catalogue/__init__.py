"""Every network that is exported and judged, by name."""
from . import diffusers, full_size, rapidocr, segmentation, timm, torchvision, transformers

ENTRIES = {}
for _library in (torchvision, timm, diffusers, transformers, segmentation, rapidocr):
    for _entry in _library.ENTRIES:
        # two libraries may have a network of one name
        _name = _entry.name if _entry.name not in ENTRIES else f"{_entry.library}_{_entry.name}"
        ENTRIES[_name] = _entry

# at the sizes at which they are run on a GPU; too large for a list that a CPU goes through
GPU_ENTRIES = ENTRIES | {entry.name: entry for entry in full_size.ENTRIES}
