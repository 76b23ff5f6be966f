"""Has networks made, each in a process of its own."""
import multiprocessing
import shutil

from .kept import read_row

EXPORTERS = ("dynamo", "torchscript")
# libraries are imported once; each network has a process of its own
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["networks.export", "timm", "transformers", "diffusers", "monai.networks.nets",
                                  "segmentation_models_pytorch", "spandrel", "torchaudio"])


def export_network(name, folder, exporters):
    from .export import make
    make(name, folder, exporters)


def made(entry, name, folder, exporters, limit_s):
    """about.json of a network, which is made first if need be."""
    about = read_row(folder / "about.json")
    if about and about["key"] == entry.key() and set(exporters) <= set(about["exporters"]):
        return about
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    process = PROCESSES.Process(target=export_network, args=(name, folder, exporters))
    process.start()
    process.join(limit_s)
    failure = f"exit code {process.exitcode}" if process.exitcode else ""
    if process.is_alive():
        process.kill()
        process.join()
        failure = f"took more than {limit_s} s"
    if failure:
        tail = (folder / "export.log").read_text().strip().splitlines()[-1:] if (folder / "export.log").exists() else []
        return {"key": entry.key(), "exporters": exporters, "unmade": " ".join([failure, *tail])}
    return read_row(folder / "about.json")
