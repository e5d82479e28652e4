"""Replay memory: the latest transitions, sampled without replacement, and the token sequences that they refer to.

    memory = Replay(5_000_000, np.dtype([("state", "i4"), ("action", "i1"), ("reward", "f4")]))
    memory.push(rows); batch = memory.sample(64, rng)

DRRN's memory is called prioritised, but its share of preferred transitions is 0 (docs/papers/glam-method.md#agents-3),
so all transitions are alike here. A checkpoint holds all of it (`state`, `load`).
"""

from itertools import pairwise

import numpy as np

Random = np.random.Generator | np.random.RandomState
_FIRST_ROOM = 1024
_PREFIX, _EMPTY, _PLACE = "ordinary.", "preferred.", "next place"  # in a checkpoint, as version 1.1.0 wrote it


class Replay:
    """The last `capacity` rows of one structured type; storage grows as rows come."""

    def __init__(self, capacity: int, row: np.dtype):
        self._capacity, self._rows = capacity, np.zeros(min(capacity, _FIRST_ROOM), row)
        self._names = row.names or ()
        self._size, self._next = 0, 0

    def __len__(self) -> int:
        return self._size

    @property
    def rows(self) -> np.ndarray:
        """All stored rows, in the order of their slots."""
        return self._rows[: self._size]

    def push(self, rows: np.ndarray) -> None:
        """Add rows [n], the oldest giving way."""
        while self._size + len(rows) > len(self._rows) < self._capacity:
            room = np.zeros(min(self._capacity, 2 * len(self._rows)), self._rows.dtype)
            room[: self._size] = self.rows
            self._rows = room
        self._rows[(self._next + np.arange(len(rows))) % self._capacity] = rows
        self._next = (self._next + len(rows)) % self._capacity
        self._size = min(self._size + len(rows), self._capacity)

    def sample(self, count: int, rng: Random) -> np.ndarray:
        """Return at most `count` rows, each at most once."""
        batch = self.rows[rng.choice(self._size, min(count, self._size), replace=False) if self._size else slice(0)]
        rng.shuffle(batch)
        return batch

    def state(self) -> dict[str, np.ndarray]:
        """Return all rows and the next slot, as named arrays; the memory of preferred ones, always empty, as well."""
        parts = {_EMPTY: (self.rows[:0], 0), _PREFIX: (self.rows, self._next)}
        columns = {f"{part}{name}": rows[name].copy() for part, (rows, _) in parts.items() for name in self._names}
        return columns | {f"{part}{_PLACE}": np.array([slot]) for part, (_, slot) in parts.items()}

    def load(self, state: dict[str, np.ndarray]) -> None:
        """Take over what `state` gave."""
        columns = {name: state[f"{_PREFIX}{name}"] for name in self._names}
        rows = np.zeros(len(next(iter(columns.values()))), self._rows.dtype)
        for name, column in columns.items():
            rows[name] = column
        self._size, self._next = 0, 0
        self.push(rows)
        self._next = int(state[f"{_PREFIX}{_PLACE}"][0])


class Sequences:
    """Token sequences, each stored once, known by the order in which they came."""

    def __init__(self):
        self._numbers: dict[bytes, int] = {}
        self._tokens: list[np.ndarray] = []

    def number(self, tokens: list[int]) -> int:
        """The number of a sequence of ids below 65,536, which is added if it is new."""
        compact = np.array(tokens, np.uint16)
        number = self._numbers.setdefault(compact.tobytes(), len(self._tokens))
        if number == len(self._tokens):
            self._tokens.append(compact)
        return number

    def padded(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Ids int64 [N, longest], padded on the right with 0, and lengths int64 [N]."""
        rows = [self._tokens[number] for number in numbers.tolist()]
        lengths = np.array([len(row) for row in rows])
        ids = np.zeros((len(rows), int(lengths.max())), np.int64)
        ids[np.arange(ids.shape[1]) < lengths[:, None]] = np.concatenate(rows)
        return ids, lengths

    def state(self) -> dict[str, np.ndarray]:
        """All sequences, one after the other, and their ends."""
        tokens = np.concatenate(self._tokens) if self._tokens else np.zeros(0, np.uint16)
        return {"tokens": tokens, "ends": np.cumsum([len(row) for row in self._tokens], dtype=np.int64)}

    def load(self, state: dict[str, np.ndarray]) -> None:
        """Take over what `state` gave."""
        self.__init__()
        for start, end in pairwise([0, *state["ends"].tolist()]):
            self.number(state["tokens"][start:end].tolist())
