"""RequestQueue: the waiting requests, the next to run first.

One rule serves both policies: the smallest `policy_key`. Under "fcfs" the key is the order of
arrival, under "priority" (priority, arrival). A preempted request arrived before everything that
still waits behind it, so pushing it back puts it at the head without a special case.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator

from minivllm.config import SchedulingPolicy
from minivllm.core.request import Request

PolicyKey = Callable[[Request], tuple[int, int]]


def policy_key(policy: SchedulingPolicy) -> PolicyKey:
    """The order of requests under `policy`: the smallest runs first, the largest is preempted."""
    if policy == "priority":
        return lambda request: (request.priority, request.arrival)
    return lambda request: (0, request.arrival)


class RequestQueue:
    """A heap of requests, from which any can be removed.

    A removed request stays in the heap until it comes up, and is dropped then: looking for it would
    make aborting many requests quadratic.
    """

    def __init__(self, key: PolicyKey) -> None:
        self._key = key
        self._heap: list[tuple[tuple[int, int], int, Request]] = []
        self._members: dict[str, Request] = {}
        self._num_pushed = 0  # breaks ties, so that requests are never compared themselves

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[Request]:
        """The waiting requests, the next to run first."""
        return iter(sorted(self._members.values(), key=self._key))

    def push(self, request: Request) -> None:
        """Add `request` at its place."""
        self._members[request.request_id] = request
        heapq.heappush(self._heap, (self._key(request), self._num_pushed, request))
        self._num_pushed += 1

    def peek(self) -> Request:
        """The next to run; the queue must not be empty."""
        while self._members.get(self._heap[0][2].request_id) is not self._heap[0][2]:
            heapq.heappop(self._heap)
        return self._heap[0][2]

    def pop(self) -> Request:
        """Take the next to run; the queue must not be empty."""
        request = self.peek()
        heapq.heappop(self._heap)
        del self._members[request.request_id]
        return request

    def remove(self, request: Request) -> None:
        """Take `request` out, wherever it stands."""
        del self._members[request.request_id]

    def clear(self) -> None:
        """Take everything out."""
        self._heap.clear()
        self._members.clear()
