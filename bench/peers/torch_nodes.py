"""What a captured CUDA graph of PyTorch holds: its nodes, how they wait for one another, and the time of each kernel.

An edge is programmatic where the later kernel may start while the earlier one ends (programmatic dependent launch). A
node between two kernels, such as a memset, makes their edges full.
"""
import collections
import ctypes

import torch

KINDS = ("kernel", "memcpy", "memset", "host", "graph", "empty", "wait for an event", "record of an event", "signal of a semaphore",
         "wait for a semaphore", "allocation", "free", "batch of memory operations", "conditional")
EDGES = ("full", "programmatic")


class Edge(ctypes.Structure):
    """CUgraphEdgeData."""

    _fields_ = [("from_port", ctypes.c_ubyte), ("to_port", ctypes.c_ubyte), ("type", ctypes.c_ubyte), ("reserved", ctypes.c_ubyte * 5)]


def _checked(code, what):
    if code != 0:
        raise RuntimeError(f"{what}: the driver's error {code}")


def captured(function, stream):
    """The graph of one call, which is kept beside what is replayed."""
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(graph, stream=stream):
        function()
    graph.instantiate()
    return graph


def nodes_of(graph):
    """Counts of nodes by kind, and of edges by type."""
    driver, handle, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(graph.raw_cuda_graph()), ctypes.c_size_t()
    _checked(driver.cuGraphGetNodes(handle, None, ctypes.byref(count)), "counting nodes")
    nodes = (ctypes.c_void_p * count.value)()
    _checked(driver.cuGraphGetNodes(handle, nodes, ctypes.byref(count)), "asking for nodes")
    kinds = collections.Counter()
    for node in nodes:
        kind = ctypes.c_int()
        _checked(driver.cuGraphNodeGetType(ctypes.c_void_p(node), ctypes.byref(kind)), "asking for a node's kind")
        kinds[KINDS[kind.value] if kind.value < len(KINDS) else str(kind.value)] += 1
    _checked(driver.cuGraphGetEdges_v2(handle, None, None, None, ctypes.byref(count)), "counting edges")
    ends, data = ((ctypes.c_void_p * count.value)() for _ in range(2)), (Edge * count.value)()
    _checked(driver.cuGraphGetEdges_v2(handle, *ends, data, ctypes.byref(count)), "asking for edges")
    edges = collections.Counter(EDGES[e.type] if e.type < len(EDGES) else str(e.type) for e in data)
    return {"nodes": dict(kinds), "edges": dict(edges)}


def kernels_of(graph, replays=20):
    """Of each kernel of a replay, in order: its name, and the medians over replays of its microseconds and of those from the
    start of the first kernel to its own. Kernels overlap where edges are programmatic."""
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(replays):
            graph.replay()
            torch.cuda.synchronize()
    events = sorted((e for e in profile.events() if e.device_type == torch.autograd.DeviceType.CUDA), key=lambda e: e.time_range.start)
    if not events or len(events) % replays:
        return [{"name": f"the profiler saw {len(events)} kernels of {replays} replays"}]
    each = len(events) // replays
    runs = [events[i * each:(i + 1) * each] for i in range(replays)]

    def median(of):
        return round(sorted(of)[replays // 2], 2)

    return [{"name": runs[0][i].name[:100], "us": median([run[i].time_range.elapsed_us() for run in runs]),
             "begins": median([run[i].time_range.start - run[0].time_range.start for run in runs])} for i in range(each)]

