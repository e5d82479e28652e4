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
    second: np.ndarray  # [2, 2, 16, 32]
    second_bias: np.ndarray  # [32]
    third: np.ndarray  # [2, 2, 32, 64]
    third_bias: np.ndarray  # [64]
    hidden: np.ndarray  # [2, 2, 64, 128], the actor's half before the critic's
    hidden_bias: np.ndarray  # [128]
    logits: np.ndarray  # [64, A]
    logits_bias: np.ndarray  # [A]
    value: np.ndarray  # [64]
    value_bias: np.ndarray  # [1]


class Layers(NamedTuple):
    """What the layers give for one image, or the gradient with respect to it."""

    pooled: np.ndarray  # float32 [4, 4, 16]
    place: np.ndarray  # int32 [4, 4, 16]: which cell of the pool was the largest, -1 where none was above 0
    second: np.ndarray  # float32 [3, 3, 32]
    third: np.ndarray  # float32 [2, 2, 64]
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
    shapes = ((4, 4, POOLED), (4, 4, POOLED), (3, 3, SECOND), (2, 2, THIRD), (HIDDEN,), (outputs,), (1,))
    arrays = [np.zeros(shape, np.float32) for shape in shapes]
    arrays[1] = arrays[1].astype(np.int32)
    return Layers(*arrays)


@inlined_sums
def _pool(weights, bias, frame, pooled, place):
    """The first convolution, the largest of each pool, rectified."""
    sums = np.empty(POOLED, np.float32)
    channels = frame.shape[2]
    for x in range(4):
        for y in range(4):
            for o in range(POOLED):
                pooled[x, y, o], place[x, y, o] = _ZERO, np.int32(-1)
            for cell in range(4):
                for o in range(POOLED):
                    sums[o] = bias[o]
                for dx in range(2):
                    for dy in range(2):
                        for c in range(channels):
                            given = frame[2 * x + cell // 2 + dx, 2 * y + cell % 2 + dy, c]
                            if given != 0:
                                for o in range(POOLED):
                                    sums[o] += given * weights[dx, dy, c, o]
                for o in range(POOLED):
                    larger = sums[o] > pooled[x, y, o]
                    pooled[x, y, o] = sums[o] if larger else pooled[x, y, o]
                    place[x, y, o] = np.int32(cell) if larger else place[x, y, o]


@inlined_sums
def _convolve(weights, bias, given, size, inputs, outputs, to):
    """A 2 x 2 convolution, rectified: given [size + 1, size + 1, inputs] to [size, size, outputs]."""
    for x in range(size):
        for y in range(size):
            for o in range(outputs):
                to[x, y, o] = bias[o]
    for x in range(size + 1):
        for y in range(size + 1):
            for c in range(inputs):
                value = given[x, y, c]
                if value != 0:
                    for dx in range(max(0, x - size + 1), min(x, 1) + 1):
                        for dy in range(max(0, y - size + 1), min(y, 1) + 1):
                            for o in range(outputs):
                                to[x - dx, y - dy, o] += value * weights[dx, dy, c, o]
    for x in range(size):
        for y in range(size):
            for o in range(outputs):
                to[x, y, o] = max(to[x, y, o], _ZERO)


@inlined_sums
def _forward(weights, frame, layers):
    """Fill `layers` from one image."""
    _pool(weights.first, weights.first_bias, frame, layers.pooled, layers.place)
    _convolve(weights.second, weights.second_bias, layers.pooled, 3, POOLED, SECOND, layers.second)
    _convolve(weights.third, weights.third_bias, layers.second, 2, SECOND, THIRD, layers.third)
    hidden, matrix = layers.hidden, weights.hidden
    for h in range(HIDDEN):
        hidden[h] = weights.hidden_bias[h]
    for x in range(2):
        for y in range(2):
            for c in range(THIRD):
                value = layers.third[x, y, c]
                if value != 0:
                    for h in range(HIDDEN):
                        hidden[h] += value * matrix[x, y, c, h]
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
    chosen = np.empty(POOLED, np.float32)
    for x in range(4):
        for y in range(4):
            for o in range(POOLED):
                grads.first_bias[o] += back.pooled[x, y, o]
            for cell in range(4):
                for o in range(POOLED):
                    chosen[o] = back.pooled[x, y, o] if layers.place[x, y, o] == cell else _ZERO
                for dx in range(2):
                    for dy in range(2):
                        for c in range(frame.shape[2]):
                            given = frame[2 * x + cell // 2 + dx, 2 * y + cell % 2 + dy, c]
                            if given != 0:
                                for o in range(POOLED):
                                    grads.first[dx, dy, c, o] += given * chosen[o]


@inlined_sums
def _convolve_back(weights, given, size, inputs, outputs, back, back_given, grads, grads_bias):
    """Add to the gradients of weights and bias; `back_given` gets that of `given`, which was rectified."""
    for x in range(size):
        for y in range(size):
            for o in range(outputs):
                grads_bias[o] += back[x, y, o]
    for x in range(size + 1):
        for y in range(size + 1):
            for c in range(inputs):
                value, total = given[x, y, c], _ZERO
                if value != 0:
                    for dx in range(max(0, x - size + 1), min(x, 1) + 1):
                        for dy in range(max(0, y - size + 1), min(y, 1) + 1):
                            for o in range(outputs):
                                error = back[x - dx, y - dy, o]
                                total += error * weights[dx, dy, c, o]
                                grads[dx, dy, c, o] += value * error
                back_given[x, y, c] = total


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
    for x in range(2):
        for y in range(2):
            for c in range(THIRD):
                value, total = layers.third[x, y, c], _ZERO
                if value != 0:
                    for h in range(HIDDEN):
                        total += back.hidden[h] * weights.hidden[x, y, c, h]
                        grads.hidden[x, y, c, h] += value * back.hidden[h]
                back.third[x, y, c] = total
    _convolve_back(
        weights.third, layers.second, 2, SECOND, THIRD, back.third, back.second, grads.third, grads.third_bias
    )
    _convolve_back(
        weights.second, layers.pooled, 3, POOLED, SECOND, back.second, back.pooled, grads.second, grads.second_bias
    )
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
