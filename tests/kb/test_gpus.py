"""GPU specifications: dense rates that agree with the units, and names without a fallback."""

import pytest

from kb.errors import InvalidInputError
from kb.gpus import (
    all_specs,
    data_file,
    find_gpu,
    find_spec,
    gpu_names,
    load_specs,
)

# Dense operations per SM and clock, an FMA counted as two, by architecture: CUDA programming guide,
# "Throughput of Native Arithmetic Instructions", and the white papers for the tensor cores.
PER_CLOCK = {
    "sm_80": {"fp64": 64, "fp64_tensor": 128, "fp32": 128, "tf32": 1024, "fp16": 2048,
              "bf16": 2048, "int8": 4096},
    "sm_86": {"fp64": 4, "fp32": 256, "tf32": 512, "fp16": 1024, "bf16": 1024, "int8": 2048},
    "sm_89": {"fp64": 4, "fp32": 256, "tf32": 512, "fp16": 1024, "bf16": 1024, "fp8": 2048,
              "int8": 2048},
    "sm_90a": {"fp64": 128, "fp64_tensor": 256, "fp32": 256, "tf32": 2048, "fp16": 4096,
               "bf16": 4096, "fp8": 8192, "int8": 8192},
    "sm_100a": {"fp64": 128, "fp64_tensor": 128, "fp32": 256, "tf32": 4096, "fp16": 8192,
                "bf16": 8192, "fp8": 16384, "int8": 16384, "fp4": 32768},
    "sm_120a": {"fp64": 4, "fp32": 256, "tf32": 512, "fp16": 1024, "bf16": 1024, "fp8": 2048,
                "int8": 2048, "fp4": 8192},
}  # fmt: skip
# GeForce tensor cores run at half rate with FP32 accumulation (fp4 of the RTX 50 series as well).
HALVED_ON_GEFORCE = {"tf32", "fp16", "bf16", "fp8", "fp4"}

OWN = """\
My Card:
  architecture: sm_90
  aliases: [NVIDIA Own]
  sms: 100
  boost_mhz: 1000
  memory_gib: 16
  memory_gbps: 1000
  l2_mib: 30
  shared_kib_per_sm: 228
  shared_kib_per_block: 227
  threads_per_sm: 2048
  blocks_per_sm: 32
  dense_tflops: {fp32: 25.6}
"""


def test_every_spelling_means_one_card_and_families_share_an_architecture():
    owner = {}
    for spec in all_specs().values():
        for spelling in spec.spellings:
            assert owner.setdefault(spelling, spec.name) == spec.name
    for family in gpu_names():
        members = [spec for spec in all_specs().values() if spec.family == family]
        assert {spec.architecture for spec in members} == {find_gpu(family).architecture}


@pytest.mark.parametrize("name", all_specs())
def test_rates_are_dense_and_agree_with_units_and_clock(name):
    spec = all_specs()[name]
    expected = PER_CLOCK[spec.architecture]
    assert set(spec.dense_tflops) == set(expected)
    for rate, tflops in spec.dense_tflops.items():
        per_clock = expected[rate]
        if name.startswith("RTX") and rate in HALVED_ON_GEFORCE:
            per_clock /= 2
        ceiling = per_clock * spec.sms * spec.boost_mhz * 1e6 / 1e12
        # Tensor rates may be rated at a lower clock, never at a higher one; a sparse rate is 2.
        assert 0.84 < tflops / ceiling < 1.02, (rate, tflops, ceiling)


@pytest.mark.parametrize("name", all_specs())
def test_every_card_cites_the_vendor(name):
    assert any("nvidia.com" in source.url for source in all_specs()[name].sources)


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB"),
        ("NVIDIA A100-PCIE-40GB", "A100-PCIe-40GB"),
        ("NVIDIA A100 80GB PCIe", "A100-PCIe-80GB"),
        ("NVIDIA H100 80GB HBM3", "H100-SXM"),
        ("NVIDIA H100 PCIe", "H100-PCIe"),
        ("NVIDIA H100 NVL", "H100-NVL"),
        ("NVIDIA H200", "H200"),
        ("nvidia b200", "B200"),
        ("NVIDIA GB200", "GB200"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA A10", "A10"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("rtx5080", "RTX 5080"),
        ("GeForce RTX 5090", "RTX 5090"),
    ],
)
def test_a_card_is_found_by_what_the_driver_and_people_call_it(spelling, name):
    assert find_spec(spelling) is all_specs()[name]
    assert find_gpu(spelling).architecture == all_specs()[name].architecture


def test_an_unknown_gpu_stops_with_all_names_and_how_to_add_one():
    with pytest.raises(InvalidInputError) as raised:
        find_spec("Voodoo 2")
    message = str(raised.value)
    assert all(name in message for name in all_specs())
    assert "--gpu-spec" in message
    assert data_file() in message


def test_a_family_of_several_cards_is_no_card():
    with pytest.raises(InvalidInputError, match="H100-SXM, H100-PCIe, H100-NVL"):
        find_spec("h100")
    assert find_gpu("h100").architecture == "sm_90a"
    assert find_spec("h200").name == "H200"


def test_rates_are_given_by_torch_dtype_names():
    h200 = find_spec("H200")
    assert h200.dense_flops("torch.bfloat16") == 989.5e12
    assert h200.dense_flops("float32") == 67e12
    assert h200.dense_flops("tf32") == 494.5e12
    assert h200.dense_flops("float8_e4m3fn") == 1979e12
    assert h200.dense_flops("nvfp4") is None
    assert find_spec("B200").dense_flops("nvfp4") == 9000e12


def test_a_users_file_adds_a_card(tmp_path):
    file = tmp_path / "own.yaml"
    file.write_text(OWN)
    own = load_specs(file)
    assert find_spec("nvidia own", own).sms == 100
    assert find_spec("My-Card", own).family == "My Card"
    assert find_spec("H200", own).name == "H200"


def test_a_users_file_overrules_the_shipped_card_of_the_same_name(tmp_path):
    file = tmp_path / "own.yaml"
    file.write_text(OWN.replace("My Card", "H200").replace("[NVIDIA Own]", "[]"))
    assert find_spec("H200", load_specs(file)).sms == 100


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (OWN.replace("  sms: 100\n", ""), "'My Card': missing key 'sms'"),
        (OWN.replace("sms: 100", "sms: -1"), "sms: Input should be greater than 0"),
        (OWN + "  colour: red\n", "unknown key 'colour'"),
        (OWN.replace("fp32: 25.6", "fp33: 25.6"), "fp33"),
        (OWN.replace("sm_90\n", "hopper\n"), "'hopper' is not an architecture"),
        (OWN.replace("memory_gbps: 1000", "memory_gbps: .inf"), "memory_gbps: "),
        ("- a\n- b\n", "must map a GPU's name"),
        ("", "must map a GPU's name"),
        ("My Card: 7\n", "'My Card' must hold keys"),
        ("a: [1\nb: }\n", "is not YAML"),
        ("a: !!python/object/apply:os.system [id]\n", "is not YAML"),
    ],
)
def test_a_wrong_file_is_an_error_that_names_file_entry_and_key(tmp_path, text, says):
    file = tmp_path / "own.yaml"
    file.write_text(text)
    with pytest.raises(InvalidInputError) as raised:
        load_specs(file)
    assert says in str(raised.value)
    assert "own.yaml" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(InvalidInputError, match=r"none\.yaml: No such file"):
        load_specs(tmp_path / "none.yaml")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidInputError, match="not UTF-8"):
        load_specs(tmp_path / "bytes")
