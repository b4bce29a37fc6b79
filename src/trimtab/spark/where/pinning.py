"""Runs engines on the executors that trimtab chooses.

Spark assigns the tasks of a stage to executors in random order, unless the stage's RDD names preferred locations. So
the RDD of the engines' job is wrapped in one that leaves every partition as it is and names an executor for it: Spark's
own `CoalescedRDD`, with a coalescer whose few lines of Java are compiled in the driver. Executors don't need that
class, because it is serialized as a plain string when tasks are sent.

The wrapped RDD is the last one, that of the reports, so the path of the rows gets no longer.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from pyspark.core.rdd import RDD
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from trimtab.spark.where.assignment import assign, surplus, wanted
from trimtab.spark.where.executors import Executors

log = logging.getLogger("trimtab")

WAIT = "spark.locality.wait.process"
"""The setting for how long Spark lets a task wait for its preferred executor."""
_CLASS = "trimtab.Pinned"
_JAVA = r"""
package trimtab;

import org.apache.spark.Partition;
import org.apache.spark.rdd.PartitionCoalescer;
import org.apache.spark.rdd.PartitionGroup;
import org.apache.spark.rdd.RDD;

public final class Pinned implements PartitionCoalescer, java.io.Serializable {
    private final String[] homes;

    public Pinned(String homes) {
        this.homes = homes.split("\n");
    }

    public PartitionGroup[] coalesce(int most, RDD parent) {
        Partition[] partitions = parent.partitions();
        PartitionGroup[] groups = new PartitionGroup[partitions.length];
        for (int i = 0; i < partitions.length; i++) {
            groups[i] = new PartitionGroup(scala.Option.apply(i < this.homes.length ? this.homes[i] : null));
            groups[i].partitions().addOne(partitions[i]);
        }
        return groups;
    }

    // Not private: Janino makes static methods of those, which serialization doesn't find.
    protected Object writeReplace() {
        return "pinned";
    }
}
"""


class Homes:
    """The executors of one stream's engines, kept from batch to batch."""

    def __init__(self, spark: SparkSession, stream: str) -> None:
        self.executors = Executors(spark)
        self._spark = spark
        self._first = zlib.crc32(stream.encode())  # so that streams with few engines don't all use the same executor
        self._homes: tuple[str, ...] = ()
        self._asked_for: int | None = None  # how many executors were requested; None: none were

    def of(self, engines: int) -> tuple[str, ...]:
        """The executor of each engine in the next batch; empty if there are fewer than two executors."""
        live = self.executors.live()
        if len(live) < 2:
            return ()
        self._homes = assign(engines, live, self._homes, first=self._first % len(live))
        return self._homes

    def pinned(self, frame: DataFrame, engines: int) -> DataFrame:
        """The frame, whose partitions are engines, with an executor named for each; unchanged if that is impossible.

        Spark still runs an engine elsewhere if its executor is busy or gone.
        """
        homes = self.of(engines)
        if not homes or self._pin is None:
            return frame
        return self._pin.pinned(frame, homes)

    def pinned_rdd(self, rdd: Any, engines: int) -> Any:
        """As `pinned`, of an RDD of Python's whose partitions are engines."""
        homes = self.of(engines)
        if not homes or self._pin is None:
            return rdd
        return self._pin.pinned_rdd(rdd, homes)

    def slots(self) -> Mapping[str, int]:
        """How many tasks each executor runs at a time; empty if there are fewer than two, or none can be named."""
        live = self.executors.live()
        return {} if len(live) < 2 or self._pin is None else {each.id: each.slots for each in live}

    def placed_rdd(self, rdd: Any, executors: Sequence[str]) -> Any:
        """An RDD of Python's with an executor named for each partition, where `slots` isn't empty."""
        assert self._pin is not None
        return self._pin.pinned_rdd(rdd, executors)

    def fit(self, engines: int) -> None:
        """Request or release executors so that they fit this many engines, counted over all streams.

        New executors start within seconds, and engines move there with the next batch. Does nothing if trimtab can't
        change the cluster.
        """
        live = self.executors.live()
        if not self.executors.is_elastic or not live:
            return
        total = wanted(engines, live)
        if going := surplus(engines, live, self._homes):
            self.executors.release(going)
            total -= len(going)
        elif total > len(live) or self._asked_for not in (None, total):
            self.executors.request(total)
        self._asked_for = total

    @cached_property
    def _pin(self) -> Pin | None:
        try:
            return Pin(self._spark)
        except Exception as error:  # another version of Spark may lack any of the internals used here
            first = str(error).split("\n", 1)[0]
            log.warning("engines can't be pinned to executors with this Spark, so they run anywhere: %s", first)
            return None


