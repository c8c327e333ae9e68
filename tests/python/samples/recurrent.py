"""Recurrent layers as ATen calls: two layers in both directions; a projected state; no biases. Also
one direction of one layer, and its gradients, as training records them."""

from __future__ import annotations

from aten_case import Case, T, a, f

import habana_frameworks.torch.ops.recurrent  # noqa: F401  (its ops)


def layers(gates: int) -> list[T]:
    """Weights of two recurrent layers in both directions: 4 features, a state of 5."""
    return [
        t
        for columns in (4, 4, 10, 10)
        for t in (f(gates, columns), f(gates, 5), f(gates), f(gates))
    ]


# Kind, state and weights, for 2 sequences, 4 features and a state of 5.
DIRECTIONS = [
    ("lstm", [f(2, 5), f(2, 5)], [f(20, 4), f(20, 5), f(20), f(20)]),
    ("lstm", [f(2, 3), f(2, 5)], [f(20, 4), f(20, 3), f(3, 5)]),
    ("gru", [f(2, 5)], [f(15, 4), f(15, 5), f(15), f(15)]),
    ("gru", [f(2, 5)], [f(15, 4), f(15, 5)]),
    ("rnn_tanh", [f(2, 5)], [f(5, 4), f(5, 5), f(5), f(5)]),
    ("rnn_relu", [f(2, 5)], [f(5, 4), f(5, 5)]),
]

RECURRENT = [
    a("lstm.input", f(3, 2, 4), [f(4, 2, 5)] * 2, layers(20), True, 2, 0.0, False, True, False),
    a(
        "lstm.input",
        f(2, 3, 4),
        [f(1, 2, 3), f(1, 2, 5)],
        [f(20, 4), f(20, 3), f(20), f(20), f(3, 5)],
        *(True, 1, 0.0, False, False, True),
    ),
    a("gru.input", f(3, 2, 4), f(4, 2, 5), layers(15), True, 2, 0.0, False, True, False),
    a(
        "gru.input",
        f(1, 2, 4),
        f(1, 2, 5),
        [f(15, 4), f(15, 5)],
        *(False, 1, 0.0, False, False, False),
    ),
    a("rnn_tanh.input", f(2, 3, 4), f(4, 2, 5), layers(5), True, 2, 0.0, False, True, True),
    a("rnn_relu.input", f(2, 3, 4), f(4, 2, 5), layers(5), True, 2, 0.0, True, True, True),
    *(
        Case(f"hpu.{name}.default", kind, *grads, f(3, 2, 4), states, weights, reverse)
        for kind, states, weights in DIRECTIONS
        for name, grads, reverse in (
            ("recurrent_layer", (), False),
            ("recurrent_layer", (), True),
            ("recurrent_layer_backward", ([f(3, 2, states[0].sizes[1]), *states],), False),
            ("recurrent_layer_backward", ([None, *states],), True),
            ("recurrent_layer_backward", ([f(3, 2, states[0].sizes[1]), None, *states[1:]],), True),
        )
    ),
]
