"""Figures of stages/12_warp_specialized: what the warpgroups do in time, and their registers."""

from drawing import Figure, LEFT, SMALL
from sources import integer
from timeline import figure_of

KERNEL = "stages/12_warp_specialized/kernel.cuh"
PER_SM = 65536


def registers(blocks):
    """Registers of a thread at launch, of a producer, of a consumer; and the threads of a block."""
    consumers, producer = integer(KERNEL, "kConsumers"), integer(KERNEL, "kProducerRegisters")
    threads = 128 * (1 + consumers)
    launch = PER_SM // blocks // threads // 8 * 8
    consumer = ((1 + consumers) * launch - producer) // consumers // 8 * 8
    return launch, producer, consumer, consumers


def roles():
    """The roles in time: a schematic, not a measurement."""
    figure = Figure(
        "12_roles",
        480,
        "Roles of the warps: a schematic, not measured",
        "A schematic without a scale. The producer requests K and V of a tile as soon as a buffer is"
        " empty, ahead of the consumers. Each of the two consumers computes scores, softmax and the"
        " product with V of one tile after the other, and waits for nothing but copies.",
    )
    consumers = [(f"consumer {n}", [part for begin in (first, first + 18) for part in (
        (begin, begin + 5, "blue", "S"), (begin + 5, begin + 13, "green", "softmax"),
        (begin + 13, begin + 18, "blue", "P V"))]) for n, first in enumerate((11, 13))]
    figure.bars(150, 11, 78, (
        ("producer", [(begin, begin + 3, "orange", str(n)) for n, begin in enumerate((0, 4, 31))]),
        ("copy unit", [(begin, begin + 8, "yellow", f"tile {n}") for n, begin in enumerate((3, 11, 34))]),
        *consumers), step=70, high=46)
    figure.legend(LEFT, 386, [("orange", "a request, one thread"), ("yellow", "a copy is under way")])
    figure.legend(LEFT, 416, [("blue", "products of a tile"), ("green", "arithmetic between them")])
    figure.note(LEFT, 452, "No scale. A tile is requested when its buffer is empty.")
    return figure


def budgets():
    """An SM's registers at launch and afterwards."""
    figure = Figure(
        "12_registers",
        500,
        "Registers of a thread, at launch and afterwards",
        " ".join(
            "With {4} block{5} per SM a thread has {0} registers at launch. Then the"
            " producer keeps {1}, and each of the {3} consumers has {2}.".format(
                *registers(blocks), blocks, "s" if blocks > 1 else "")
            for blocks in (1, 2)
        ),
    )
    x, scale, high = 176, 0.98, 42
    for row, (blocks, name) in enumerate(((1, "One block per SM"),
                                          (2, "Two blocks per SM, each of them"))):
        launch, producer, consumer, consumers = registers(blocks)
        y = 96 + 196 * row
        figure.text(LEFT, y - 20, name, SMALL, bold=True)
        figure.text(LEFT, y + high / 2 + 4, "at launch", SMALL)
        figure.text(LEFT, y + high * 1.5 + 20, "afterwards", SMALL)
        at = x
        for group in range(1 + consumers):
            colour = "orange" if group == 0 else "blue"
            figure.box(at, y + 4, scale * launch - 3, high, colour, str(launch), SMALL)
            at += scale * launch
        at = x
        for group in range(1 + consumers):
            colour = "orange" if group == 0 else "blue"
            width = scale * (consumer if group else producer)
            figure.box(at, y + high + 20, max(width - 3, 8), high, colour,
                       str(consumer if group else ""), SMALL)
            at += width
        figure.note(x, y + 2 * high + 36, f"{producer} for the producer")
    figure.legend(LEFT, 470, [("orange", "the producer's 128 threads"), ("blue", "a consumer's 128 threads")])
    return figure


def measured(head_dim):
    """The timelines of this stage and the one before it."""
    return figure_of(
        f"12_timeline_d{head_dim}",
        "Who waits for whom: measured",
        [f"docs/results/nvidia-h200/timeline_{stage}.json"
         for stage in ("11_wgmma", "12_warp_specialized")],
        head_dim,
    )


FIGURES = [roles(), budgets(), measured(64), measured(128)]
