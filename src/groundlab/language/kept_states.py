"""States of a causal model's frozen layers, kept for each different prompt: training runs only the layers above.

    kept = KeptStates(model, layers=22)        # layers 0 to 21 are frozen
    states = kept.read(rows, branches)         # [P, U, d]: `prefix_states`, differentiable in the layers above
    states = kept.features(rows, branches)     # [P, U, d]: of the model cut off after layer 21, without gradient

Frozen layers read each prompt alone: what is kept depends on model, layer, precision and text, not on the batch that a
prompt comes in. So a result does not depend on what is kept either. Features may also be kept on disk (`FeatureStore`),
where all seeds of an agent, and runs that go on, find them.
"""

import copy
import sqlite3
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from safetensors.torch import save
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.utils.rnn import pad_sequence

from groundlab.core import numerics
from groundlab.core.errors import GroundlabError
from groundlab.core.paths import user_cache
from groundlab.core.storage import digest_bytes, digest_json, make_folder
from groundlab.language.models import base_of, layer_count
from groundlab.language.prefix_batching import ActionTree, Tokens, may_share, read_tree

KEPT_BYTES = 2**30
"""Memory that kept states take at most; those that were not read for the longest time leave first."""
_CUTS = 0, 4, 24
"""Tokens after which a prompt of at least twice as many is cut: what many prompts begin with is read once, alone too.
4 is there for the prompts of nine tokens that a model is checked with."""
_BEGINNINGS = 64


class KeptStates:
    """Reads prompts through a model whose first layers are frozen. Raises GroundlabError if it has no such layers.

    stored: whether features are kept in the user's cache for other runs, too.
    """

    def __init__(self, model: nn.Module, layers: int, stored: bool = False):
        base = base_of(model)
        if base.config.is_encoder_decoder or not hasattr(base.get_decoder(), "layers"):
            kind = type(base).__name__
            raise GroundlabError(f"expected a causal model with decoder layers, got {kind}; give lora_layers=0")
        if not 1 <= layers <= layer_count(base):
            raise GroundlabError(f"expected 1 to {layer_count(base)} frozen layers, got {layers}; give another number")
        body: Any = base.get_decoder()
        self._body, self._frozen, self._others = body, [*body.layers[:layers]], [*body.layers[layers:]]
        self._kept = OrderedDict[Any, Tensor]()
        self.size = 0  # in bytes
        self._cuts = _CUTS if may_share(body, 2) else _CUTS[:1]
        self._beginnings = OrderedDict[Any, tuple[Tensor, Any]]()
        self._store = None
        if stored:
            with suppress(OSError, sqlite3.Error, GroundlabError):  # then they are computed in each run
                self._store = FeatureStore(user_cache("features"), base, layers)

    def clear(self) -> None:
        """Forget all states: they are computed again, to the same bytes."""
        self._kept.clear()
        self._beginnings.clear()
        self.size = 0

    def read(self, rows: Sequence[Tokens], branches: ActionTree) -> Tensor:
        """Return final states at each distinct prefix after each prompt, [P, U, d]; layers above read them together."""
        kept = [self._states(row, branches, [*self._others, self._body.norm]) for row in rows]
        mask = pad_sequence([torch.ones(len(row), dtype=torch.int64) for row in rows], True, 0.0, "left")
        states = pad_sequence(kept, True, 0.0, "left")
        # of bfloat16, the other kernels take three times as long on a CPU when a gradient follows
        with left_out(self._frozen), sdpa_kernel(SDPBackend.MATH):
            found = read_tree(self._body, mask.to(states.device), branches, inputs_embeds=states, use_cache=False)
        return found[:, mask.shape[1] - 1 :][:, branches.columns]

    def features(self, rows: Sequence[Tokens], branches: ActionTree) -> Tensor:
        """Return the same of the model without its other layers, [P, U, d]: what is kept is all there is to read."""
        return torch.stack([self._features(row, branches)[branches.columns] for row in rows])

    def _features(self, row: Tokens, branches: ActionTree) -> Tensor:
        key = digest_json([row, branches.tokens.tolist(), branches.depths.tolist()])
        if self._store and (found := self._store.get(key)) is not None:
            return found.to(branches.tokens.device)
        found = self._states(row, branches, self._others, len(row) - 1)
        if self._store:
            self._store.put(key, found)
        return found

    def _states(self, row: Tokens, branches: ActionTree, others: list[nn.Module], first: int = 0) -> Tensor:
        """States [T, d] of a prompt and the actions behind it, from token `first` on."""
        key = (row, first, *branches.tokens.tolist(), *branches.depths.tolist())
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        cut = max(size for size in self._cuts if 2 * size <= len(row))
        ids = torch.cat([torch.tensor(row[cut:], device=branches.tokens.device), branches.tokens[1:]])[None]
        with torch.no_grad(), left_out(others):
            mask = torch.ones(1, len(row) - cut, dtype=torch.int64, device=ids.device)
            states, cache = self._beginning(row[:cut], ids.device, others) if cut else (ids.new_empty(0), None)
            given = {"input_ids": ids, "past_key_values": cache, "use_cache": cache is not None}
            found = read_tree(self._body, mask, branches, cut, **given)[0]
            found = found[first - cut :].clone() if first >= cut else torch.cat([states, found])
        self._kept[key] = found
        self.size += found.nbytes
        while self.size > KEPT_BYTES:
            self.size -= self._kept.popitem(last=False)[1].nbytes
        return found

    def _beginning(self, tokens: Tokens, device: torch.device, others: list[nn.Module]) -> tuple[Tensor, Any]:
        """States [T, d] of a prompt's first tokens, and a cache with their keys and values that may be added to."""
        key = (tokens, len(others))
        if key not in self._beginnings:
            if len(self._beginnings) >= _BEGINNINGS:
                self._beginnings.popitem(last=False)
            read = self._body(input_ids=torch.tensor([tokens], device=device), use_cache=True)
            self._beginnings[key] = read.last_hidden_state[0], read.past_key_values
        states, cache = self._beginnings[key]
        own = copy.copy(cache)
        own.layers = [copy.copy(layer) for layer in cache.layers]
        return states, own


