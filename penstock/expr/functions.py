"""The scalar functions and operators that a query may use, by their DuckDB names.

This is an allow list of deterministic functions: each returns the same value for the same arguments at any time and in
any process, because an epoch that is run again must compute the same rows. Functions that read a clock, a random number
generator or the environment are refused by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from penstock.errors import QueryError, did_you_mean


@dataclass(frozen=True)
class Function:
    """A function or operator and its number of arguments. `at_most` is None if there is no upper limit."""

    name: str
    at_least: int
    at_most: int | None

    def takes(self, count: int) -> bool:
        """Return whether the function can be called with `count` arguments."""
        return self.at_least <= count and (self.at_most is None or count <= self.at_most)

    @property
    def arity(self) -> str:
        """Return the accepted numbers of arguments as text for messages."""
        if self.at_most is None:
            return f"{self.at_least} or more arguments"
        if self.at_least == self.at_most:
            return f"{self.at_least} argument{'' if self.at_least == 1 else 's'}"
        return f"{self.at_least} to {self.at_most} arguments"


_BY_ARITY: tuple[tuple[int, int | None, str], ...] = (
    # Operators and special syntax of SQL. `-` with one argument is negation.
    (1, 2, "-"),
    (2, 2, "+ * / // % = <> < <= > >= is_distinct_from is_not_distinct_from"),
    (1, 1, "not is_null is_not_null"),
    (2, None, "and or in ||"),
    (3, 3, "between if"),
    (2, 3, "like ilike"),  # the third argument is the escape character
    (1, None, "coalesce"),
    (2, 2, "nullif ifnull"),
    # Numbers.
    (1, 1, "abs ceil ceiling floor trunc sqrt cbrt exp ln log2 log10 sign sin cos tan asin acos atan radians degrees"),
    (1, 1, "isnan isinf isfinite bit_count"),
    (0, 0, "pi"),
    (1, 2, "round log"),
    (2, 2, "pow power mod atan2 gcd lcm xor & | << >>"),
    (1, None, "greatest least"),
    # Text.
    (1, 1, "lower upper length strlen reverse ascii chr md5 sha256 hex"),
    (1, 2, "trim ltrim rtrim"),
    (2, 2, "left right starts_with ends_with prefix suffix contains strpos instr repeat levenshtein"),
    (2, 3, "substring substr regexp_matches regexp_full_match"),
    (2, 4, "regexp_extract"),
    (3, 4, "regexp_replace"),
    (3, 3, "replace split_part lpad rpad translate"),
    (1, None, "concat"),
    (2, None, "concat_ws"),
    (2, 2, "json_extract_string"),
    # Nested values. `len` counts the elements of an array, `cardinality` the entries of a map.
    (1, 1, "to_json len cardinality map_keys map_values"),
    (2, 2, "struct_extract array_extract list_extract list_contains map_contains map_extract_value"),
    (2, 2, "array_to_string"),
    # Time.
    (2, 2, "date_trunc date_part strftime strptime try_strptime"),
    (3, 3, "date_diff datediff make_date"),
    (2, 3, "time_bucket"),
    (1, 6, "make_timestamp"),
    (1, 1, "year quarter month week day hour minute second dayofweek isodow dayofyear dayname monthname last_day"),
    (1, 1, "epoch epoch_ms epoch_us to_timestamp"),
    (1, 1, "to_weeks to_days to_hours to_minutes to_seconds to_milliseconds to_microseconds"),
)


def _functions() -> Iterator[tuple[str, Function]]:
    """Yield each allowed function by name."""
    for at_least, at_most, names in _BY_ARITY:
        for name in names.split():
            yield name, Function(name, at_least, at_most)


FUNCTIONS: Mapping[str, Function] = MappingProxyType(dict(_functions()))

ALIASES: Mapping[str, str] = MappingProxyType({"!=": "<>", "==": "=", "extract": "date_part", "isnull": "is_null"})

_CLOCK, _CHANCE, _ENVIRONMENT = "it reads the clock", "it returns a new value on each call", "it reads the environment"
_BY_REASON = {
    _CLOCK: "now today current_date current_time current_timestamp localtime localtimestamp get_current_time "
    "get_current_timestamp transaction_timestamp age",
    _CHANCE: "random rand setseed uuid gen_random_uuid uuidv4 uuidv7 nextval currval setval",
    _ENVIRONMENT: "getenv current_setting getvariable version current_user current_role session_user user "
    "current_database current_schema current_schemas current_query txid_current sleep_ms write_log read_text read_blob",
}
REFUSED: Mapping[str, str] = MappingProxyType(
    {name: reason for reason, names in _BY_REASON.items() for name in names.split()}
)


def require_function(name: str, argument_count: int) -> Function:
    """Return the function called `name`, ignoring case. Raises QueryError if it is unknown, refused, or does not take
    `argument_count` arguments."""
    folded = name.lower()
    known = FUNCTIONS.get(ALIASES.get(folded, folded))
    if known is None:
        raise _refusal(name, folded)
    if not known.takes(argument_count):
        example = ", ".join("abcdef"[: max(known.at_least, 1) if known.at_most != 0 else 0])
        hint = f"write it as in {known.name}({example})" if known.name[:1].isalpha() else f"give it {known.arity}"
        raise QueryError(f"`{known.name}` takes {known.arity}, not {argument_count}", hint=hint)
    return known


def _refusal(name: str, folded: str) -> QueryError:
    """Return the error for a function that is unknown or not deterministic."""
    if folded not in REFUSED:
        return QueryError(f"unknown function `{name}`", hint=did_you_mean(folded, FUNCTIONS))
    hint = "use the event time of the row, which is a column" if REFUSED[folded] == _CLOCK else "use a column instead"
    return QueryError(
        f"`{name}` cannot be used in a continuous query",
        detail=f"{REFUSED[folded]}, and an epoch that is run again must compute the same value",
        hint=hint,
    )
