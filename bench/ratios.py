"""What is compared of a case of a suite's results: its peers' times over Unisono's."""
import math

BARE_PEERS = ("cudnn", "cublaslt_bare")  # beside an epilogue, they do less than the case


def geomean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


def ran(suite):
    return [c for c in suite["cases"] if "error" not in c]


def rivals(case):
    """Peers that do the same work: all for a bare convolution, PyTorch's where an epilogue follows."""
    right = lambda p: case.get("peer_checked", {}).get(p, {}).get("agrees", True)
    return {p: us for p, us in case["peers"].items() if (case.get("bare") or p not in BARE_PEERS) and right(p)}


def speedup(case):
    """How much longer the best rival takes; None without one."""
    times = rivals(case).values()
    return min(times) / case["unisono_us"] if times else None


def hot_speedup(case):
    """The same under a load without pauses; None unless all were measured so."""
    times = [case.get("peers_hot", {}).get(p) for p in rivals(case)]
    return min(times) / case["unisono_hot_us"] if times and None not in times and "unisono_hot_us" in case else None


def over_bare(case):
    return case["unisono_us"] / case["unisono_bare_us"] if "unisono_bare_us" in case and not case.get("bare") else None


def network_speedup(case):
    return case["peers"]["max_autotune"] / case["unisono_us"]
