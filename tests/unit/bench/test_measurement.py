"""How a rate is taken."""

import time

from groundlab.bench import measurement


def test_a_rate_is_the_median_turn_after_a_call_that_warms_up(monkeypatch):
    now, calls = [0.0], {1: 0, 2: 0}
    monkeypatch.setattr(time, "process_time", lambda: now[0])

    def work(seconds):
        def one():
            calls[seconds] += 1
            now[0] += 100 if calls[seconds] in (1, 3) else seconds  # the first call, and one slow turn
            return 10

        return one

    assert measurement.rates(work(1), work(2)) == [10.0, 5.0]
