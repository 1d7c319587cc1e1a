"""Figures of stages/15_wgmma_backward: what reads and writes what, who waits for whom."""

from flow import ADD, READ, WRITE, in_order, reads_and_writes, who_waits
from sources import read

KERNEL = "stages/15_wgmma_backward/kernel_bwd.cuh"


def check():
    """The kernel does what the figures show, in this order."""
    in_order(read(KERNEL), "mbarrier_wait(&full[stage]", "issue_abt<T>(rS, sK", "ptx::exp2",
             "sync_consumers(kProductsDone)", "write_scores(sP)", "issue_abt<T>(rdP, sV", "pair(sP, r0", "write_scores(sdS)",
             "sync_consumers(kScoresWritten)",
             "issue_ab<T>(rdV, sP", "issue_ab<T>(rdK, sdS", "issue_atb<T>(rdQ, sdS", "wgmma_wait<0>();  // All products have",
             "mbarrier_arrive(&empty[stage])", "mbarrier_wait(&storage.dq_empty", "storage.sdQ[C::Dq",
             "mbarrier_arrive(&storage.dq_full)", "sync_consumers(kProductsDone);")


def data():
    """What each step of a tile reads and writes."""
    steps = (
        ("TMA copies", {"sQ": WRITE, "sdO": WRITE}),
        ("Sᵀ = K Qᵀ", {"sK": READ, "sQ": READ, "rS": WRITE}),
        ("P = exp(S − LSE)", {"sP": WRITE, "rS": READ}),
        ("dPᵀ = V dOᵀ", {"sV": READ, "sdO": READ, "rdP": WRITE}),
        ("dS = P ∘ (dP − delta)", {"sP": READ, "sdS": WRITE, "rdP": READ}),
        ("dV += Pᵀ dO", {"sdO": READ, "sP": READ, "rdV": ADD}),
        ("dK += dSᵀ Q", {"sQ": READ, "sdS": READ, "rdK": ADD}),
        ("dQ = dS K", {"sK": READ, "sdS": READ, "rdQ": WRITE}),
        ("dQ handed on", {"sdQ": WRITE, "rdQ": READ}),
        ("TMA adds to dQ", {"sdQ": READ}),
    )
    return reads_and_writes(
        "15_data", "What reads and writes what, in a tile",
        "For each step of a tile of queries the places it reads and writes. In shared memory: K and V"
        " for all tiles; Q and dO from their copies to the products with dK and dV; P and dS, which both"
        " consumers write between two barriers; dQ until TMA has added it. In registers: S until P is"
        " there, dP until dS is, dV and dK in all tiles, and dQ until it is handed on.",
        (("shared memory", ("sK", "sV", "sQ", "sdO", "sP", "sdS", "sdQ")),
         ("registers", ("rS", "rdP", "rdV", "rdK", "rdQ"))),
        steps, meetings=((2, ""), (5, "")),
        notes=("Red: the consumers wait for each other, at kProductsDone before P is",
               "written and at kScoresWritten when dS has been written."))


def waits():
    """Who waits for whom."""
    return who_waits(
        "15_waits", "Who waits for whom",
        "The producer waits at empty until the eight warps of both consumers have read a buffer; the"
        " consumers wait at full until a tile of Q and dO has arrived. Twice a tile the consumers wait for"
        " each other, before they write P and when they have written dS. A thread waits at dq_full for"
        " the dQ of both, and the consumers at dq_empty until TMA has read it.",
        (("red", 0, "kProductsDone", "products have read P and dS"),
         ("red", 0, "kScoresWritten", "both have written P and dS")),
        ("one thread adds", "each tile of dQ"),
        (("full[stage]", "34 arrivals: Q, dO, LSE and delta are there"),
         ("empty[stage]", "8 arrivals: both have read Q and dO"),
         ("dq_full", "8 arrivals: both have written sdQ"),
         ("dq_empty", "1 arrival: TMA has read sdQ")),
        notes=("An arrow goes from those that arrive to those that wait. Not shown:",
               "kv_full, at which both consumers wait once for K and V."))


check()
FIGURES = [data(), waits()]
