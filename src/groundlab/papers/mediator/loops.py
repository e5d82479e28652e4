"""The frame network in compiled loops: its values, its gradient, and PPO's update.

What torch's layers compute, one image after the other. An image has few cells that changed and a rectified layer has
many zeros, so each loop goes from an input that is not zero to all that it adds to; torch's convolutions took most of
their time to start. Sums are added in another order than torch's: results agree to rounding (tested).

    frame [10, 10, C] -> pooled [4, 4, 16] -> second [3, 3, 32] -> third [2, 2, 64] -> hidden [128] -> logits, value

Row 10 and column 10 of the first layer's output (9 x 9) are in no pool, so they are never computed.
"""

import math
from typing import NamedTuple

import numpy as np

from groundlab.core.compiled import compiled_sums, inlined_sums

POOLED, SECOND, THIRD, HALF, HIDDEN = 16, 32, 64, 64, 128
_ONE, _ZERO, _TWO = np.float32(1), np.float32(0), np.float32(2)
_NORM_EPSILON = np.float32(1e-6)  # torch's clip_grad_norm_


class Arrays(NamedTuple):
    """Weights float32, inputs before outputs; a gradient has the same shapes."""

    first: np.ndarray  # [2, 2, C, 16]
    first_bias: np.ndarray  # [16]
    second: np.ndarray  # [2, 16, 2 * 32], the later of two columns first: see _convolve
    second_bias: np.ndarray  # [32]
    third: np.ndarray  # [2, 32, 2 * 64]
    third_bias: np.ndarray  # [64]
    hidden: np.ndarray  # [256, 128], the actor's half before the critic's
    hidden_bias: np.ndarray  # [128]
    logits: np.ndarray  # [64, A]
    logits_bias: np.ndarray  # [A]
    value: np.ndarray  # [64]
    value_bias: np.ndarray  # [1]


class Layers(NamedTuple):
    """What the layers give for one image, or the gradient with respect to it."""

    pooled: np.ndarray  # float32 [4, 4 * 16]
    place: np.ndarray  # int32 [4, 4 * 16]: which cell of the pool was the largest, -1 where none was above 0
    second: np.ndarray  # float32 [3, 3 * 32]
    third: np.ndarray  # float32 [2, 2 * 64]
    hidden: np.ndarray  # float32 [128]
    logits: np.ndarray  # float32 [A]
    value: np.ndarray  # float32 [1]


class Decisions(NamedTuple):
    """Those of a batch: ppo.Batch in NumPy, with normalised advantages."""

    inputs: np.ndarray  # float32 [N, 10, 10, C]
    actions: np.ndarray  # int64 [N]
    log_probs: np.ndarray  # float32 [N]
    values: np.ndarray  # float32 [N]
    returns: np.ndarray  # float32 [N]
    advantages: np.ndarray  # float32 [N]


class Coefficients(NamedTuple):
    """PPO's, and Adam's; float32 but for the count of steps taken and what depends on it."""

    clip: np.float32
    entropy: np.float32
    value: np.float32
    max_norm: np.float32
    rate: float
    beta1: float
    beta2: float
    epsilon: float
    steps: int


def empty_layers(outputs: int) -> Layers:
    """Room for one image."""
    shapes = ((4, 4 * POOLED), (4, 4 * POOLED), (3, 3 * SECOND), (2, 2 * THIRD), (HIDDEN,), (outputs,), (1,))
    pooled, place, *others = (np.zeros(shape, np.float32) for shape in shapes)
    return Layers(pooled, place.astype(np.int32), *others)


