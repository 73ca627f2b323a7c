"""What wrk reports is read right: answers apart from refusals, times in one unit."""

import pytest

from benchmarks.serving.server_load import figures

REPORT = """\
Running 30s test @ http://127.0.0.1:8000/api/search?k=12
  2 threads and 8 connections
  Latency Distribution
     50%   66.10ms
     75%   71.22ms
     90%    1.20s
     99%    {last}
  3600 requests in 30.00s, 5.00MB read
{refused}Requests/sec:    120.00
"""


@pytest.mark.parametrize(("last", "p99"), [("90.50ms", 90.5), ("1.50s", 1500.0), ("800.00us", 0.8)])
def test_times_are_in_milliseconds(last, p99):
    found = figures(REPORT.format(last=last, refused=""))
    assert found == {"answers_per_second": 120.0, "refused_per_second": 0.0, "p50_ms": 66.1, "p99_ms": p99}


def test_refusals_are_no_answers():
    found = figures(REPORT.format(last="2.00ms", refused="  Non-2xx or 3xx responses: 3000\n"))
    assert found["answers_per_second"] == 20.0
    assert found["refused_per_second"] == 100.0
