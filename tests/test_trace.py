"""A trace kept in a file, read as text, opened in Perfetto, and what is worked out from it."""

import errno
import json
import random
from typing import get_args

import pytest
from tiny_planner import TinyPlanner

import minivllm.trace
from minivllm.outputs import FinishReason
from minivllm.trace import (
    BlockAllocated,
    BlockCached,
    BlockEvicted,
    BlockFreed,
    BlockHit,
    RequestAdded,
    RequestFinished,
    RequestPreempted,
    RequestResumed,
    RequestScheduled,
    StepExecuted,
    StepFailed,
    Trace,
    TraceEvent,
    chrome_trace,
    load_trace,
    save_trace,
    timeline,
)
from minivllm.trace.replay import TableEntry, block_table, phases, pool_states, runs

ONE_OF_EACH = [
    RequestAdded(step=0, request_id='ä \ud800 \n"', num_prompt_tokens=3),
    RequestScheduled(
        step=0, request_id="a", num_tokens=3, num_computed_tokens=0, num_known_tokens=3
    ),
    RequestScheduled(
        step=1,
        request_id="a",
        num_tokens=1,
        num_computed_tokens=3,
        num_known_tokens=4,
        new_block_ids=(4, 0),
    ),
    RequestPreempted(step=2, request_id="a"),
    RequestResumed(step=3, request_id="a"),
    *(RequestFinished(step=3, request_id="a", finish_reason=r) for r in get_args(FinishReason)),
    BlockAllocated(step=3, block_id=0),
    BlockHit(step=3, block_id=1),
    BlockCached(step=3, block_id=2, block_hash="ab"),
    BlockEvicted(step=3, block_id=3),
    BlockFreed(step=3, block_id=4),
    StepExecuted(step=3, start=0.1, seconds=1e-7, num_running=1, num_waiting=0, kv_usage=0.1 + 0.2),
    StepFailed(step=4),
]


def planned(num_blocks=4, **settings):
    """A planner that traces, whose trace knows the pool as an engine's does."""
    planner = TinyPlanner(num_blocks, tracing=True, **settings)
    planner.trace.num_blocks, planner.trace.block_size = num_blocks, 4
    return planner


def preempting_run():
    """`b` is preempted in step 2, and hits its first block in step 4."""
    planner = planned()
    planner.add("a", 7, max_tokens=4)
    planner.add("b", 7, max_tokens=4)
    planner.run_to_end()
    return planner.trace


# The file


def test_every_kind_of_event_is_tried_here():
    kinds = [getattr(minivllm.trace, name) for name in minivllm.trace.__all__]
    kinds = {k for k in kinds if isinstance(k, type) and issubclass(k, TraceEvent)}
    assert {type(event) for event in ONE_OF_EACH} == kinds - {TraceEvent}


def test_a_loaded_trace_equals_the_saved_one(tmp_path):
    for trace in (
        Trace(step=5, events=ONE_OF_EACH, num_blocks=8, block_size=4),
        preempting_run(),
        Trace(),
    ):
        save_trace(trace, tmp_path / "trace.jsonl")
        loaded = load_trace(tmp_path / "trace.jsonl")
        assert loaded == trace
        assert [type(event) for event in loaded.events] == [type(event) for event in trace.events]
    assert [path.name for path in tmp_path.iterdir()] == ["trace.jsonl"]


