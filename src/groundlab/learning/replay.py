"""Replay memory: the latest transitions, sampled without replacement, and the token sequences that they refer to.

    memory = Replay(5_000_000, np.dtype([("state", "i4"), ("action", "i1"), ("reward", "f4")]))
    memory.push(rows); batch = memory.sample(64, rng)

DRRN's memory is called prioritised, and takes no notice of priority: its share of preferred transitions is 0
(docs/papers/glam-method.md#agents-3). Both are here: `priority_fraction` of a batch comes from the preferred ones,
which have a ring of their
own. A checkpoint holds all of it (`state`, `load`).
"""

from itertools import pairwise

import numpy as np

Random = np.random.Generator | np.random.RandomState
_FIRST_ROOM = 1024
_PLACE = "next place"  # in a checkpoint; no column has a name with a blank


class _Ring:
    """The last `capacity` rows; memory is taken as they come."""

    def __init__(self, capacity: int, row: np.dtype):
        self._capacity, self._rows = capacity, np.zeros(min(capacity, _FIRST_ROOM), row)
        self.size, self._next = 0, 0

    def push(self, rows: np.ndarray) -> None:
        if not len(rows):
            return
        while self.size + len(rows) > len(self._rows) < self._capacity:
            room = np.zeros(min(self._capacity, 2 * len(self._rows)), self._rows.dtype)
            room[: self.size] = self._rows[: self.size]
            self._rows = room
        places = (self._next + np.arange(len(rows))) % self._capacity
        self._rows[places] = rows
        self._next = (self._next + len(rows)) % self._capacity
        self.size = min(self.size + len(rows), self._capacity)

    def __getitem__(self, places: np.ndarray | slice) -> np.ndarray:
        return self._rows[: self.size][places]

    def state(self) -> dict[str, np.ndarray]:
        columns = {name: self[:][name].copy() for name in self._rows.dtype.names or ()}
        return {**columns, _PLACE: np.array([self._next])}

    def load(self, state: dict[str, np.ndarray]) -> None:
        count = len(next(array for name, array in state.items() if name != _PLACE))
        rows = np.zeros(count, self._rows.dtype)
        for name in rows.dtype.names or ():
            rows[name] = state[name]
        self.size, self._next = 0, 0
        self.push(rows)
        self._next = int(state[_PLACE][0])


class Replay:
    """At most `capacity` rows of one structured type, of which preferred ones have `priority_fraction` of the room.

    sample(count, rng) draws without replacement, the preferred share first, and shuffles; where one ring is too
    short the batch is smaller, as the original's.
    """

    def __init__(self, capacity: int, row: np.dtype, priority_fraction: float = 0.0):
        preferred = int(capacity * priority_fraction)
        self._fraction = priority_fraction
        self._preferred, self._ordinary = _Ring(preferred, row), _Ring(capacity - preferred, row)

    def __len__(self) -> int:
        return self._preferred.size + self._ordinary.size

    @property
    def rows(self) -> np.ndarray:
        """Everything held, preferred rows first, each ring in the order of its places."""
        return np.concatenate([self._preferred[:], self._ordinary[:]])

    def push(self, rows: np.ndarray, preferred: np.ndarray | None = None) -> None:
        """Add rows [n], the oldest giving way; `preferred` bool [n] has no effect where their share is 0."""
        chosen = np.zeros(len(rows), np.bool_) if preferred is None or not self._fraction else preferred
        self._preferred.push(rows[chosen])
        self._ordinary.push(rows[~chosen])

    def sample(self, count: int, rng: Random) -> np.ndarray:
        """At most `count` rows, each at most once."""
        wanted = int(self._fraction * count)
        parts = [self._draw(ring, share, rng) for ring, share in self._shares(wanted, count - wanted)]
        batch = np.concatenate(parts)
        rng.shuffle(batch)
        return batch

    def _shares(self, preferred: int, ordinary: int) -> list[tuple[_Ring, int]]:
        shares = ((self._preferred, preferred), (self._ordinary, ordinary))
        return [(ring, share) for ring, share in shares if share]

    @staticmethod
    def _draw(ring: _Ring, count: int, rng: Random) -> np.ndarray:
        return ring[rng.choice(ring.size, min(count, ring.size), replace=False) if ring.size else slice(0)]

    def state(self) -> dict[str, np.ndarray]:
        """All rows and where the next ones go, as named arrays."""
        rings = {"preferred": self._preferred, "ordinary": self._ordinary}
        return {f"{ring}.{name}": array for ring, each in rings.items() for name, array in each.state().items()}

    def load(self, state: dict[str, np.ndarray]) -> None:
        """Take over what `state` gave."""
        for name, ring in (("preferred", self._preferred), ("ordinary", self._ordinary)):
            ring.load({key.split(".")[1]: array for key, array in state.items() if key.startswith(f"{name}.")})


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
