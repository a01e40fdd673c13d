import pytest
from tiny_planner import make_request

from minivllm.core.request_queue import RequestQueue, policy_key


def make_queue(policy="fcfs"):
    return RequestQueue(policy_key(policy))


def make_requests(*priorities):
    return [make_request(f"r{i}", arrival=i, priority=p) for i, p in enumerate(priorities)]


def pop_all(queue):
    return [queue.pop().request_id for _ in range(len(queue))]


def test_first_come_first_served_ignores_priority():
    queue = make_queue()
    for request in make_requests(5, -5, 0):
        queue.push(request)
    assert pop_all(queue) == ["r0", "r1", "r2"]


def test_smaller_priority_goes_first_and_then_the_earlier():
    queue = make_queue("priority")
    for request in make_requests(1, 0, -3, 0):
        queue.push(request)
    assert pop_all(queue) == ["r2", "r1", "r3", "r0"]


def test_request_that_comes_back_goes_to_the_head():
    queue = make_queue()
    first, second, third = make_requests(0, 0, 0)
    queue.push(second)
    queue.push(third)
    queue.push(first)
    assert pop_all(queue) == ["r0", "r1", "r2"]


def test_iteration_is_in_order_and_changes_nothing():
    queue = make_queue("priority")
    for request in make_requests(2, 1, 0):
        queue.push(request)
    assert [r.request_id for r in queue] == ["r2", "r1", "r0"]
    assert len(queue) == 3


def test_peek_does_not_take():
    queue = make_queue()
    queue.push(make_requests(0)[0])
    assert queue.peek() is queue.peek()
    assert len(queue) == 1


@pytest.mark.parametrize("removed", [0, 1, 2])
def test_request_is_removed_from_anywhere(removed):
    queue = make_queue()
    requests = make_requests(0, 0, 0)
    for request in requests:
        queue.push(request)
    queue.remove(requests[removed])
    assert len(queue) == 2
    assert [r.request_id for r in queue] == pop_all(queue)
    assert not queue


def test_removed_id_can_be_used_by_another_request():
    queue = make_queue()
    old = make_request("a", arrival=0)
    queue.push(old)
    queue.remove(old)
    new = make_request("a", arrival=1)
    queue.push(new)
    assert queue.peek() is new
    assert queue.pop() is new
    assert not queue


def test_request_can_be_removed_and_pushed_again():
    queue = make_queue()
    request, other = make_requests(0, 0)
    queue.push(request)
    queue.remove(request)
    queue.push(other)
    queue.push(request)
    assert pop_all(queue) == ["r0", "r1"]


def test_equal_keys_never_compare_the_requests():
    queue = make_queue()
    for name in "ab":
        queue.push(make_request(name, arrival=0))
    assert pop_all(queue) == ["a", "b"]


def test_clear_leaves_nothing():
    queue = make_queue()
    for request in make_requests(0, 0):
        queue.push(request)
    queue.clear()
    assert len(queue) == 0
    assert list(queue) == []
    late = make_request("late", arrival=9)
    queue.push(late)
    assert queue.peek() is late