@inlined_sums
def _pool(weights, bias, frame, pooled, place):
    """The first convolution, the largest of each pool, rectified."""
    outputs, channels = bias.size, frame.shape[2]
    sums = np.empty(outputs, np.float32)
    for x in range(4):
        for y in range(4):
            start = y * outputs
            for o in range(outputs):
                pooled[x, start + o], place[x, start + o] = _ZERO, np.int32(-1)
            for cell in range(4):
                for o in range(outputs):
                    sums[o] = bias[o]
                for dx in range(2):
                    for dy in range(2):
                        for c in range(channels):
                            given = frame[2 * x + cell // 2 + dx, 2 * y + cell % 2 + dy, c]
                            if given != 0:
                                for o in range(outputs):
                                    sums[o] += given * weights[dx, dy, c, o]
                for o in range(outputs):
                    larger = sums[o] > pooled[x, start + o]
                    pooled[x, start + o] = sums[o] if larger else pooled[x, start + o]
                    place[x, start + o] = np.int32(cell) if larger else place[x, start + o]


@inlined_sums
def _reached(y, size, outputs):
    """What an input of column y adds to: (where in a row of outputs, where in a row of weights, how many)."""
    first, last = max(0, y - 1), min(size - 1, y)
    pieces = first * outputs, (1 - y + first) * outputs, (last - first + 1) * outputs
    return np.uint64(pieces[0]), np.uint64(pieces[1]), np.uint64(pieces[2])  # else each index is asked for its sign


@inlined_sums
def _convolve(weights, bias, given, to):
    """A 2 x 2 convolution, rectified: given [size + 1, (size + 1) * inputs] to [size, size * outputs].

    An input adds to two columns of outputs in one piece, so their weights lie in the columns' order.
    """
    size, inputs, outputs = to.shape[0], weights.shape[1], bias.size
    for x in range(size):
        for y in range(size):
            for o in range(outputs):
                to[x, y * outputs + o] = bias[o]
    for x in range(size + 1):
        for y in range(size + 1):
            at, weight, width = _reached(y, size, outputs)
            for c in range(inputs):
                value = given[x, y * inputs + c]
                if value != 0:
                    for dx in range(max(0, x - size + 1), min(x, 1) + 1):
                        for o in range(width):
                            to[x - dx, at + o] += value * weights[dx, c, weight + o]
    for x in range(size):
        for o in range(to.shape[1]):
            to[x, o] = max(to[x, o], _ZERO)


@inlined_sums
def _forward(weights, frame, layers):
    """Fill `layers` from one image."""
    _pool(weights.first, weights.first_bias, frame, layers.pooled, layers.place)
    _convolve(weights.second, weights.second_bias, layers.pooled, layers.second)
    _convolve(weights.third, weights.third_bias, layers.second, layers.third)
    hidden, matrix = layers.hidden, weights.hidden
    for h in range(HIDDEN):
        hidden[h] = weights.hidden_bias[h]
    for i in range(matrix.shape[0]):
        value = layers.third[i // (2 * THIRD), i % (2 * THIRD)]
        if value != 0:
            for h in range(HIDDEN):
                hidden[h] += value * matrix[i, h]
    for h in range(HIDDEN):
        hidden[h] = np.float32(math.tanh(hidden[h]))
    for a in range(layers.logits.size):
        total = weights.logits_bias[a]
        for h in range(HALF):
            total += hidden[h] * weights.logits[h, a]
        layers.logits[a] = total
    total = weights.value_bias[0]
    for h in range(HALF):
        total += hidden[HALF + h] * weights.value[h]
    layers.value[0] = total


@inlined_sums
def _log_softmax(logits):
    """In place."""
    largest = logits[0]
    for a in range(1, logits.size):
        largest = max(largest, logits[a])
    total = _ZERO
    for a in range(logits.size):
        total += math.exp(logits[a] - largest)
    shift = largest + math.log(total)
    for a in range(logits.size):
        logits[a] -= shift


@compiled_sums
def act(weights, frames, layers, log_probs, values):
    """Log-probabilities [n, A] and values [n] of frames [n, 10, 10, C]; each of its own image alone."""
    for n in range(frames.shape[0]):
        _forward(weights, frames[n], layers)
        _log_softmax(layers.logits)
        log_probs[n] = layers.logits
        values[n] = layers.value[0]


@inlined_sums
def _pool_back(frame, layers, back, grads):
    outputs = grads.first_bias.size
    chosen = np.empty(outputs, np.float32)
    for x in range(4):
        for y in range(4):
            start = y * outputs
            for o in range(outputs):
                grads.first_bias[o] += back.pooled[x, start + o]
            for cell in range(4):
                for o in range(outputs):
                    chosen[o] = back.pooled[x, start + o] if layers.place[x, start + o] == cell else _ZERO
                for dx in range(2):
                    for dy in range(2):
                        for c in range(frame.shape[2]):
                            given = frame[2 * x + cell // 2 + dx, 2 * y + cell % 2 + dy, c]
                            if given != 0:
                                for o in range(outputs):
                                    grads.first[dx, dy, c, o] += given * chosen[o]


@inlined_sums
def _convolve_back(weights, given, back, back_given, grads, grads_bias):
    """Add to the gradients of weights and bias; `back_given` gets that of `given`, which was rectified."""
    size, inputs, outputs = back.shape[0], weights.shape[1], grads_bias.size
    for x in range(size):
        for y in range(size):
            for o in range(outputs):
                grads_bias[o] += back[x, y * outputs + o]
    for x in range(size + 1):
        for y in range(size + 1):
            at, weight, width = _reached(y, size, outputs)
            for c in range(inputs):
                value, total = given[x, y * inputs + c], _ZERO
                if value != 0:
                    for dx in range(max(0, x - size + 1), min(x, 1) + 1):
                        for o in range(width):
                            error = back[x - dx, at + o]
                            total += error * weights[dx, c, weight + o]
                            grads[dx, c, weight + o] += value * error
                back_given[x, y * inputs + c] = total


@inlined_sums
def _backward(weights, frame, layers, back, grads):
    """Add one image's part to `grads`, from the gradients of its logits and its value in `back`."""
    hidden = layers.hidden
    for h in range(HALF):
        total = _ZERO
        for a in range(back.logits.size):
            total += back.logits[a] * weights.logits[h, a]
            grads.logits[h, a] += back.logits[a] * hidden[h]
        back.hidden[h] = total
        back.hidden[HALF + h] = back.value[0] * weights.value[h]
        grads.value[h] += back.value[0] * hidden[HALF + h]
    for a in range(back.logits.size):
        grads.logits_bias[a] += back.logits[a]
    grads.value_bias[0] += back.value[0]
    for h in range(HIDDEN):
        back.hidden[h] *= _ONE - hidden[h] * hidden[h]
        grads.hidden_bias[h] += back.hidden[h]
    for i in range(weights.hidden.shape[0]):
        x, place = i // (2 * THIRD), i % (2 * THIRD)
        value, total = layers.third[x, place], _ZERO
        if value != 0:
            for h in range(HIDDEN):
                total += back.hidden[h] * weights.hidden[i, h]
                grads.hidden[i, h] += value * back.hidden[h]
        back.third[x, place] = total
    _convolve_back(weights.third, layers.second, back.third, back.second, grads.third, grads.third_bias)
    _convolve_back(weights.second, layers.pooled, back.second, back.pooled, grads.second, grads.second_bias)
    _pool_back(frame, layers, back, grads)


@inlined_sums
def _loss(decisions, n, size, coefficients, layers, back, losses):
    """ppo.losses_of for decision n of a minibatch of `size`: its share in `losses` [4], its gradient in `back`."""
    _log_softmax(layers.logits)
    action, clip, share = decisions.actions[n], coefficients.clip, _ONE / np.float32(size)
    advantage, target = decisions.advantages[n], decisions.returns[n]
    ratio = np.float32(math.exp(layers.logits[action] - decisions.log_probs[n]))
    free, held = ratio * advantage, min(max(ratio, _ONE - clip), _ONE + clip) * advantage
    pull = -free * share if free <= held else _ZERO
    entropy = _ZERO
    for a in range(layers.logits.size):
        entropy -= np.float32(math.exp(layers.logits[a])) * layers.logits[a]
    for a in range(layers.logits.size):
        p = np.float32(math.exp(layers.logits[a]))
        back.logits[a] = coefficients.entropy * share * p * (layers.logits[a] + entropy) - pull * p
    back.logits[action] += pull
    change = layers.value[0] - decisions.values[n]
    near = decisions.values[n] + min(max(change, -clip), clip)
    far_error, near_error = layers.value[0] - target, near - target
    error = far_error if abs(change) <= clip or abs(far_error) >= abs(near_error) else _ZERO
    back.value[0] = coefficients.value * _TWO * share * error
    policy, value = -min(free, held) * share, max(far_error * far_error, near_error * near_error) * share
    losses[0] += policy - coefficients.entropy * entropy * share + coefficients.value * value
    losses[1] += policy
    losses[2] += value
    losses[3] += entropy * share


@inlined_sums
def _adam(flat, grads, mean, square, step, coefficients):
    """One step of Adam on flat arrays, with the gradient scaled to at most `max_norm`; leaves `grads` at zero."""
    norm = _ZERO
    for i in range(flat.size):
        norm += grads[i] * grads[i]
    scale = min(coefficients.max_norm / (np.float32(math.sqrt(norm)) + _NORM_EPSILON), _ONE)
    beta1, beta2, epsilon = coefficients.beta1, coefficients.beta2, np.float32(coefficients.epsilon)
    rate = np.float32(coefficients.rate / (1 - beta1**step))
    root = np.float32(math.sqrt(1 - beta2**step))
    keep, new, new_square = np.float32(beta2), np.float32(1 - beta1), np.float32(1 - beta2)
    for i in range(flat.size):
        grad = grads[i] * scale
        mean[i] += new * (grad - mean[i])
        square[i] = square[i] * keep + new_square * grad * grad
        flat[i] -= rate * mean[i] / (np.sqrt(square[i]) / root + epsilon)
        grads[i] = _ZERO


@compiled_sums
def update(weights, grads, flats, layers, back, decisions, minibatches, coefficients, losses):
    """PPO on minibatches int64 [M, size] of decisions, in this order; `losses` float32 [M, 4] gets those of each.

    `flats`: (weights, gradient, first moment, second moment), float32 [W] each; `weights` and `grads` lie in the
    first two.
    """
    flat, flat_grads, mean, square = flats
    for m in range(minibatches.shape[0]):
        losses[m] = _ZERO
        for n in minibatches[m]:
            _forward(weights, decisions.inputs[n], layers)
            _loss(decisions, n, minibatches.shape[1], coefficients, layers, back, losses[m])
            _backward(weights, decisions.inputs[n], layers, back, grads)
        _adam(flat, flat_grads, mean, square, coefficients.steps + m + 1, coefficients)