def test_each_line_of_the_file_is_one_json_object(tmp_path):
    save_trace(Trace(events=ONE_OF_EACH[1:2]), tmp_path / "trace.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "trace.jsonl").read_text().splitlines()]
    assert lines == [
        {"minivllm_trace": 1, "step": 0, "num_blocks": None, "block_size": None},
        {
            "event": "RequestScheduled",
            "step": 0,
            "request_id": "a",
            "num_tokens": 3,
            "num_computed_tokens": 0,
            "num_known_tokens": 3,
            "new_block_ids": [],
        },
    ]


HEADER = '{"minivllm_trace": 1, "step": 0, "num_blocks": null, "block_size": null}\n'
FREED = '{"event": "BlockFreed", "step": 0, "block_id": 1}\n'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("hello\n", "line 1: damaged"),
        ("[]\n", "line 1: expected an object"),
        (FREED, "line 1: no trace of minivllm"),
        (HEADER.replace("1", "2"), "line 1: version 2"),
        (HEADER.replace('"step": 0, ', ""), "line 1: header has the fields"),
        (HEADER + FREED + FREED[:20], "line 3: damaged, or not written to its end"),
        (HEADER + "\n", "line 2: damaged"),
        (HEADER + FREED.replace("Freed", "Fried"), "line 2: unknown event 'BlockFried'; known are"),
        (HEADER + FREED.replace('"BlockFreed"', "[]"), r"line 2: unknown event \[\]"),
        (HEADER + FREED.replace("block_id", "block"), "line 2: BlockFreed has the fields"),
        (HEADER + FREED.replace("1}", '"1"}'), "line 2: BlockFreed: block_id='1' is no int"),
        (HEADER + FREED.replace("1}", "true}"), "line 2: BlockFreed: block_id=True is no int"),
        (HEADER + FREED.replace("1}", "1.0}"), "line 2: BlockFreed: block_id=1.0 is no int"),
        (HEADER + FREED.replace("BlockFreed", "TraceEvent"), "line 2: unknown event 'TraceEvent'"),
    ],
)
def test_a_damaged_file_is_refused_with_the_line(tmp_path, content, message):
    path = tmp_path / "trace.jsonl"
    path.write_text(content)
    with pytest.raises(ValueError, match=message) as error:
        load_trace(path)
    assert "trace.jsonl" in str(error.value)


def test_a_file_that_is_no_text_is_refused(tmp_path):
    (tmp_path / "trace.jsonl").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="line 1: damaged"):
        load_trace(tmp_path / "trace.jsonl")


def test_a_missing_file_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_trace(tmp_path / "none")


def test_a_full_disk_leaves_the_older_trace(tmp_path, monkeypatch):
    path = tmp_path / "trace.jsonl"
    save_trace(Trace(step=1), path)
    calls = []

    def fill_up(value, **_):
        calls.append(value)
        if len(calls) == 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        return "{}"

    with monkeypatch.context() as patch:
        patch.setattr(json, "dumps", fill_up)
        with pytest.raises(OSError, match="No space left"):
            save_trace(Trace(events=ONE_OF_EACH), path)
    assert len(calls) == 3
    assert load_trace(path) == Trace(step=1)
    assert [entry.name for entry in tmp_path.iterdir()] == ["trace.jsonl"]


# What is worked out from the events


def test_phases_of_a_chunked_prompt():
    planner = planned(max_num_batched_tokens=4)
    planner.add("a", 6, max_tokens=3)
    planner.run_to_end()
    assert phases(planner.trace) == {"a": {0: "chunk", 1: "prefill", 2: "decode", 3: "decode"}}


def test_a_prompt_of_one_token_is_a_prefill():
    planner = planned()
    planner.add("a", 1, max_tokens=2)
    planner.run_to_end()
    assert phases(planner.trace) == {"a": {0: "prefill", 1: "decode"}}


def test_a_preempted_request_is_shown_as_such_until_it_starts_over():
    assert phases(preempting_run())["b"] == {
        0: "prefill",
        1: "decode",
        2: "preempted",
        3: "preempted",
        4: "prefill",
        5: "decode",
    }


def test_a_preempted_request_that_is_aborted_is_shown_up_to_there():
    planner = planned()
    planner.add("a", 7, max_tokens=6)
    planner.add("b", 7, max_tokens=6)
    for _ in range(4):
        planner.step()
    planner.scheduler.abort(["b"])
    planner.run_to_end()
    assert [step for step, phase in phases(planner.trace)["b"].items() if phase == "preempted"] == [
        2,
        3,
    ]


def test_a_waiting_request_has_no_phase():
    planner = planned(max_num_seqs=1)
    planner.add("a", 3, max_tokens=2)
    planner.add("b", 3, max_tokens=1)
    planner.run_to_end()
    assert phases(planner.trace)["b"] == {2: "prefill"}


def test_runs_join_neighbours_of_one_phase():
    cells = {3: "decode", 1: "prefill", 2: "decode", 5: "decode"}
    assert list(runs(cells)) == [
        ("prefill", range(1, 2)),
        ("decode", range(2, 4)),
        ("decode", range(5, 6)),
    ]


