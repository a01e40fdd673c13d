"""The block pool over time, and the block table of a request in one step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from minivllm.plots.picture import (
    BLUE,
    FONT_SIZE,
    ORANGE,
    SKY_BLUE,
    WHITE,
    Picture,
    box,
    columns_of,
    count,
    has_room,
    label_steps,
    legend,
    new_axes,
)
from minivllm.trace import Trace
from minivllm.trace.replay import PoolState, TableEntry, block_table, num_written, pool_states

_MAX_BLOCKS = 24  # of a table or pool, so that a number fits into each box
_MAX_LABELLED = 8  # logical blocks up to which there is room for their tokens


def plot_block_pool(trace: Trace, num_blocks: int | None = None) -> Picture:
    """How many blocks are in use, free but still cached, or empty, over the steps.

    Args:
        trace: Recorded from the first step of an engine on.
        num_blocks: The size of the pool; `None` takes what the trace says.

    Raises:
        ValueError: Nothing ran in this trace, or the size of the pool is not known.
    """
    num_blocks = num_blocks if num_blocks is not None else trace.num_blocks
    if num_blocks is None:
        raise ValueError("the trace does not say how large the pool is: give num_blocks=...")
    columns, states = columns_of(trace), pool_states(trace)
    figure, axes = new_axes(height=3.2)
    used = [state.num_used for state in states.values()]
    cached = [state.num_cached for state in states.values()]
    empty = [num_blocks - a - b for a, b in zip(used, cached, strict=True)]
    looks = {"in use": BLUE, "free, still cached": ORANGE, "free, empty": WHITE}
    bottom = [0] * len(states)
    for heights, look in zip((used, cached, empty), looks.values(), strict=True):
        places = [step + 0.5 for step in states]
        linewidth = 0.8 if has_room(columns) else 0
        axes.bar(places, heights, 1, bottom, linewidth=linewidth, **look.style)
        bottom = [a + b for a, b in zip(bottom, heights, strict=True)]
    evictions = {step: state.num_evicted for step, state in states.items() if state.num_evicted}
    for step, number in evictions.items():
        axes.plot(step + 0.3, num_blocks * 1.07, "v", color="black")
        if has_room(columns):
            axes.text(step + 0.5, num_blocks * 1.07, str(number), va="center", fontsize=FONT_SIZE)
    axes.set_ylim(0, num_blocks * 1.14)
    axes.set_ylabel("blocks", fontsize=FONT_SIZE)
    axes.locator_params(axis="y", integer=True)
    label_steps(axes, columns)
    legend(axes, looks, {"evicted": "v"} if evictions else None)
    summary = _pool_summary(states, num_blocks)
    details = (
        f"A stacked bar for each step. In the last one, step {max(states)}, {used[-1]} are in use, "
        f"{cached[-1]} free but still cached, {empty[-1]} empty."
    )
    return Picture(figure, summary, f"{summary} {details}")


def _pool_summary(states: Mapping[int, PoolState], num_blocks: int) -> str:
    peak_step = max(states, key=lambda step: states[step].num_used)
    num_evicted = sum(state.num_evicted for state in states.values())
    return (
        f"Of {count(num_blocks, 'block')}, at most {states[peak_step].num_used} are in use, first "
        f"in step {peak_step}; {count(num_evicted, 'cached block')} evicted."
    )


def plot_block_table(trace: Trace, request_id: str, step: int) -> Picture:
    """Where the tokens of a request lay while `step` ran: logical to physical blocks.

    Of a table with more than 24 blocks, the first 24 are drawn.

    Raises:
        ValueError: The request has no blocks in that step, or the trace knows no block size.
    """
    table = block_table(trace, request_id, step)
    shown = table[:_MAX_BLOCKS]
    is_small_pool = trace.num_blocks is not None and trace.num_blocks <= _MAX_BLOCKS
    pool = range(trace.num_blocks or 0) if is_small_pool else sorted(e.block_id for e in shown)
    figure, axes = new_axes(height=2.6)
    logical_x = (len(pool) - len(shown)) / 2  # the table stands in the middle, over the pool
    own = {entry.block_id: SKY_BLUE if entry.is_hit else BLUE for entry in shown}
    for x, block_id in enumerate(pool):
        box(axes, (x, 2), 1, own.get(block_id, WHITE), str(block_id))
    for index, entry in enumerate(shown):
        box(axes, (logical_x + index, 0), 1, own[entry.block_id], str(index))
        ends = (logical_x + index + 0.5, pool.index(entry.block_id) + 0.5)
        axes.plot(ends, (0.92, 2.08), ":" if entry.is_hit else "-", color="black")
    rows = {"logical block": 0.5, "physical block": 2.5}
    if len(shown) <= _MAX_LABELLED:
        for index, tokens in enumerate(_token_ranges(trace, request_id, step)):
            middle = logical_x + index + 0.5
            axes.text(middle, -0.1, tokens, ha="center", va="bottom", fontsize=FONT_SIZE)
        rows["tokens"] = -0.25
    axes.set(xlim=(-0.05, len(pool) + 0.05), ylim=(3, -0.6), xticks=[])
    axes.set_yticks(list(rows.values()), list(rows))
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    looks = {"prefix-cache hit": SKY_BLUE, "filled by this request": BLUE}
    legend(axes, {**looks, "not in this table": WHITE} if is_small_pool else looks)
    summary = _table_summary(request_id, step, table)
    num_hits = sum(entry.is_hit for entry in table)
    details = f"The first {num_hits} are prefix-cache hits." if num_hits else "None is a hit."
    return Picture(figure, summary, f"{summary} {details}")


def _token_ranges(trace: Trace, request_id: str, step: int) -> Iterator[str]:
    """For each block of the table, which tokens it holds, "8-11" or "12"; none for an empty one."""
    assert trace.block_size is not None, "block_table has checked it"
    num_tokens = num_written(trace, request_id, step)
    for start in range(0, num_tokens, trace.block_size):
        last = min(start + trace.block_size, num_tokens) - 1
        yield f"{start}-{last}" if last > start else str(last)


def _table_summary(request_id: str, step: int, table: Sequence[TableEntry]) -> str:
    names = ", ".join(str(entry.block_id) for entry in table)
    return (
        f"In step {step} the {count(len(table), 'logical block')} of request {request_id} lie in "
        f"the physical blocks {names}, in this order."
    )
