"""Figures of a trace: what is drawn, in which words, and whether it can be read in grey."""

import base64
import itertools
import subprocess
import sys

import pytest
from tiny_planner import TinyPlanner

from minivllm.plots import Picture, plot_block_pool, plot_block_table, plot_requests
from minivllm.trace import Trace

matplotlib = pytest.importorskip("matplotlib")

from matplotlib.colors import to_rgb  # noqa: E402
from matplotlib.patches import Rectangle  # noqa: E402
from matplotlib.text import Text  # noqa: E402


def run_of(num_requests=2, num_blocks=4, **settings):
    """A trace of prompts of 7 tokens, 4 new ones each; with the defaults, one is preempted."""
    planner = TinyPlanner(num_blocks, tracing=True, **settings)
    planner.trace.num_blocks, planner.trace.block_size = num_blocks, 4
    for number in range(num_requests):
        planner.add("abcdefghijklmnopqrstuvwxyz"[number % 26] * (1 + number // 26), 7, max_tokens=4)
    planner.run_to_end()
    return planner.trace


def hitting_run():
    """`b` hits the two first blocks of `a`."""
    planner = TinyPlanner(8, tracing=True)
    planner.trace.num_blocks, planner.trace.block_size = 8, 4
    planner.add("a", list(range(9)), max_tokens=2)
    planner.step()
    planner.add("b", list(range(9)), max_tokens=2)
    planner.run_to_end()
    return planner.trace


def all_pictures():
    trace = run_of()
    return [
        plot_requests(trace),
        plot_requests(run_of(40, 200, max_num_seqs=2)),
        plot_block_pool(trace),
        plot_block_pool(run_of(40, 200, max_num_seqs=2)),
        plot_block_table(hitting_run(), "b", 1),
        plot_block_table(run_of(1, 200), "a", 2),
    ]


@pytest.fixture(scope="module")
def pictures():
    return all_pictures()


def cells(picture):
    """`(x, y, width, height)`, face colour, hatch of each rectangle on the axes."""
    patches = [p for p in picture.figure.axes[0].patches if isinstance(p, Rectangle)]
    return [(p.get_bbox().bounds, p.get_facecolor(), p.get_hatch()) for p in patches]


def labels(picture):
    return [text.get_text() for text in picture.figure.axes[0].get_legend().get_texts()]


def texts(picture):
    return [text.get_text() for text in picture.figure.axes[0].texts]


def test_requests_by_hand():
    picture = plot_requests(run_of())
    assert picture.summary == "2 requests in 6 steps, 1 of them preempted."
    assert picture.alt == (
        "2 requests in 6 steps, 1 of them preempted. "
        "Request a: prefill in step 0, decode in steps 1 to 3. "
        "Request b: prefill in step 0, decode in step 1, preempted in steps 2 to 3, "
        "prefill in step 4, decode in step 5."
    )
    assert texts(picture) == ["7", "1", "1", "1", "7", "1", "5", "1"]
    assert labels(picture) == ["prefill", "decode", "preempted"]
    boxes = sorted((x, round(y)) for (x, y, _, _), _, _ in cells(picture))
    assert boxes == [*((x, y) for x in range(4) for y in (0, 1)), (4, 1), (5, 1)]


def test_a_chunk_and_an_abort_are_in_the_legend():
    planner = TinyPlanner(tracing=True, max_num_batched_tokens=4)
    planner.add("a", 6)
    planner.step()
    planner.step()
    planner.scheduler.abort(["a"])
    picture = plot_requests(planner.trace)
    assert labels(picture) == ["prefill", "prefill, only a chunk", "aborted"]
    assert picture.summary == "1 request in 2 steps, none of them preempted."


def test_many_steps_are_bars_without_numbers():
    trace = run_of(40, 200, max_num_seqs=2)
    picture = plot_requests(trace)
    assert texts(picture) == []
    assert len(cells(picture)) == 40 * 2  # a prefill and the decodes of each


def test_pool_by_hand():
    picture = plot_block_pool(run_of())
    heights = [height for (_, _, _, height), _, _ in cells(picture)]
    # b gives two blocks back in step 2: a evicts one, the other stays cached. In step 4, b hits it
    # and takes two of a's three; the first of a's stays cached.
    used, cached, empty = heights[:6], heights[6:12], heights[12:]
    assert used == [4, 4, 3, 3, 3, 3]
    assert cached == [0, 0, 1, 1, 1, 1]
    assert empty == [0] * 6
    assert picture.summary == (
        "Of 4 blocks, at most 4 are in use, first in step 0; 2 cached blocks evicted."
    )
    assert labels(picture) == ["in use", "free, still cached", "free, empty", "evicted"]


def test_pool_of_unknown_size_must_be_told():
    trace = run_of()
    trace.num_blocks = None
    with pytest.raises(ValueError, match="num_blocks"):
        plot_block_pool(trace)
    assert plot_block_pool(trace, 4).summary.startswith("Of 4 blocks")


def test_block_table_by_hand():
    picture = plot_block_table(hitting_run(), "b", 1)
    assert picture.alt == (
        "In step 1 the 3 logical blocks of request b lie in the physical blocks 0, 1, 3, "
        "in this order. The first 2 are prefix-cache hits."
    )
    assert texts(picture) == [*map(str, range(8)), "0", "1", "2", "0-3", "4-7", "8"]
    logical = [hatch for (_, y, _, _), _, hatch in cells(picture) if y < 1]
    assert logical == ["//", "//", ""]
    assert [line.get_linestyle() for line in picture.figure.axes[0].lines] == [":", ":", "-"]


def test_block_table_of_a_large_pool_shows_only_its_own_blocks():
    picture = plot_block_table(run_of(1, 200), "a", 2)
    assert texts(picture) == ["0", "1", "2", "0", "1", "2", "0-3", "4-7", "8"]


def test_an_empty_trace_is_an_error_that_says_what_to_do():
    for plot in (plot_requests, lambda trace: plot_block_pool(trace, 4)):
        with pytest.raises(ValueError, match="generate something with trace=True"):
            plot(Trace())


@pytest.mark.parametrize("index", range(6))
def test_figure_fits_a_page_and_can_be_read(pictures, index):
    picture = pictures[index]
    assert picture.figure.get_figwidth() <= 8
    picture.figure.canvas.draw()
    visible = [t for t in picture.figure.findobj(Text) if t.get_visible() and t.get_text()]
    assert visible
    assert min(text.get_fontsize() for text in visible) >= 10


@pytest.mark.parametrize("index", range(6))
def test_states_differ_in_grey(pictures, index):
    """By hatching, or by at least a fifth of the way from black to white."""
    seen = {(to_rgb(face), hatch or "") for _, face, hatch in cells(pictures[index])}
    assert seen
    for (face, hatch), (other, other_hatch) in itertools.combinations(seen, 2):
        assert hatch != other_hatch or abs(luma(face) - luma(other)) >= 0.2


def luma(color):
    red, green, blue = color
    return 0.299 * red + 0.587 * green + 0.114 * blue


@pytest.mark.parametrize("index", range(6))
def test_alt_text_begins_with_one_sentence(pictures, index):
    picture = pictures[index]
    assert picture.alt.startswith(picture.summary)
    assert len(picture.alt) > len(picture.summary)
    assert picture.summary.count(". ") == 0
    assert picture.summary.endswith(".")


def test_picture_is_saved_and_shown_with_its_alt_text(tmp_path):
    picture = plot_requests(run_of())
    picture.save(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    data, metadata = picture._repr_mimebundle_()
    assert base64.b64decode(data["image/png"]).startswith(b"\x89PNG")
    assert data["text/plain"] == metadata["image/png"]["alt"] == picture.alt


def test_drawing_leaves_no_figure_behind():
    from matplotlib import pyplot

    assert isinstance(plot_requests(run_of()), Picture)
    assert pyplot.get_fignums() == []


def test_matplotlib_is_loaded_only_to_draw():
    code = "import sys, minivllm.plots; assert 'matplotlib' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_matplotlib_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"pip install 'minivllm\[course\]'"):
        plot_requests(run_of())
