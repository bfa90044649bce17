"""What Opacus, Flower and CSV files say, and that no file, however hostile, does more than end in an InputError."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pickle
import pickletools
import struct
import subprocess
import sys
import zipfile
from collections import OrderedDict
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import patience
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from dpbudget import importers
from dpbudget.budgetfile import load, to_releases
from dpbudget.budgetfile.edit import append_release, template
from dpbudget.errors import InputError
from dpbudget.importers import safepickle, states
from dpbudget.model import Adjacency, Release, SampledGaussian, Sampling

STATES = Path(__file__).parent / "data" / "states"
HISTORY = [(1.3, 0.05, 60), (0.9, 0.05, 40)]
OPACUS = [Release(SampledGaussian(sigma, rate), steps) for sigma, rate, steps in HISTORY]


@pytest.mark.parametrize("name", ["opacus_rdp.json", "opacus_prv.json", "opacus_rdp.pt", "opacus_prv.pt"])
def test_opacus_states(name: str) -> None:
    state = importers.opacus(STATES / name)
    assert state.releases() == OPACUS
    assert (state.tool, state.accountant) == ("Opacus", name[7:10])
    assert (state.adjacency, state.sampling, state.unit) == (Adjacency.ADD_OR_REMOVE_ONE, Sampling.POISSON, "example")
    assert state.delta is None
    assert any("Poisson sampling is assumed" in note for note in state.notes)
    assert state.explanation


@pytest.mark.parametrize(
    ("name", "adjacency", "sampling", "rates"),
    [
        ("poisson_add_or_remove_one", Adjacency.ADD_OR_REMOVE_ONE, Sampling.POISSON, (0.02, 0.04)),
        ("without_replacement_replace_one", Adjacency.REPLACE_ONE, Sampling.FIXED_SIZE, (0.02, 0.04)),
        ("no_amplification_add_or_remove_one", Adjacency.ADD_OR_REMOVE_ONE, Sampling.FULL_BATCH, (1.0, 1.0)),
    ],
)
def test_flower_states(name: str, adjacency: Adjacency, sampling: Sampling, rates: tuple[float, float]) -> None:
    state = importers.flower(STATES / f"flower_{name}.json")
    assert state.releases() == [
        Release(SampledGaussian(1.2, rates[0], sampling), 200),
        Release(SampledGaussian(1.5, rates[1], sampling), 50),
    ]
    assert (state.adjacency, state.unit, state.accountant) == (adjacency, "client", "rdp")
    assert (state.delta, state.max_epsilon) == (1e-6, 6.0)


def test_the_two_readings_of_flowers_replace_one_state() -> None:
    path = STATES / "flower_without_replacement_replace_one.json"
    clipping, sensitivity = importers.flower(path), importers.flower(path, noise_relative_to="sensitivity")
    assert [entry["noise_multiplier"] for entry in clipping.entries] == [1.2, 1.5]
    assert [entry["noise_multiplier"] for entry in sensitivity.entries] == [2.4, 3.0]
    assert "twice the clipping norm" in clipping.notes[1]
    # Only under replace-one is there a difference.
    poisson = STATES / "flower_poisson_add_or_remove_one.json"
    assert importers.flower(poisson, noise_relative_to="sensitivity").entries == importers.flower(poisson).entries
    with pytest.raises(InputError, match="is not one of"):
        importers.flower(path, noise_relative_to="noise")


@pytest.mark.parametrize("name", sorted(path.name for path in STATES.glob("*_*")))
def test_entries_can_be_appended_and_read_back(name: str) -> None:
    state = (importers.opacus if name.startswith("opacus") else importers.flower)(STATES / name)
    text = template(adjacency=state.adjacency).replace('"solve"', "1.0", 1).split("# One entry")[0]
    for entry in state.entries:
        text = append_release(text, entry)
    document = load(text, filename="b.toml")
    found = [part for release in document.releases for part in to_releases(release, document.budget.adjacency)]
    assert found == state.releases()
    assert all(release.spent for release in document.releases)


def zipped(data: bytes, name: str = "x/data.pkl", **options: Any) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", **options) as archive:
        archive.writestr(name, data)
    return stream.getvalue()


def saved(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "state.pt"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("kind", ["zip", "pickle", "torch before 1.6"])
@pytest.mark.parametrize("container", [dict, OrderedDict])
def test_every_protocol_and_wrapping(tmp_path: Path, protocol: int, kind: str, container: type) -> None:
    state = container(history=HISTORY, mechanism="prv")
    checkpoint = {"module_state_dict": {}, "privacy_accountant_state_dict": state, "lr": [0.1, {1: (2, None)}]}
    data = pickle.dumps(checkpoint, protocol=protocol)
    if kind == "zip":
        data = zipped(data)
    elif kind == "torch before 1.6":
        head = [0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}]
        data = b"".join(pickle.dumps(part, protocol=protocol) for part in head) + data + pickle.dumps(["0"]) + b"\1\2\3"
    result = importers.opacus(saved(tmp_path, data))
    assert result.releases() == OPACUS
    assert result.accountant == "prv"


class Accountant:
    def __init__(self) -> None:
        self.history = HISTORY


@pytest.mark.parametrize("protocol", range(6))
def test_a_pickled_accountant_and_numpy_scalars(tmp_path: Path, protocol: int) -> None:
    assert importers.opacus(saved(tmp_path, pickle.dumps(Accountant(), protocol=protocol))).releases() == OPACUS
    history = [(np.float64(1.3), np.float64(0.05), np.int64(60)), [np.float64(0.9), 0.05, np.int32(40)]]
    data = pickle.dumps({"history": history}, protocol=protocol)
    assert importers.opacus(saved(tmp_path, data)).releases() == OPACUS


def test_the_mechanism_of_older_versions_is_read_from_the_class_it_names() -> None:
    class_ = safepickle.Opaque("opacus.accountants.rdp.RDPAccountant")
    assert states._mechanism(safepickle.Opaque("builtins.getattr", (class_, "mechanism"))) == "rdp"
    assert states._mechanism(safepickle.Opaque("builtins.getattr", ("x",))) is None


class Evil:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch '{self.path}'",)


@pytest.mark.parametrize("protocol", range(6))
def test_nothing_is_executed(tmp_path: Path, protocol: int) -> None:
    marker = tmp_path / "executed"
    inside = pickle.dumps({"model": Evil(marker), "history": HISTORY}, protocol=protocol)
    assert importers.opacus(saved(tmp_path, zipped(inside))).releases() == OPACUS
    for history in (Evil(marker), [Evil(marker)], [(Evil(marker), 0.05, 1)]):
        data = pickle.dumps({"history": history}, protocol=protocol)
        with pytest.raises(InputError):
            importers.opacus(saved(tmp_path, zipped(data)))
    for call in (b"cos\nsystem\n(S'touch %s'\ntR.", b"(S'touch %s'\nios\nsystem\n.", b"(cos\nsystem\nS'touch %s'\no."):
        with pytest.raises(InputError):
            importers.opacus(saved(tmp_path, call % str(marker).encode()))
    assert not marker.exists()


def deep(count: int) -> bytes:
    return b"\x80\x02" + b"]" * count + b"a" * (count - 1) + b"."


def laughs(levels: int) -> bytes:
    """A tuple that holds the one before twice, 2^levels leaves, used as a key of a dict."""
    return b"\x80\x02}" + b")" + b"2\x86" * levels + b"K\x01s."


HOSTILE = {
    "empty": b"",
    "text": b"sigma,q,steps\n1,1,1\n",
    "a key with 2^400 leaves": laughs(400),
    "a key a million deep": b"\x80\x02}" + b")" + b"\x85" * 900_000 + b"K\x01s.",
    "lists a million deep": deep(490_000),
    "a million marks": b"\x80\x02" + b"(" * 990_000 + b".",
    "too many opcodes": b"\x80\x02" + b"N0" * 20_000_000 + b".",
    "an integer of a gigabyte that is not there": b"\x80\x02\x8b" + struct.pack("<i", 2**30) + b"1.",
    "an integer of ten megabytes": b"\x80\x02\x8b" + struct.pack("<i", 10**7) + b"\x7f" * 10**7 + b".",
    "a million digits": b"I" + b"9" * 10**6 + b"\n.",
    "a string of exabytes": b"\x80\x04\x8d" + struct.pack("<Q", 2**62) + b"x.",
    "colliding keys": b"\x80\x02}(" + b"".join(b"I%d\nN" % (k * (2**61 - 1)) for k in range(200_000)) + b"u.",
    "colliding memo": b"\x80\x02N" + b"".join(b"p%d\n" % (k * (2**61 - 1)) for k in range(200_000)) + b".",
    "a dict merged a million times": b"\x80\x02}q\0("
    + b"X\1\0\0\0aN" * 1000
    + b"ucx\ny\n)R"
    + b"h\0b" * 490_000
    + b".",
    "a list that holds itself": b"\x80\x02]q\0h\0a.",
    "a dict that holds itself": b"\x80\x02}q\0X\1\0\0\0ah\0s.",
    "no stop": b"\x80\x02}",
    "an empty stack": b"\x80\x02.",
    "set items of a number": b"\x80\x02K\1K\1K\1s.",
    "an odd number of items": b"\x80\x02}(K\1u.",
    "a history of numbers": pickle.dumps({"history": [1, 2, 3]}),
    "a history of text": pickle.dumps({"history": [("1", "0.5", "3")]}),
    "a history of flags": pickle.dumps({"history": [(True, 0.5, 3)]}),
    "an empty history": pickle.dumps({"history": []}),
    "a rate above 1": pickle.dumps({"history": [(1.0, 1.5, 3)]}),
    "nan": pickle.dumps({"history": [(float("nan"), 0.5, 3)]}),
    "a fraction of a step": pickle.dumps({"history": [(1.0, 0.5, 2.5)]}),
    "a negative noise": pickle.dumps({"history": [(-1.0, 0.5, 2)]}),
    "huge numbers": pickle.dumps({"history": [(10**400, 0.5, 2)]}),
    "many rows": pickle.dumps({"history": [(1.0, 0.5, 2)] * 200_000}),
    "a zip bomb": zipped(b"\x80\x02" + b"N0" * 50_000_000 + b".", compression=zipfile.ZIP_DEFLATED),
    "a bzip2 bomb": zipped(b"\x80\x02" + b"N0" * 5_000_000 + b".", compression=zipfile.ZIP_BZIP2),
    "a zip without a pickle": zipped(b"", "x/other"),
    "a truncated zip": zipped(pickle.dumps({"history": HISTORY}))[:60],
    "a huge directory": zipped(b"")[:-10] + struct.pack("<II", 2**31, 0) + b"\0\0",
    "a huge zip64 directory": b"PK\3\4"
    + b"PK\6\6"
    + b"\0" * 36
    + struct.pack("<Q", 2**40)
    + b"\0" * 8
    + zipped(b"")[-22:],
    "deep JSON": b"[" * 1_000_000,
    "JSON of a million digits": b'{"history": [[1, 1, 1' + b"0" * 10**6 + b"]]}",
    "JSON of millions of values": b'{"history": [' + b"1.5," * 3_000_000 + b"1]}",
    "JSON with NaN": b'{"history": [[NaN, 0.5, 1]]}',
    "JSON that underflows": b'{"history": [[1e-400, 0.5, 1]]}',
    "JSON that overflows": b'{"history": [[1e400, 0.5, 1]]}',
    "JSON without a history": b"{}",
    "half a surrogate pair": b'{"history": [["\\ud800", 0.5, 1]]}',
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_end_in_an_input_error(tmp_path: Path, name: str) -> None:
    path = saved(tmp_path, HOSTILE[name])
    # The slowest take 2 s; quadratic or exponential ones would take hours.
    with patience(60), pytest.raises(InputError) as caught:
        importers.opacus(path)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 300
    with pytest.raises(InputError):
        importers.flower(path)
    with pytest.raises(InputError):
        importers.read_history(saved(tmp_path, HOSTILE[name].replace(b"sigma", b"sgima")))


def test_more_rows_than_a_history_has(tmp_path: Path) -> None:
    path = saved(tmp_path, b"sigma,q,steps\n" + b"1,1,1\n" * 100_001)
    with pytest.raises(InputError, match="more than 100,000 rows"):
        importers.read_history(path)


LIMITED = """
import resource, sys
from dpbudget.errors import InputError
from dpbudget.importers import opacus
resource.setrlimit(resource.RLIMIT_AS, (10**9, 10**9))
for path in sys.argv[1:]:
    try:
        opacus(path)
    except InputError as error:
        print(error)
