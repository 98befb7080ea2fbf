"""All public names of `penstock`, which imports them from here on first use."""

from penstock.api import policies, read
from penstock.api.aggregates import (
    avg,
    count,
    count_distinct,
    first,
    last,
    max,
    min,
    stddev,
    stddev_pop,
    sum,
    var_pop,
    variance,
)
from penstock.api.columns import call, col, lit, when
from penstock.api.connectors import register_sink, register_source
from penstock.api.handle import Run
from penstock.api.nodes import asc, desc
from penstock.api.policies import register_policy
from penstock.api.progress import ordered, punctuated, slack
from penstock.api.run_state import Progress
from penstock.api.streams import Stream, join_all
from penstock.api.windows import rows, session, sliding, tumbling
from penstock.connectors.sinks.sink import SinkConnector
from penstock.connectors.source import (
    AcknowledgingReader,
    AttachedConnector,
    ListingConnector,
    Offer,
    Reader,
    ReadResult,
    SizedSplit,
    SourceConnector,
    Split,
    SubstreamReader,
)
from penstock.errors import PenstockError, PenstockWarning
from penstock.version import __version__

__all__ = [
    "AcknowledgingReader", "AttachedConnector", "ListingConnector", "Offer", "PenstockError", "PenstockWarning",
    "Progress", "ReadResult", "Reader", "Run", "SinkConnector", "SizedSplit", "SourceConnector", "Split", "Stream",
    "SubstreamReader", "__version__", "asc", "avg", "call", "col", "count", "count_distinct", "desc", "first",
    "join_all", "last", "lit", "max", "min", "ordered", "policies", "punctuated", "read", "register_policy",
    "register_sink", "register_source", "rows", "session", "slack", "sliding", "stddev", "stddev_pop", "sum",
    "tumbling", "var_pop", "variance", "when",
]  # fmt: skip
