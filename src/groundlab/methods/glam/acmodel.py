"""BabyAI's ACModel in its form `expert_filmcnn`: a view, a mission and a memory to a policy and a value.

Convolutions over the 7 x 7 view, two FiLM blocks (Perez et al. 2018) that a GRU over the mission's words steers, an
LSTM cell as memory. Words have fixed numbers instead of the original's order of first appearance. Source: spec
glam-agents 4. Called from: `symbolic.py`.
"""

import re
from functools import lru_cache

import torch
from torch import Tensor, nn

from groundlab.core.errors import unknown_name

WIDTH = 128
MEMORY = 2 * WIDTH  # hidden state and cell
VOCABULARY = 100  # rows of the word embedding; 0 is padding
WORDS = (
    *("go", "to", "the", "a", "red", "green", "blue", "purple", "yellow", "grey", "key", "ball", "box", "door"),
    *("pick", "up", "open", "put", "next", "then", "after", "you"),
)


class FilmBlock(nn.Module):
    """Two convolutions whose channels the instruction scales and shifts (Perez et al. 2018)."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = (nn.Conv2d(WIDTH, WIDTH, 3, padding=1) for _ in range(2))
        self.bn1, self.bn2 = nn.BatchNorm2d(WIDTH), nn.BatchNorm2d(WIDTH)
        self.weight, self.bias = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, instruction: Tensor) -> Tensor:
        """Features [N, 128, H, W] and instructions [N, 128] to features of the same shape."""
        x = self.conv2(torch.relu(self.bn1(self.conv1(x))))
        scale, shift = self.weight(instruction), self.bias(instruction)
        return torch.relu(self.bn2(x * scale[:, :, None, None] + shift[:, :, None, None]))


class ACModel(nn.Module):
    """Policy and value of a view, a mission and a memory; 1,068,103 parameters with six actions."""

    def __init__(self, actions: int = 6):
        super().__init__()
        self.image_conv = nn.Sequential(
            *(nn.Conv2d(3, WIDTH, 2, padding=1), nn.BatchNorm2d(WIDTH), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(WIDTH, WIDTH, 3, padding=1), nn.BatchNorm2d(WIDTH), nn.ReLU(), nn.MaxPool2d(2)),
        )
        self.word_embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.instr_rnn = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.film = nn.ModuleList([FilmBlock(), FilmBlock()])
        self.memory_rnn = nn.LSTMCell(WIDTH, WIDTH)
        self.actor = nn.Sequential(nn.Linear(WIDTH, 64), nn.Tanh(), nn.Linear(64, actions))
        self.critic = nn.Sequential(nn.Linear(WIDTH, 64), nn.Tanh(), nn.Linear(64, 1))
        self.apply(_unit_rows)

    def forward(self, images: Tensor, words: Tensor, memory: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Views [N, 7, 7, 3], word numbers int64 [N, L] (0: none), memories [N, 256] = hidden and cell.

        Returns (log-probabilities [N, A], values [N], new memories [N, 256]).
        """
        instruction = self._read(words)
        x = self.image_conv(images.float().permute(0, 3, 1, 2))
        for block in self.film:
            x = block(x, instruction)
        x = torch.relu(nn.functional.max_pool2d(x, 2)).flatten(1)
        hidden, cell = self.memory_rnn(x, (memory[:, :WIDTH], memory[:, WIDTH:]))
        return self.actor(hidden).log_softmax(-1), self.critic(hidden)[:, 0], torch.cat([hidden, cell], 1)

    def _read(self, words: Tensor) -> Tensor:
        """The GRU's output [N, 128] at each mission's last word; equal missions are read once."""
        unique, places = torch.unique(words, dim=0, return_inverse=True)
        outputs, _ = self.instr_rnn(self.word_embedding(unique))
        last = (unique != 0).sum(1) - 1
        return outputs[torch.arange(len(unique)), last][places]


def _unit_rows(module: nn.Module) -> None:
    """BabyAI's start of linear layers: normal rows of length one, no bias."""
    if isinstance(module, nn.Linear):
        nn.init.normal_(module.weight)
        with torch.no_grad():
            module.weight /= module.weight.norm(dim=1, keepdim=True)
        nn.init.zeros_(module.bias)


@lru_cache(maxsize=65536)
def _numbers(mission: str) -> tuple[int, ...]:
    words = re.findall("[a-z]+", mission.lower())
    for word in words:
        if word not in WORDS:
            raise unknown_name("word in a mission", word, WORDS, "the symbolic agent reads only these")
    return tuple(WORDS.index(word) + 1 for word in words)


def word_numbers(missions: list[str]) -> Tensor:
    """Word numbers int64 [N, longest], padded on the right with 0. Raises GroundlabError for an unknown word."""
    rows = [_numbers(mission) for mission in missions]
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows])
