"""A running job: observe it, change it, stop it."""

from __future__ import annotations

import atexit
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.util import InheritableThread

from trimtab.deciding.placement import Placement, check_engines
from trimtab.driver.placing import change_all
from trimtab.driver.progress import BatchProgress, Progress
from trimtab.driver.resuming import open_streams
from trimtab.errors import JobError
from trimtab.spark.pipeline import Pipeline, StoppingError
from trimtab.spark.source_loop import SourceLoop

RATE_WINDOW_S = 10.0
WATCH_S = 0.2
"""How often the streams are looked at."""
BEGIN_S = 0.5
"""How long a start waits for errors before the first batch, so that it takes a second at most."""
EXIT_S = 20.0
"""How long the end of the process waits for the batch under way."""
AFTER_A_TRIGGER = frozenset({"Waiting for data to arrive", "Waiting for next trigger"})
"""What Spark says of a stream after a trigger. Before its first one it hasn't asked the sources for anything."""


StartQueries = Callable[[Mapping[str, Pipeline]], dict[str, StreamingQuery | SourceLoop]]
"""Starts Spark's streaming queries, or trimtab's own loops, for these pipelines, by stream."""


class Tally:
    """Gathers what batches report, from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._progress = Progress()
        self._recent: deque[tuple[float, int]] = deque()
        self.history: deque[BatchProgress] = deque(maxlen=1000)

    def add(self, batch: BatchProgress) -> None:
        """Count a batch."""
        with self._lock:
            now = time.monotonic()
            self._recent.append((now, batch.events))
            while self._recent and self._recent[0][0] < now - RATE_WINDOW_S:
                self._recent.popleft()
            self.history.append(batch)
            matches = dict(self._progress.matches)
            for query, count in batch.matches.items():
                matches[query] = matches.get(query, 0) + count
            before = self._progress
            self._progress = Progress(
                streams={**before.streams, batch.stream: batch},
                batches=before.batches + 1,
                events=before.events + batch.events,
                late=before.late + batch.late,
                quarantined=before.quarantined + batch.quarantined,
                matches=matches,
            )

    def progress(self) -> Progress:
        """Where the job stands, with the rate of the last seconds."""
        with self._lock:
            now = time.monotonic()
            recent = [(at, events) for at, events in self._recent if at >= now - RATE_WINDOW_S]
            if not recent:
                return self._progress
            # A batch's events came since the batch before it; those of the oldest batch came before the window began.
            span = max(now - recent[0][0], self.history[-1].batch_ms / 1e3)
            counted = sum(events for _, events in recent[1:]) if len(recent) > 1 else recent[0][1]
            return replace(self._progress, events_per_s=counted / span if span else 0.0)

    def batches(self) -> tuple[BatchProgress, ...]:
        """The last batches, oldest first."""
        with self._lock:
            return tuple(self.history)


class Run:
    """What `Job.start` gives: a handle on the running job.

    All methods may be called from any thread. When one stream fails, the others are stopped, too.
    """

    def __init__(
        self,
        spark: SparkSession,
        pipelines: Mapping[str, Pipeline],
        tally: Tally,
        schemas: Mapping[str, Any],
        *,
        close: bool,
        release: Callable[[], None],
    ) -> None:
        self._spark, self._pipelines, self._tally, self._schemas = spark, dict(pipelines), tally, schemas
        self._close, self._release = close, release
        self._queries: dict[str, StreamingQuery | SourceLoop] = {}
        self._began_s = 0.0  # when the queries were started
        self._begun = threading.Event()
        self._ended = threading.Event()
        self._stopping = False
        self._is_asked_to_stop = False  # by the end of the process
        self._error: BaseException | None = None

    def begin(self, start_queries: StartQueries) -> None:
        """Start a thread that prepares the streams, starts their queries and waits until they end.

        Raises an error that occurs before the queries run, if it does so within `BEGIN_S`.
        """
        # Spark's kind of thread, so that the queries inherit the caller's scheduler pool and job tags.
        self._thread = InheritableThread(self._supervise, name="trimtab-run", daemon=True, args=(start_queries,))
        _under_way.add(self)
        self._thread.start()
        try:
            self._begun.wait(BEGIN_S)
        except BaseException:  # Ctrl-C: the caller gets no handle to stop this run with
            self.stop()
            raise
        if self._ended.is_set() and self._error is not None and not self._queries:
            raise self._error

    # Observing ---------------------------------------------------------------------------------

    @property
    def progress(self) -> Progress:
        """The last batch of each stream, and totals since the start."""
        return self._tally.progress()

    @property
    def history(self) -> Sequence[BatchProgress]:
        """The last thousand batches, oldest first."""
        return self._tally.batches()

    @property
    def is_active(self) -> bool:
        """Whether the job still runs."""
        return not self._ended.is_set()

    @property
    def streaming_queries(self) -> Mapping[str, StreamingQuery]:
        """Spark's own handle of each stream that Spark reads, with its progress and plan; empty until it is started.

        To stop the job, use `Run.stop`, not these handles.
        """
        return {name: query for name, query in self._queries.items() if not isinstance(query, SourceLoop)}

    @property
    def placement(self) -> Mapping[str, Placement]:
        """The placement of each stream's last committed batch."""
        return {name: pipeline.placement for name, pipeline in self._pipelines.items()}

    # Changing ----------------------------------------------------------------------------------

    def move(self, moves: Mapping[int, int], *, stream: str | None = None) -> None:
        """Give key groups to other engines from the next batch on; state goes with them.

        `moves` maps key group to engine. All streams, unless one is named.
        """
        chosen = dict(moves)
        change_all([each.placing for each in self._chosen(stream)], lambda placement: placement.moved(chosen))

    def resize(self, engines: int) -> None:
        """Run on another number of engines from the next batch on, and move as few key groups as possible."""
        for pipeline in self._pipelines.values():
            check_engines(engines, pipeline.key_groups)
        change_all([each.placing for each in self._chosen(None)], lambda placement: placement.resized(engines))

    # Ending ------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Stop after the batch under way. Nothing is lost: the next start goes on from there.

        When a sink's function calls it, it returns at once, and the job ends when the batch is done.
        """
        self._stopping = True
        if any(pipeline.is_in_my_batch for pipeline in self._pipelines.values()):
            threading.Thread(target=self._stop_queries, name="trimtab-stop", daemon=True).start()
            return
        self._stop_queries()
        self._ended.wait()

    def await_termination(self, timeout_s: float | None = None) -> bool:
        """Wait until the job ends; False if it still runs after the time-out.

        Raises the error that ended it: a TrimtabError if trimtab knows the cause, else Spark's own exception.
        """
        if not self._ended.wait(timeout_s):
            return False
        if self._error is not None:
            raise self._error
        return True

    def _end_with_the_process(self) -> None:
        """Stop, but in the run's own thread: the process can't start another one any more."""
        self._stopping = self._is_asked_to_stop = True
        for pipeline in self._pipelines.values():
            pipeline.stopping = True
        self._thread.join(EXIT_S)

    # The run's own thread ----------------------------------------------------------------------

    def _supervise(self, start_queries: StartQueries) -> None:
        try:
            for pipeline in self._pipelines.values():
                pipeline.prepare()
            self._finish_begun()
            self._began_s = time.time()
            if not self._stopping:
                self._queries = start_queries({n: each for n, each in self._pipelines.items() if not each.is_closed})
            self._begun.set()
            if self._stopping:  # `stop` was called while the queries were being started
                self._stop_queries()
            self._watch()
            if self._close and not self._stopping and self._error is None:
                for name, pipeline in self._pipelines.items():
                    if not pipeline.is_closed:
                        pipeline.close(self._spark, self._schemas[name])
        except BaseException as error:  # `await_termination` raises it
            self._error = self._error or error
        finally:
            for pipeline in self._pipelines.values():
                pipeline.stop()
            self._release()
            self._ended.set()
            self._begun.set()
            _under_way.discard(self)

    def _finish_begun(self) -> None:
        """Finish batches without rows that an earlier start began: sinks may already have taken rows of them.

        Raises JobError `job.closed` unless this start closes the other streams, too.
        """
        for name, pipeline in self._pipelines.items():
            if pipeline.has_begun_without_rows and not self._stopping:
                pipeline.finish_begun(self._spark, self._schemas[name])
        known = {name: each.driver.known for name, each in self._pipelines.items() if each.driver.known is not None}
        if not self._close:
            open_streams(self._pipelines, known, close=False)

    def _watch(self) -> None:
        """Wait until all queries have ended. If one fails, the others are stopped."""
        running = dict(self._queries)
        while running:
            if self._is_asked_to_stop:
                self._is_asked_to_stop = False
                self._stop_queries()
            for name, query in list(running.items()):
                if not self._has_ended(name, query, WATCH_S / len(running)):
                    if not isinstance(query, SourceLoop):  # a loop lets time pass itself
                        self._let_time_pass(name, query)
                    continue
                del running[name]
                if not self._close:  # it has read all that was there when it began, unless it was stopped or failed
                    self._let_time_pass(name, None)

    def _has_ended(self, name: str, query: StreamingQuery | SourceLoop, timeout_s: float) -> bool:
        try:
            return bool(query.awaitTermination(timeout_s))  # type: ignore[arg-type]  # it takes fractions, too
        except Exception as error:
            own = self._pipelines[name].error
            # Without an error of its own, a stream that is being stopped was only interrupted.
            if not isinstance(own, StoppingError) and (own is not None or not self._stopping):
                self._fail(own or error)
            return True

    def _fail(self, error: BaseException) -> None:
        """End the job with this error; all streams are stopped."""
        self._error = self._error or error
        self._stop_queries()

    def _let_time_pass(self, name: str, query: StreamingQuery | None) -> None:
        """Run a batch without rows if a stream is silent and something is due; None: its query has ended."""
        pipeline = self._pipelines[name]
        if pipeline.spec.idle_after_s is None or self._stopping or self._error is not None:
            return
        if query is None:
            pipeline.is_caught_up(self._began_s)
        else:
            # The last trigger, which found nothing, was an interval ago at most.
            asked_s, status = time.time() - pipeline.spec.interval_s, query.status
            if status["message"] in AFTER_A_TRIGGER and not status["isDataAvailable"] and not status["isTriggerActive"]:
                pipeline.is_caught_up(asked_s)
        try:
            pipeline.tick(self._spark, self._schemas[name])
        except Exception as error:
            self._fail(error)

    def _stop_queries(self) -> None:
        for pipeline in self._pipelines.values():
            pipeline.stopping = True
        for name, query in self._queries.items():
            self._pipelines[name].wait_until_idle()
            query.stop()

    def _chosen(self, stream: str | None) -> list[Pipeline]:
        if stream is None:
            return list(self._pipelines.values())
        if stream not in self._pipelines:
            raise JobError("job.stream", f"there is no stream {stream}", f"there are {', '.join(self._pipelines)}")
        return [self._pipelines[stream]]


_under_way: set[Run] = set()


@atexit.register
def _end_all() -> None:
    """End all runs before the interpreter ends.

    It stops threads wherever they are, and the process aborts if that is inside of C++, as of DuckDB or Arrow.
    """
    for run in list(_under_way):
        run._end_with_the_process()
