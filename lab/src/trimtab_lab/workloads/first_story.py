"""First story detection: which tweets are about something new among the last ones with the same key.

The application of Zacheilas et al. (2016), Listing 1.1, as a user's own operator. Tweets are keyed by a locality
sensitive hash of their words (`fingerprints.py`), so similar tweets tend to share a key. A tweet is a first story
if the largest cosine similarity to the last `history` tweets of its key is at most `tau`:

    SELECT * FROM first_story(TABLE(tweets) PARTITION BY fingerprint ORDER BY ts, history => 500, tau => 0.2)

References: Zacheilas et al., DAIS 2016, section 4; Petrovic et al., NAACL 2010.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trimtab.engine.keyed.description import KeyedOperator, Snapshot, operator
from trimtab_lab.workloads.nearest_tweet import Int32Array, compare

NOTHING_IS_ENOUGH = 2.0


@operator("first_story")
@dataclass(frozen=True)
class FirstStory(KeyedOperator):
    """Reports tweets that are unlike the last ones of their key.

    It reads the columns `id` (bigint) and `terms` (array<int>): the hashes of all words, in any order, repeated for
    repeated words. Tweets without terms are skipped. The output has a row for each first story: its `id`, the largest
    `similarity` found, and with how many tweets it was `compared`.

    Attributes:
        history: how many tweets of a key a new one is compared with, at most.
        tau: the similarity up to which a tweet is a first story; cosines of counts are between 0 and 1.
        exhaustive: compare with all of these tweets even after one is similar enough, as the paper's rule does. The
            answer is the same, but each tweet then costs about the same: for experiments with an expensive operator.
        wait_us: microseconds to sleep per row, in one sleep per call: a simulated cost, for experiments with more
            engines than cores.
    """

    history: int = 500
    tau: float = 0.2
    exhaustive: bool = False
    wait_us: float = 0.0

    columns = ("id", "terms")
    output = pa.schema([("id", pa.int64()), ("similarity", pa.float64()), ("compared", pa.int64())])
    # The last tweets as little-endian numbers: their terms (int32), sorted within each, and how many each has (uint16).
    state = pa.schema([("terms", pa.binary()), ("lengths", pa.binary())])

    def __post_init__(self) -> None:
        """Raise ValueError for a history or a wait that is out of range."""
        if self.history < 1:
            raise ValueError(f"history is {self.history}: there is nothing to compare with")
        if self.wait_us < 0:
            raise ValueError(f"wait_us is {self.wait_us}: time doesn't run backwards")

    def open(self, snapshot: Snapshot | None) -> LastTweets:
        """Go on with the tweets that the snapshot has."""
        return LastTweets(self, *((snapshot["terms"], snapshot["lengths"]) if snapshot else (b"", b"")))


@dataclass(slots=True)
class LastTweets:
    """The last tweets of one key."""

    description: FirstStory
    terms: bytes
    lengths: bytes

    def on_rows(self, rows: pa.Table) -> pa.Table | None:
        """Compare the new tweets with those before, and remember the last ones."""
        description = self.description
        if description.wait_us:
            time.sleep(len(rows) * description.wait_us * 1e-6)
        enough = NOTHING_IS_ENOUGH if description.exhaustive else description.tau
        terms, lengths, places, similarities, compared = compare(
            np.frombuffer(self.terms, "<i4"),
            np.frombuffer(self.lengths, "<u2"),
            *_terms(rows.column("terms")),
            description.history,
            description.tau,
            enough,
        )
        self.terms, self.lengths = terms.tobytes(), lengths.tobytes()
        if not len(places):
            return None
        found = [rows.column("id").take(pa.array(places)), pa.array(similarities), pa.array(compared)]
        return pa.table(found, schema=FirstStory.output)

    def snapshot(self) -> Snapshot | None:
        """The last tweets; none before the first one."""
        return {"terms": self.terms, "lengths": self.lengths} if self.lengths else None


def _terms(column: pa.ChunkedArray) -> tuple[Int32Array, Int32Array]:
    """The terms of all tweets, tweet after tweet, and where each tweet's begin."""
    array = column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
    if array.null_count:  # null counts as an empty list
        lengths = pc.list_value_length(array).fill_null(0)
        offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths)])
        array = pa.ListArray.from_arrays(offsets, array.flatten())
    values = array.values
    if values.type != pa.int32():
        raise ValueError(f"terms is an array of {values.type}, and has to be array<int>")
    if values.null_count:
        raise ValueError("a tweet has a term that is null")
    return values.to_numpy(), array.offsets.to_numpy()
