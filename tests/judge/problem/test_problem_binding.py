"""kernel_function's arguments: inputs by position, the rest by name."""

import pytest

from judge.problem.binding import BindingError, bind

TENSORS = ["conv.weight", "conv.bias"]
ATTRIBUTES = {
    "conv.stride": [2, 2], "conv.padding": [1, 1], "conv.groups": 1, "conv.training": False,
    "eps": 1e-5, "stride": 2,
}  # fmt: skip


def arguments(function, inputs=1, tensors=TENSORS, attributes=ATTRIBUTES):
    binding = bind(function, inputs, tensors, attributes)
    return binding.arguments([f"in{i}" for i in range(inputs)], {name: name for name in tensors})


def test_inputs_fill_the_parameters_in_order():
    assert arguments(lambda a, b: None, 2) == (["in0", "in1"], {})


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x, weight, bias: 0, ["in0", "conv.weight", "conv.bias"]),
        (lambda x, conv_weight, conv_bias: 0, ["in0", "conv.weight", "conv.bias"]),
        (lambda x, w, b: 0, ["in0", "conv.weight", "conv.bias"]),
        (lambda x, gamma, beta: 0, ["in0", "conv.weight", "conv.bias"]),
        (lambda x, conv2d_weight: 0, ["in0", "conv.weight"]),
        (lambda x, weight, stride, padding: 0, ["in0", "conv.weight", (2, 2), (1, 1)]),
        (lambda x, weight, conv_stride, groups: 0, ["in0", "conv.weight", (2, 2), 1]),
        (lambda x, eps: 0, ["in0", 1e-5]),
        (lambda weight, x: 0, ["conv.weight", "in0"]),
    ],
)
def test_what_inputs_leave_is_found_by_name(function, expected):
    assert arguments(function) == (expected, {})


def test_a_parameter_that_is_an_integer_gets_one_for_equal_sizes():
    def by_default(x, stride=1, padding=0):
        return x

    def by_annotation(x, stride: int, padding: "int"):
        return x

    assert arguments(by_default) == (["in0", 2, 1], {})
    assert arguments(by_annotation) == (["in0", 2, 1], {})


def test_defaults_are_kept_where_nothing_matches():
    def kernel(x, block=128, bias=None, *, num_warps=4, eps=1e-6):
        return (x, block, bias, num_warps, eps)

    assert arguments(kernel) == (["in0"], {"bias": "conv.bias", "eps": 1e-5})
    binding = bind(kernel, 1, TENSORS, ATTRIBUTES)
    called = binding.call(kernel, ["x"], {"conv.weight": 1, "conv.bias": 2})
    assert called == ("x", 128, 2, 4, 1e-5)


def test_a_parameter_annotated_as_a_tensor_takes_no_number():
    def kernel(x, global_scale: "torch.Tensor | None" = None, bias: "Tensor" = 3):  # noqa: F821
        return x

    attributes = {"global_scale": 1.0, "conv.bias": None}
    assert arguments(kernel, tensors=[], attributes=attributes) == (["in0"], {"bias": None})
    assert arguments(lambda x, global_scale: 0, tensors=[], attributes=attributes) == (
        ["in0", 1.0], {},
    )  # fmt: skip


def test_star_args_get_inputs_then_all_tensors_in_order():
    assert arguments(lambda *args: 0, 2) == (["in0", "in1", "conv.weight", "conv.bias"], {})
    assert arguments(lambda x, *args: 0, 2) == (["in0", "in1", "conv.weight", "conv.bias"], {})
    assert arguments(lambda *args: 0, 1, tensors=[]) == (["in0"], {})


def test_star_kwargs_get_the_layers_configuration():
    found = arguments(lambda x, *args, **kwargs: 0)
    assert found[1] == {"stride": 2, "padding": 1, "groups": 1, "eps": 1e-5}


def test_a_missing_bias_is_none_where_the_model_says_so():
    attributes = {"conv.bias": None}
    assert arguments(lambda x, weight, bias: 0, tensors=["conv.weight"], attributes=attributes) == (
        ["in0", "conv.weight", None], {},
    )  # fmt: skip


def test_the_models_own_bias_beside_a_layers():
    tensors = ["bias", "conv.weight", "conv.bias"]
    assert arguments(lambda x, weight, bias, add_bias: 0, tensors=tensors) == (
        ["in0", "conv.weight", "conv.bias", "bias"], {},
    )  # fmt: skip
    assert arguments(lambda x, conv_weight, conv_bias, bias: 0, tensors=tensors) == (
        ["in0", "conv.weight", "conv.bias", "bias"], {},
    )  # fmt: skip


def test_full_names_are_served_before_short_ones():
    tensors = ["norm.weight", "block.conv.weight"]
    assert arguments(lambda x, weight, conv_weight: 0, tensors=tensors) == (
        ["in0", "norm.weight", "block.conv.weight"], {},
    )  # fmt: skip


def test_what_is_ambiguous_is_named_with_its_candidates():
    tensors = ["conv1.weight", "conv2.weight"]
    with pytest.raises(BindingError, match=r"'weight' is ambiguous: conv1\.weight, conv2\.weight"):
        arguments(lambda x, weight: 0, tensors=tensors)
    attributes = {"a.stride": 1, "b.stride": 2}
    with pytest.raises(BindingError, match=r"'stride' is ambiguous: a\.stride, b\.stride"):
        arguments(lambda x, stride: 0, attributes=attributes)
    assert arguments(lambda x, stride=7: 0, attributes=attributes) == (["in0"], {})
    same = {"a.stride": [1, 1], "b.stride": 1}
    assert arguments(lambda x, stride: 0, attributes=same) == (["in0", (1, 1)], {})


def test_what_is_missing_is_named_with_what_there_is():
    with pytest.raises(
        BindingError, match=r"'scale' matches nothing: tensors conv\.bias, conv\.weight; attributes"
    ):
        arguments(lambda x, scale: 0)


def test_more_inputs_than_parameters_are_refused():
    with pytest.raises(BindingError, match="takes 1 positional arguments, but the problem has 2"):
        arguments(lambda x: 0, 2)


def test_training_is_no_attribute_to_bind():
    with pytest.raises(BindingError, match="'training' matches nothing"):
        arguments(lambda x, training: 0)


def test_a_parameter_before_star_args_that_nothing_fills_is_refused():
    with pytest.raises(BindingError, match=r"before \*args"):
        arguments(lambda x, block=3, *args: 0)