class FeatureStore:
    """Features of prompts on disk, in one SQLite file for each model, layer, precision and kind of CPU.

    Processes may share it, and deleting it changes no result. Raises OSError or sqlite3.Error where it cannot be
    written.
    """

    def __init__(self, folder: Path, model: nn.Module, layers: int):
        weights = {name: each.detach().cpu().contiguous() for name, each in model.state_dict().items()}
        rounding = [numerics.held(), numerics.cpu_kind(), torch.__version__, model.device.type]
        known_by = digest_json([digest_bytes(save(_apart(weights))), layers, rounding])[:16]
        self._dtype: torch.dtype = next(model.parameters()).dtype
        file = make_folder(folder) / f"{known_by}.sqlite"
        self._rows = sqlite3.connect(file, timeout=600, isolation_level=None)
        self._rows.execute("PRAGMA journal_mode=WAL")
        self._rows.execute("CREATE TABLE IF NOT EXISTS features (prompt TEXT PRIMARY KEY, states BLOB, width INT)")

    def get(self, prompt: str) -> Tensor | None:
        """Return the features of a prompt, [T, d], or None."""
        found = self._rows.execute("SELECT states, width FROM features WHERE prompt = ?", [prompt]).fetchone()
        return torch.frombuffer(bytearray(found[0]), dtype=self._dtype).view(-1, found[1]) if found else None

    def put(self, prompt: str, states: Tensor) -> None:
        """Keep the features of a prompt."""
        content = states.cpu().contiguous().view(torch.uint8).numpy().tobytes()
        with suppress(sqlite3.Error):  # a full disk
            self._rows.execute("INSERT OR IGNORE INTO features VALUES (?, ?, ?)", [prompt, content, states.shape[1]])


def _apart(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Leave out weights that share memory with others, such as tied embeddings."""
    return dict({each.data_ptr(): (name, each) for name, each in weights.items()}.values())


@contextmanager
def left_out(modules: Sequence[nn.Module]) -> Iterator[None]:
    """Inside, these layers hand on what they are given."""
    with ExitStack() as stack:
        for module in modules:
            stack.enter_context(patch.object(module, "forward", lambda states, *_, **__: states))
        yield