@pytest.mark.parametrize("seed", range(8))
def test_pool_and_tables_worked_out_from_the_trace_are_the_real_ones(seed):
    rng = random.Random(seed)
    planner = planned(num_blocks=6, max_num_batched_tokens=rng.choice([3, 8, 64]))
    pools, tables = {}, {}
    for number in range(12):
        prompt = [1] * rng.randrange(1, 10) + [2] * rng.randrange(4)
        planner.add(f"r{number}", prompt, max_tokens=rng.randrange(1, 10))
        for _ in range(rng.randrange(4)):
            plan = planner.plan()
            in_use = [block for block in planner.pool.blocks if block.ref_count]
            cached = [b for b in planner.pool.blocks if b.block_hash and not b.ref_count]
            if plan.num_scheduled_tokens:
                pools[plan.step] = (len(in_use), len(cached))
            for request_id in plan.num_scheduled_tokens:
                tables[request_id, plan.step] = planner.table(request_id)
            planner.finish(plan)
        if rng.random() < 0.2:
            planner.scheduler.abort([rng.choice(list(planner.requests))])
    found = pool_states(planner.trace)
    assert {step: (s.num_used, s.num_cached) for step, s in found.items()} == pools
    assert tables
    for (request_id, step), table in tables.items():
        entries = block_table(planner.trace, request_id, step)
        assert [entry.block_id for entry in entries] == table
        hits = [entry.is_hit for entry in entries]
        assert hits == sorted(hits, reverse=True), "hits come first"


def test_a_block_table_marks_what_the_prefix_cache_gave():
    planner = planned(num_blocks=8)
    planner.add("a", list(range(9)), max_tokens=1)
    planner.step()
    planner.add("b", list(range(9)), max_tokens=1)
    planner.step()
    table = block_table(planner.trace, "b", 1)
    assert table == [TableEntry(0, True), TableEntry(1, True), TableEntry(3, False)]


def test_a_table_that_is_not_there_is_an_error_that_says_whose_are():
    trace = preempting_run()
    with pytest.raises(ValueError, match=r"'b' has no blocks in step 2; .*: a$"):
        block_table(trace, "b", 2)
    with pytest.raises(ValueError, match=r"no blocks in step 99; .*: none"):
        block_table(trace, "a", 99)
    trace.block_size = None
    with pytest.raises(ValueError, match="block_size"):
        block_table(trace, "a", 0)


def test_evictions_are_counted_in_their_step():
    planner = planned(num_blocks=2)
    planner.add("a", 8, max_tokens=1)
    planner.step()
    planner.add("b", 8, max_tokens=1)
    planner.step()
    assert [state.num_evicted for state in pool_states(planner.trace).values()] == [0, 2]


def test_after_a_failed_step_the_pool_is_empty():
    trace = preempting_run()
    trace.add(StepFailed(step=6))
    trace.add(
        RequestScheduled(
            step=7, request_id="c", num_tokens=1, num_computed_tokens=0, num_known_tokens=1
        )
    )
    assert (pool_states(trace)[7].num_used, pool_states(trace)[7].num_cached) == (0, 0)


# Text


def test_timeline_by_hand():
    trace = preempting_run()
    trace.add(
        StepExecuted(step=5, start=1.0, seconds=0.0125, num_running=1, num_waiting=0, kv_usage=0.75)
    )
    assert timeline(trace).splitlines() == [
        "step       ms  running  waiting    KV  what happened",
        "   0        -        -        -     -  a added | b added | a prefill 7 | b prefill 7"
        " | cached blocks 0, 2",
        "   1        -        -        -     -  a decode | b decode | cached blocks 1, 3",
        "   2        -        -        -     -  b preempted | a decode | evicted block 3",
        "   3        -        -        -     -  a decode | a finished (length)",
        "   4        -        -        -     -  b prefill 5 from 4 | hit block 2"
        " | evicted block 1 | cached block 3",
        "   5     12.5        1        0   75%  b decode | b finished (length)",
    ]


def test_timeline_of_nothing_is_its_header():
    assert timeline(Trace()).count("\n") == 0


# Perfetto


def timed(trace):
    """Each step begins at its number in seconds, and takes half a second."""
    for step in sorted({event.step for event in trace.events}):
        trace.add(
            StepExecuted(
                step=step, start=step, seconds=0.5, num_running=2, num_waiting=1, kv_usage=0.5
            )
        )
    return trace


def check_schema(chrome):
    """What the trace format asks of every event."""
    json.dumps(chrome, allow_nan=False)
    named = set()
    for event in chrome["traceEvents"]:
        assert isinstance(event["name"], str)
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        assert event["ph"] in {"M", "X", "i", "C"}
        if event["ph"] == "M":
            assert event["name"] in {"thread_name", "process_name"}
            assert isinstance(event["args"]["name"], str)
            named.add((event["pid"], event["tid"]))
            continue
        assert event["ts"] >= 0
        if event["ph"] == "X":
            assert event["dur"] >= 0
        if event["ph"] == "i":
            assert event["s"] in {"t", "p", "g"}
        if event["ph"] == "C":
            assert all(isinstance(value, int) for value in event["args"].values())
        else:
            assert (event["pid"], event["tid"]) in named, "every track has a name"