class Pin:
    """Wraps frames so that Spark knows the preferred executor of each partition."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._jvm: Any = spark._jvm
        context: Any = spark.sparkContext
        self._gateway, self._context = context._gateway, context._jsc.sc()
        self._session: Any = spark._jsparkSession
        self._make = self._compiled()
        self._probe()
        _never_wait(self._context.conf())

    def pinned(self, frame: DataFrame, homes: Sequence[str]) -> DataFrame:
        """A frame with the same rows, whose partition i prefers executor `homes[i]`."""
        java: Any = frame._jdf
        rdd = self._wrapped(java.queryExecution().toRdd(), homes)
        return _frame_of(rdd, java.schema(), frame.sparkSession)

    def pinned_rdd(self, rdd: Any, homes: Sequence[str]) -> Any:
        """An RDD with the same elements, whose partition i prefers executor `homes[i]`."""
        java = self._wrapped(rdd._jrdd.rdd(), homes).toJavaRDD()
        return RDD(java, rdd.ctx, rdd._jrdd_deserializer)

    def _wrapped(self, rdd: Any, homes: Sequence[str]) -> Any:
        # The machine's name is left out. With it, Spark would regard other executors of the machine as second best, and
        # would wait for those, too, before it runs the task elsewhere.
        places = "\n".join(f"executor_any_{home}" for home in homes)
        arguments = self._gateway.new_array(self._jvm.java.lang.Object, 1)
        arguments[0] = places
        coalescer = self._jvm.scala.Option.apply(self._make.newInstance(arguments))
        return rdd.coalesce(len(homes), False, coalescer, None)

    def _compiled(self) -> Any:
        """The constructor of the coalescer, compiled by Janino, which Spark also uses for its generated code."""
        compiler = self._jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(self._session.getClass().getClassLoader())
        compiler.cook(_JAVA)
        types = self._gateway.new_array(self._jvm.java.lang.Class, 1)
        types[0] = self._jvm.java.lang.Class.forName("java.lang.String")
        return compiler.getClassLoader().loadClass(_CLASS).getConstructor(types)

    def _probe(self) -> None:
        """Raise now, and not in the middle of a job, if this Spark lacks something; also tests the serialization."""
        plain = self._session.range(1)
        wrapped = self._wrapped(plain.queryExecution().toRdd(), ["0"])
        self._jvm.org.apache.commons.lang3.SerializationUtils.clone(wrapped)
        _frame_of(wrapped, plain.schema(), self._spark)


def _frame_of(rdd: Any, schema: Any, spark: SparkSession) -> DataFrame:
    session: Any = spark._jsparkSession
    return ClassicDataFrame(session.internalCreateDataFrame(rdd, schema, False), spark)


def _never_wait(conf: Any) -> None:
    """Let an engine whose executor is busy or gone run elsewhere at once, unless the user has set how long to wait.

    Spark reads the setting for every stage, and by default waits three seconds. It concerns only tasks that prefer a
    certain executor: engines, and tasks over cached tables.
    """
    if not conf.contains(WAIT) and not conf.contains("spark.locality.wait"):
        conf.set(WAIT, "0s")