"""


def test_hostile_files_fit_into_a_gigabyte(tmp_path: Path) -> None:
    names = ["a zip bomb", "too many opcodes", "a key a million deep", "a huge zip64 directory", "a million marks"]
    paths = []
    for name in names:
        paths.append(tmp_path / name)
        paths[-1].write_bytes(HOSTILE[name])
    run = subprocess.run([sys.executable, "-c", LIMITED, *map(str, paths)], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")
    assert len(run.stdout.splitlines()) == len(names)
    assert "MemoryError" not in run.stdout


def test_files_that_are_not_there(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none", tmp_path / ("x" * 300)):
        for read in (importers.opacus, importers.flower, importers.csv, importers.read_history):
            with pytest.raises(InputError, match="cannot be read"):
                read(path)


@settings(max_examples=150)
@given(st.integers(0, 2428), st.integers(0, 255), st.sampled_from(["opacus_rdp.pt", "opacus_prv.pt"]))
def test_a_damaged_checkpoint(tmp_path_factory: pytest.TempPathFactory, offset: int, byte: int, name: str) -> None:
    data = bytearray((STATES / name).read_bytes())
    data[offset] = byte
    path = tmp_path_factory.getbasetemp() / "damaged.pt"
    path.write_bytes(data)
    with contextlib.suppress(InputError):
        importers.opacus(path)


OPCODES = st.sampled_from([opcode.code.encode("latin-1") for opcode in pickletools.opcodes])
ARGUMENTS = st.sampled_from([b"", b"\0", b"\1", b"\1\0\0\0", b"1\n", b"a b\n", b"os\nsystem\n", b"'x'\n", b"\1a"])


@settings(max_examples=500)
@given(st.lists(st.tuples(OPCODES, ARGUMENTS), max_size=30))
@example([(b"(", b""), (b"1", b""), (b"1", b"")])
@example([(b"(", b""), (b"0", b""), (b"0", b"")])
def test_any_sequence_of_opcodes(program: list[tuple[bytes, bytes]]) -> None:
    with contextlib.suppress(safepickle.PickleError):
        safepickle.loads(b"".join(code + argument for code, argument in program) + b".")


@given(st.binary())
def test_any_bytes(data: bytes) -> None:
    with contextlib.suppress(safepickle.PickleError):
        safepickle.loads(data)


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
)


@given(PLAIN, st.integers(0, 5))
def test_plain_data_reads_as_pickle_reads_it(value: object, protocol: int) -> None:
    data = pickle.dumps(value, protocol=protocol)
    read = safepickle.loads(data)
    # Below protocol 3, bytes are the call of an encoder.
    assume(protocol >= 3 or (b"_codecs" not in data and b"__builtin__" not in data))
    assert read == value


def flower_state(**changes: Any) -> dict[str, Any]:
    state = json.loads((STATES / "flower_poisson_add_or_remove_one.json").read_text())
    for path, value in changes.items():
        *parents, last = path.split("__")
        target = state
        for parent in parents:
            target = target[int(parent[1:]) if parent.startswith("i") else parent]
        target[last] = value
    return state


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schema_version": 2}, "schema_version is not 1"),
        ({"schema_version": True}, "schema_version is not 1"),
        ({"config": 3}, "config is missing, or is not an object"),
        ({"config__neighboring_relation": "zero-out"}, "neighboring_relation is neither"),
        ({"config__neighboring_relation": []}, "neighboring_relation is neither"),
        ({"config__sampling_method": {}}, "sampling_method is not one of poisson"),
        ({"config__sampling_method": "without-replacement"}, "no guarantee under add-or-remove-one"),
        ({"config__target_delta": 0}, "target_delta: 0 is not in"),
        ({"config__target_delta": "x"}, "target_delta is missing, or is not a number"),
        ({"config__max_epsilon": -1}, "max_epsilon: -1 is negative"),
        ({"compositions": []}, "there are no compositions"),
        ({"compositions": [1]}, "composition 1 is missing, or is not an object"),
        ({"compositions__i1__event": None}, "composition 2: event is missing"),
        ({"compositions__i1__count": 1.5}, "composition 2: steps: 1.5 is not a whole number"),
        ({"compositions__i1__count": None}, "composition 2: count is missing"),
        ({"compositions__i0__event__sample_size": 5001}, "composition 1: batch_size: is above the population"),
        ({"compositions__i0__event__sample_size": 0}, "composition 1: batch_size: 0 is below 1"),
        ({"compositions__i0__event__noise_multiplier": -1}, "composition 1: noise_multiplier: -1 is negative"),
    ],
)
def test_what_is_wrong_with_a_flower_state(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    path = tmp_path / "flower.json"
    path.write_text(json.dumps(flower_state(**changes)))
    with pytest.raises(InputError) as caught:
        importers.flower(path)
    assert str(caught.value).startswith("flower.json: ")
    assert message in str(caught.value)


def test_a_flower_state_without_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "flower.json"
    path.write_text(json.dumps(flower_state(config__max_epsilon=None, backend="new")))
    state = importers.flower(path)
    assert (state.max_epsilon, state.accountant, state.explanation) == (None, None, "")


def csv_file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "runs.csv"
    path.write_bytes(text.encode())
    return path


@pytest.mark.parametrize(
    "text",
    [
        "sigma,q,steps\n1.1,0.01,10\n2,0.05,200\n",
        "\ufeffsteps;Q;Noise multiplier\r\n10;.01;1.1\r\n200;5e-2;2.\r\n",
        '# a comment\n\nnoise_multiplier\tsample_rate\tsteps\n"1.1"\t0.01\t1e1\n\n# more\n2\t0.05\t200',
        "sigma, batch_size, dataset_size, steps\n1.1, 10, 1000, 10\n2, 50, 1000, 200\n",
    ],
)
def test_csv(tmp_path: Path, text: str) -> None:
    path = csv_file(tmp_path, text)
    assert importers.read_history(path) == [(1.1, 0.01, 10), (2.0, 0.05, 200)]
    assert importers.csv(path).releases() == [
        Release(SampledGaussian(1.1, 0.01), 10),
        Release(SampledGaussian(2.0, 0.05), 200),
    ]


def test_csv_rows_that_differ_in_steps_alone_are_one_entry(tmp_path: Path) -> None:
    path = csv_file(tmp_path, "sigma,q,steps\n1,0.1,1\n1,0.1,2\n2,0.1,3\n1,0.1,4\n")
    assert [release.count for release in importers.csv(path).releases()] == [3, 3, 4]
    assert [steps for _, _, steps in importers.read_history(path)] == [1, 2, 3, 4]
    text = append_release(template(), importers.csv(path).entries[0])
    assert len(load(text, filename="b.toml").releases) == 2


@pytest.mark.parametrize("exponent", ["400", "-400", "9999999999999999999999", "-9999999999999999999999"])
def test_csv_numbers_beyond_the_doubles(tmp_path: Path, exponent: str) -> None:
    for read in (importers.csv, importers.read_history):
        with pytest.raises(InputError, match=rf"(?i)1e\+?{exponent} is too (large|small) for"):
            read(csv_file(tmp_path, f"sigma,q,steps\n1e{exponent},0.1,3\n"))
    assert importers.read_history(csv_file(tmp_path, f"sigma,q,steps\n0e{exponent},0.1,3\n")) == [(0.0, 0.1, 3)]


def test_csv_rates_are_the_nearest_double(tmp_path: Path) -> None:
    path = csv_file(tmp_path, "sigma,batch_size,dataset_size,steps\n1,7,30011,1\n")
    assert importers.read_history(path)[0][1] == float(Fraction(7, 30011))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "runs.csv: the file is empty"),
        ("# only a comment\n", "runs.csv: the file is empty"),
        ("1.1,0.01,10\n", "runs.csv:1: the first line has no column names"),
        ("sigma,q,stps\n", 'runs.csv:1: unknown column "stps"; did you mean "steps"?'),
        ("sigma,q,steps,x\x1b\n", 'runs.csv:1: unknown column "x\\u001B"'),
        ("sigma,q,q,steps\n", "runs.csv:1: two columns mean the same"),
        ("sigma,steps\n", "runs.csv:1: the columns must be"),
        ("sigma,q,batch_size,dataset_size,steps\n", "runs.csv:1: the columns must be"),
        ("sigma,q,steps\n", "runs.csv:1: there are no rows"),
        ("sigma,q,steps\n1,2\n", "runs.csv:2: 2 values under 3 columns"),
        ("sigma,q,steps\n1,0.5,\n", 'runs.csv:2: steps: "" is not a number'),
        ("sigma,q,steps\n=1+1,0.5,1\n", 'runs.csv:2: noise_multiplier: "=1+1" is not a number'),
        ("sigma,q,steps\n１,0.5,1\n", 'runs.csv:2: noise_multiplier: "１" is not a number'),
        ("sigma,q,steps\n1_0,0.5,1\n", 'runs.csv:2: noise_multiplier: "1_0" is not a number'),
        ("sigma,q,steps\nnan,0.5,1\n", "runs.csv:2: noise_multiplier: nan is not a finite number"),
        ("sigma,q,steps\n1,inf,1\n", "runs.csv:2: sampling_rate: inf is not a finite number"),
        ("sigma,q,steps\n1,1e-999999999,1\n", "is too small for a double"),
        ("sigma,q,steps\n1,1e999999999,1\n", "is too large for a double"),
        ("sigma,q,steps\n1,0.5,-1\n", "runs.csv:2: steps: -1 is below 0"),
        ("sigma,q,steps\n1,0.5,1.5\n", "runs.csv:2: steps: 1.5 is not a whole number"),
        ("sigma,q,steps\n1,2,1\n", "runs.csv:2: sampling_rate: 2 is not in (0, 1]"),
        ("sigma,batch_size,dataset_size,steps\n1,20,10,1\n", "runs.csv:2: batch_size: is above dataset_size"),
        ("sigma,q,steps\n\n#\n1,0.5,1\n1,0.5,x\n2,0,y\n", 'runs.csv:5: steps: "x" is not a number'),
        ("sigma,q,steps\n\n#\n1,0.5,1\n1,0.5,x\n2,0,y\n", "runs.csv:6: sampling_rate: 0 is not in (0, 1]"),
        ("sigma,q,steps\n\n#\n1,0.5,1\n1,0.5,x\n2,0,y\n", 'runs.csv:6: steps: "y" is not a number'),
        ('sigma,q,steps\n"' + "x" * 200_000 + '",1,1', "runs.csv:2: not CSV: field larger than field limit"),
        ("sigma,q,steps\n\0,1,1", "runs.csv:2: "),
    ],
)
def test_what_is_wrong_with_a_csv_file(tmp_path: Path, text: str, message: str) -> None:
    path = csv_file(tmp_path, text)
    for read in (importers.read_history, importers.csv):
        with pytest.raises(InputError) as caught:
            read(path)
        assert message in str(caught.value)


@given(st.binary() | st.text(st.sampled_from("sigmaq,step\n\r\t;\"'#=0123456789.eE+-\0é"), max_size=60).map(str.encode))
def test_any_csv_file(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.csv"
    for content in (data, b"sigma,q,steps\n" + data):
        path.write_bytes(content)
        with contextlib.suppress(InputError):
            importers.read_history(path)