def slices(chrome):
    """`(name, start, end)` of the slices of each named track, in microseconds."""
    names = {
        (e["pid"], e["tid"]): e["args"]["name"]
        for e in chrome["traceEvents"]
        if e["name"] == "thread_name"
    }
    found = {name: [] for name in names.values()}
    for event in chrome["traceEvents"]:
        if event["ph"] == "X":
            track = found[names[event["pid"], event["tid"]]]
            track.append((event["name"], event["ts"], event["ts"] + event["dur"]))
    return found


def test_chrome_trace_has_a_track_per_request_with_its_phases():
    chrome = chrome_trace(timed(preempting_run()))
    check_schema(chrome)
    assert slices(chrome)["b"] == [
        ("prefill", 0.0, 0.5e6),
        ("decode", 1e6, 1.5e6),
        ("preempted", 2e6, 4e6),
        ("prefill", 4e6, 4.5e6),
        ("decode", 5e6, 5.5e6),
    ]
    assert set(slices(chrome)) == {"a", "b", "steps", "block pool"}


def test_chrome_slices_of_a_track_do_not_overlap():
    for track in slices(chrome_trace(timed(preempting_run()))).values():
        ends = [0.0] + [end for _, _, end in track]
        assert all(start >= end for (_, start, _), end in zip(track, ends, strict=False))


def test_chrome_trace_shows_what_the_block_pool_did():
    chrome = chrome_trace(timed(preempting_run()))
    instants = [
        (event["ts"], event["name"], event["args"]["block_ids"])
        for event in chrome["traceEvents"]
        if event["ph"] == "i" and "block_ids" in event["args"]
    ]
    assert instants == [
        (0, "allocated", [0, 1, 2, 3]),
        (0, "cached", [0, 2]),
        (1e6, "cached", [1, 3]),
        (2e6, "freed", [3, 2]),  # by the preemption
        (2e6, "evicted", [3]),
        (2e6, "allocated", [3]),
        (3.5e6, "freed", [3, 1, 0]),  # as a finished
        (4e6, "hit", [2]),
        (4e6, "allocated", [3, 1]),
        (4e6, "evicted", [1]),
        (4e6, "cached", [3]),
        (5.5e6, "freed", [1, 3, 2]),
    ]


def test_chrome_counters_tell_blocks_and_queues():
    chrome = chrome_trace(timed(preempting_run()))
    counters = [e for e in chrome["traceEvents"] if e["ph"] == "C" and e["ts"] == 0]
    assert {event["name"]: event["args"] for event in counters} == {
        "requests": {"running": 2, "waiting": 1},
        "blocks": {"in use": 4, "cached": 0},
    }


def test_chrome_trace_without_times_gives_each_step_a_millisecond():
    chrome = chrome_trace(preempting_run())
    check_schema(chrome)
    assert slices(chrome)["a"][:2] == [("prefill", 0, 1000), ("decode", 1000, 2000)]


@pytest.mark.parametrize("trace", [Trace(), Trace(events=ONE_OF_EACH)], ids=["empty", "any order"])
def test_chrome_trace_of_anything_is_valid(trace):
    check_schema(chrome_trace(trace))


@pytest.mark.parametrize("num_steps", range(6))
def test_a_trace_that_was_cleared_on_the_way_can_still_be_read(num_steps):
    planner = planned()
    planner.add("a", 7, max_tokens=4)
    planner.add("b", 7, max_tokens=4)
    for _ in range(num_steps):
        planner.step()
    planner.trace.events.clear()
    planner.scheduler.abort(["b"])
    planner.run_to_end()
    check_schema(chrome_trace(planner.trace))
    assert "finished" in timeline(planner.trace)


def test_chrome_trace_of_a_failed_step_is_valid():
    trace = timed(preempting_run())
    trace.events = [e for e in trace.events if not (isinstance(e, StepExecuted) and e.step == 3)]
    trace.add(StepFailed(step=3))
    trace.add(RequestFinished(step=9, request_id="b", finish_reason="abort"))
    chrome = chrome_trace(trace)
    check_schema(chrome)
    assert "step failed" in {event["name"] for event in chrome["traceEvents"]}
