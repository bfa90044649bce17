"""Reading a budget file: what it says, and every way in which it can be wrong, with line and key."""

from __future__ import annotations

import math
import tomllib
from fractions import Fraction
from pathlib import Path

import pytest
from conftest import patience
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dpbudget import checks
from dpbudget.accounting.ledger import Ledger
from dpbudget.budgetfile import MAX_BYTES, BudgetDocument, BudgetFileError, decode, load, read, to_releases
from dpbudget.budgetfile.findings import file_words
from dpbudget.budgetfile.keys import MECHANISMS, truth_probability
from dpbudget.budgetfile.tomlscan import scan
from dpbudget.budgetfile.values import Decimal, exact
from dpbudget.errors import InputError
from dpbudget.model import (
    ZCDP,
    Adjacency,
    ApproxDP,
    Gaussian,
    Laplace,
    PureDP,
    RandomizedResponse,
    Release,
    SampledGaussian,
    Sampling,
    Tuned,
)

LONG = "x" * 60  # as much as a message shows of a word
HEAD = """schema = 1
[budget]
epsilon = 8
delta = 1e-5
adjacency = "add-or-remove-one"
"""

DESIGN = """\
schema = 1
[budget]
epsilon = 8
delta = 1e-5
adjacency = "add-or-remove-one"     # required: no default in a file
unit = "example"

[[release]]
name = "pretrain"
status = "spent"                     # or "planned" (default)
mechanism = "dp-sgd"
noise_multiplier = 1.1
batch_size = 256
dataset_size = 60000
epochs = 60
sampling = "poisson"

[[release]]
name = "finetune"
mechanism = "dp-sgd"
noise_multiplier = "solve"           # at most one unknown in the file
sampling_rate = 0.01
steps = 2000
"""


def problems(text: str) -> list[str]:
    with pytest.raises(BudgetFileError) as caught:
        load(text, filename="b.toml")
    assert caught.value.exit_code == 2
    return [str(problem) for problem in caught.value.problems]


def only(text: str) -> str:
    found = problems(text)
    assert len(found) == 1, found
    return found[0]


def release(body: str, *, head: str = HEAD) -> BudgetDocument:
    return load(f'{head}[[release]]\nname = "r"\n{body}', filename="b.toml")


def parts(body: str, *, head: str = HEAD) -> list[Release]:
    document = release(body, head=head)
    return to_releases(document.releases[0], document.budget.adjacency)


SGD = 'mechanism = "dp-sgd"\nnoise_multiplier = 1.1\nsampling_rate = 0.01\nsteps = 10\n'


def test_the_file_of_the_documentation() -> None:
    document = load(DESIGN, filename="budget.toml")
    assert (document.budget.epsilon, document.budget.delta) == (8, 1e-5)
    assert document.budget.adjacency is Adjacency.ADD_OR_REMOVE_ONE
    assert (document.budget.unit, document.budget.adaptive) == ("example", False)
    first, second = document.releases
    assert (first.status, second.status) == ("spent", "planned")
    # 60 epochs of ceil(60000 / 256) = 235 batches: the well-known 14100, not 14062.
    assert to_releases(first, document.budget.adjacency) == [
        Release(SampledGaussian(1.1, 256 / 60000, Sampling.POISSON), 14100)
    ]
    assert document.unknown == (second, "noise_multiplier")
    assert (first.line, second.line, second.line_of("noise_multiplier")) == (8, 18, 21)


def test_an_unknown_has_no_releases_until_it_has_a_value() -> None:
    document = load(DESIGN, filename="budget.toml")
    with pytest.raises(InputError, match="unknown"):
        to_releases(document.releases[1], document.budget.adjacency)
    found = to_releases(document.releases[1].with_value("noise_multiplier", 0.9), document.budget.adjacency)
    assert found == [Release(SampledGaussian(0.9, 0.01), 2000)]


def test_setting_a_value_drops_what_contradicts_it() -> None:
    entry = load(DESIGN, filename="budget.toml").releases[0]
    assert "epochs" not in entry.with_value("steps", 5).parameters
    changed = entry.with_value("sampling_rate", 0.5).with_value("steps", 5)
    assert to_releases(changed, Adjacency.ADD_OR_REMOVE_ONE) == [Release(SampledGaussian(1.1, 0.5), 5)]


@pytest.mark.parametrize(
    ("body", "mechanism", "count"),
    [
        (SGD, SampledGaussian(1.1, 0.01), 10),
        (SGD + "count = 7", SampledGaussian(1.1, 0.01), 70),
        (SGD.replace("steps = 10", "epochs = 0.5"), SampledGaussian(1.1, 0.01), 50),
        (SGD.replace("steps = 10", "steps = 1e4"), SampledGaussian(1.1, 0.01), 10000),
        (SGD.replace("steps = 10", "steps = 1_000"), SampledGaussian(1.1, 0.01), 1000),
        (SGD + "clip_norm = 3.0", SampledGaussian(1.1, 0.01), 10),
        (SGD.replace("noise_multiplier = 1.1", "noise_std = 3\nclip_norm = 2"), SampledGaussian(1.5, 0.01), 10),
        (SGD + 'sampling = "fixed-size"', SampledGaussian(1.1, 0.01, Sampling.FIXED_SIZE), 10),
        (
            'mechanism = "dp-sgd"\nnoise_multiplier = 2\nsampling = "full-batch"\nsteps = 3',
            SampledGaussian(2.0, 1.0, Sampling.FULL_BATCH),
            3,
        ),
        ('mechanism = "gaussian"\nnoise_multiplier = 8', Gaussian(8.0), 1),
        ('mechanism = "gaussian"\nnoise_std = 8\nsensitivity = 0.5\ncount = 2', Gaussian(16.0), 2),
        ('mechanism = "laplace"\nscale = 10', Laplace(10.0), 1),
        ('mechanism = "laplace"\nscale = 10\nsensitivity = 4', Laplace(2.5), 1),
        ('mechanism = "pure-dp"\nepsilon = 0.3', PureDP(0.3), 1),
        ('mechanism = "approx-dp"\nepsilon = 0.1\ndelta = 1e-7', ApproxDP(0.1, 1e-7), 1),
        ('mechanism = "zcdp"\nrho = 0.02', ZCDP(0.02), 1),
        (
            'mechanism = "randomized-response"\ncategories = 4\ntruth_probability = 0.2',
            RandomizedResponse(4, 0.2),
            1,
        ),
        (
            'mechanism = "dp-sgd"\nnoise_multiplier = 1\nbatch_size = 30\ndataset_size = 100\nepochs = 3\nsampling = "shuffle"',
            SampledGaussian(1.0, 0.25, Sampling.SHUFFLE),  # four batches an epoch, the last one short
            12,
        ),
        (
            'mechanism = "dp-sgd"\nnoise_multiplier = 1\nbatch_size = 10\ndataset_size = 100\nsteps = 3\nmax_batch = 20',
            SampledGaussian(1.0, 0.1, Sampling.POISSON, 1, 20, 100),
            3,
        ),
        (
            SGD.replace("dp-sgd", "tuning") + 'trials = 10\nlaw = "poisson"',
            Tuned(SampledGaussian(1.1, 0.01), 10, "poisson", 10.0),
            1,
        ),
        (SGD.replace("dp-sgd", "tuning") + 'trials = 4\nlaw = "fixed"', SampledGaussian(1.1, 0.01), 40),
        (
            'mechanism = "federated"\nclients = 1000\nclients_per_round = 10\nrounds = 7\nnoise_multiplier = 2',
            SampledGaussian(2.0, 0.01),
            7,
        ),
    ],
)
def test_every_mechanism(body: str, mechanism: object, count: int) -> None:
    assert parts(body) == [Release(mechanism, count)]  # type: ignore[arg-type]


def test_uploads_with_their_own_noise_hide_what_a_client_holds_not_that_it_is_there() -> None:
    body = (
        'mechanism = "federated"\nclients = 10\nclients_per_round = 10\nrounds = 7\nnoise_multiplier = 0.4\n'
        'noise_at = "client"'
    )
    zeroed = HEAD.replace("add-or-remove-one", "zero-out")
    assert parts(body, head=zeroed) == [Release(Gaussian(0.4), 7)]
    assert parts(body, head=HEAD.replace("add-or-remove-one", "replace-one")) == [Release(Gaussian(0.2), 7)]
    with pytest.raises(InputError, match="sees who takes part"):
        parts(body)
    fixed = body.replace('client"', 'server"') + '\nsampling = "fixed-size"\nmax_participations = 3'
    assert parts(fixed, head=zeroed) == [Release(Gaussian(0.4), 3)]
    with pytest.raises(InputError, match="pushes another one out"):
        parts(fixed)


def test_shared_noise_needs_a_number_that_is_certain() -> None:
    body = (
        'mechanism = "federated"\nclients = 100\nclients_per_round = 10\nrounds = 7\nnoise_multiplier = 0.4\n'
        'noise_at = "shared"'
    )
    with pytest.raises(InputError, match="is random"):
        parts(body)
    [release_] = parts(body + "\nmin_honest = 5")
    assert release_.mechanism.noise_multiplier == pytest.approx(0.4 * 2)  # a fellow subtracts its own
    fixed = body + '\nsampling = "fixed-size"'
    assert parts(fixed, head=HEAD.replace("add-or-remove-one", "zero-out"))[
        0
    ].mechanism.noise_multiplier == pytest.approx(1.2)


def test_every_mechanism_is_tried_above() -> None:
    tried = {
        "dp-sgd",
        "gaussian",
        "laplace",
        "pure-dp",
        "approx-dp",
        "zcdp",
        "randomized-response",
        "tuning",
        "federated",
    }
    assert set(MECHANISMS) == tried


def test_steps_come_from_the_decimal_as_written() -> None:
    # 90 / 0.04 is 2250; in doubles, ceil(0.07 / 0.01) would be 8.
    assert parts(SGD.replace("steps = 10", "epochs = 90").replace("0.01", "0.04"))[0].count == 2250
    assert parts(SGD.replace("steps = 10", "epochs = 0.07"))[0].count == 7
    text = SGD.replace("steps = 10", "epochs = 1").replace("0.01", "0.3333333333333333333333333")
    assert parts(text)[0].count == 4  # just below a third: three steps are not a whole epoch


@given(st.floats(0, 20), st.integers(2, 1000))
def test_randomized_response_by_epsilon_is_never_less_than_epsilon(epsilon: float, categories: int) -> None:
    t = Fraction(truth_probability(epsilon, categories))
    ratio = 1 + t * categories / (1 - t)
    # exp in doubles is good to 1e-15; the excess is round-off of t over 1 - t (see the function).
    assert math.log(ratio) >= epsilon * (1 - 1e-15) - 1e-15
    assert math.log(ratio) <= epsilon + 1e-14 * (1 + math.exp(epsilon) / categories)


@pytest.mark.parametrize("adjacency", Adjacency)
def test_randomized_response_of_any_epsilon_is_read(adjacency: Adjacency) -> None:
    for epsilon in ("20", "709", "1e6", "1e299"):
        body = f'mechanism = "randomized-response"\ncategories = 3\nepsilon = {epsilon}'
        assert len(parts(body, head=HEAD.replace("add-or-remove-one", adjacency))) == 1


def test_randomized_response_beyond_round_off_becomes_its_dominating_guarantee() -> None:
    body = 'mechanism = "randomized-response"\ncategories = 3\nepsilon = 40'
    for adjacency in ("replace-one", "zero-out"):
        assert parts(body, head=HEAD.replace("add-or-remove-one", adjacency)) == [Release(PureDP(40.0))]
    [added] = parts(body)  # where a missing answer shows, no epsilon holds, however large
    assert isinstance(added.mechanism, RandomizedResponse)
    with pytest.raises(InputError, match="a missing record shows"):
        _ = Ledger.of([added], Adjacency.ADD_OR_REMOVE_ONE).directions


def test_defaults_reach_the_releases_that_they_concern() -> None:
    head = HEAD + '[defaults]\nmechanism = "dp-sgd"\nsampling_rate = 0.5\nepochs = 2\nnoise_multiplier = 3\ncount = 2\n'
    text = head + (
        '[[release]]\nname = "a"\n'
        '[[release]]\nname = "b"\nbatch_size = 10\ndataset_size = 95\nsteps = 7\ncount = 1\n'
        '[[release]]\nname = "c"\nmechanism = "laplace"\nscale = 2\n'
    )
    document = load(text, filename="b.toml")
    found = [to_releases(entry, document.budget.adjacency)[0] for entry in document.releases]
    assert found == [
        Release(SampledGaussian(3.0, 0.5), 8),
        Release(SampledGaussian(3.0, 10 / 95), 7),
        Release(Laplace(2.0), 2),
    ]
    assert document.releases[0].line_of("epochs") == 9


def test_twice_the_largest_scale_is_not_infinite() -> None:
    head = HEAD.replace("add-or-remove-one", "replace-one")
    text = f'{head}[[release]]\nname = "r"\nmechanism = "laplace"\nscale = 1e308\nsensitivity = '
    assert only(text + "1").startswith('b.toml:9: release "r": scale: scale / sensitivity is outside the range')
    assert to_releases(load(text + "2", filename="b.toml").releases[0], Adjacency.REPLACE_ONE) == [
        Release(Laplace(1e308))
    ]


def test_a_default_that_is_wrong_is_reported_on_its_own_line() -> None:
    head = HEAD + "[defaults]\nsampling_rate = 3\n"
    found = problems(head + f'[[release]]\nname = "r"\n{SGD.replace("sampling_rate = 0.01", "")}')
    assert found == [
        'b.toml:7: release "r": sampling_rate: 3 is not in (0, 1]. '
        "If 3 is a batch size, set batch_size = 3, dataset_size = N."
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "b.toml:1: the file is empty"),
        ("# nothing\n\n", "b.toml:1: the file is empty"),
        (HEAD.replace("schema = 1", "schema = 2"), "b.toml:1: schema: must be 1"),
        (HEAD.replace("schema = 1", "schema = true"), "b.toml:1: schema: must be 1"),
        (HEAD.replace("schema = 1\n", ""), "b.toml:1: schema is missing"),
        (HEAD.replace("epsilon = 8", "epsilon = nan"), "b.toml:3: [budget]: epsilon: nan is not a finite number"),
        (HEAD.replace("epsilon = 8", "epsilon = -inf"), "b.toml:3: [budget]: epsilon: -inf is not a finite number"),
        (HEAD.replace("epsilon = 8", "epsilon = true"), "b.toml:3: [budget]: epsilon: must be a number"),
        (HEAD.replace("epsilon = 8", 'epsilon = "8"'), "b.toml:3: [budget]: epsilon: must be a number, not text"),
        (
            HEAD.replace("epsilon = 8", "epsilon = [8]"),
            "b.toml:3: [budget]: epsilon: must be a single value, not a list",
        ),
        (HEAD.replace("epsilon = 8", "epsilon = 2020-01-01"), "b.toml:3: [budget]: epsilon: must be a single value"),
        (HEAD.replace("epsilon = 8", "epsilon = -1"), "b.toml:3: [budget]: epsilon: -1 is negative"),
        (HEAD.replace("epsilon = 8", "epsilon = 1e400"), "b.toml:3: [budget]: epsilon: 1e400 is too large"),
        (
            HEAD.replace("epsilon = 8", "epsilon = 0x" + "f" * 400),
            "b.toml:3: [budget]: epsilon: the number is too large",
        ),
        (HEAD.replace("epsilon = 8\n", ""), "b.toml:2: [budget]: epsilon is missing"),
        (
            HEAD.replace("1e-5", "1e-400"),
            "b.toml:4: [budget]: delta: 1e-400 is too small for a double and would be read",
        ),
        (HEAD.replace("1e-5", "0"), "b.toml:4: [budget]: delta: 0 is not in (0, 1)"),
        (HEAD.replace("1e-5", "1"), "b.toml:4: [budget]: delta: 1 is not in (0, 1)"),
        (HEAD.replace("1e-5", "0.0e999999999"), "b.toml:4: [budget]: delta: 0 is not in (0, 1)"),
        (HEAD.replace("1e-5", "0." + "1" * 200), "b.toml:4: [budget]: delta: a number of 202 characters"),
        (
            HEAD.replace('adjacency = "add-or-remove-one"', ""),
            "b.toml:2: [budget]: adjacency is missing. A file has no",
        ),
        (
            HEAD.replace("add-or-remove-one", "replace_one"),
            'b.toml:5: [budget]: adjacency: "replace_one" is not one of "add-or-remove-one", "replace-one", "zero-out"; '
            'did you mean "replace-one"?',
        ),
        (HEAD + "epsilonn = 3", 'b.toml:6: [budget]: unknown key "epsilonn"; did you mean "epsilon"?'),
        (HEAD + "adaptive = 1", "b.toml:6: [budget]: adaptive: must be true or false"),
        (
            HEAD + "partition_fixed = true",
            'b.toml:6: [budget]: unknown key "partition_fixed". It belongs in a [[release]]',
        ),
        (HEAD + "[releases]\nx = 1", 'b.toml:6: unknown section "releases"; did you mean "release"?'),
        (HEAD + '[release]\nname = "r"', "b.toml:6: a release must be written [[release]]"),
        ("budget = 3\nschema = 1", "b.toml:1: budget must be a table"),
        ("schema = 1\n[defaults]\ncount = 2", "b.toml:1: there is no [budget]"),
        (HEAD + '[defaults]\nname = "x"', 'b.toml:7: [defaults]: unknown key "name"'),
        (HEAD + "[defaults]\ndelta_ = 3", 'b.toml:7: [defaults]: unknown key "delta_"; did you mean "delta"?'),
        (HEAD + '[defaults]\nsteps = "solve"', 'b.toml:7: [defaults]: steps: "solve" must stand in the release'),
        (HEAD + "x = ", "b.toml:6: not valid TOML: Invalid value"),
        (HEAD + "x = \nb", "b.toml:6: not valid TOML"),
        (HEAD + 'x = """\n\n', "b.toml:6: not valid TOML"),
        (HEAD + "x = 1\nx = 2", "b.toml:7: not valid TOML: Cannot overwrite a value"),
        (HEAD + f"x = {'9' * 5000}", "b.toml:6: a whole number has too many digits"),
        (HEAD + f"x = '{'9' * 5000}'\ny = [{'9' * 5000}]", "b.toml:7: a whole number has too many digits"),
        (HEAD + f"{'x' * 10**5} = 1", f'b.toml:6: [budget]: unknown key "{LONG}...". Known here'),
        (HEAD + f"[{'x' * 10**5}]", f'b.toml:6: unknown section "{LONG}...". Known here'),
        (HEAD + f"[defaults]\n{'x' * 10**5} = 1", f'b.toml:7: [defaults]: unknown key "{LONG}...". Known here'),
        (HEAD + f"x = {'[' * 5000}", "b.toml:6: values nested more than 16 deep"),
        (HEAD + f"{'a.' * 50000}a = 1", "b.toml:6: a key of more than 8 dotted parts"),
        ("\0\1\2", "b.toml:1: not valid TOML"),
        ("\ud800", "b.toml: not Unicode text"),
    ],
)
def test_what_is_wrong_with_the_file(text: str, expected: str) -> None:
    assert only(text).startswith(expected)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (SGD + "sampling_rat = 0.1", '12: release "r": unknown key "sampling_rat"; did you mean "sampling_rate"?'),
        (SGD + "scale = 0.1", '12: release "r": unknown key "scale". The keys of this mechanism are noise_multiplier'),
        (SGD + "epsilon = 1", '12: release "r": unknown key "epsilon". The keys of this mechanism are'),
        (SGD + "adjacency = 1", '12: release "r": unknown key "adjacency". It belongs in [budget].'),
        (SGD + "batch_size = 3", '12: release "r": sampling_rate and batch_size contradict each other'),
        (SGD + "epochs = 3", '12: release "r": steps and epochs contradict each other'),
        (
            SGD.replace("noise_multiplier = 1.1", "noise_std = 1e300\nclip_norm = 1e-300"),
            '9: release "r": noise_std: noise_std / clip_norm is outside the range of a double',
        ),
        (
            SGD.replace("noise_multiplier = 1.1", "noise_std = 1e-300\nclip_norm = 1e300"),
            '9: release "r": noise_std: noise_std / clip_norm is outside the range of a double',
        ),
        (SGD + "noise_std = 3\nclip_norm = 1", '12: release "r": noise_multiplier and noise_std contradict'),
        (SGD + 'status = "done"', '12: release "r": status: "done" is not one of "spent", "planned"'),
        (SGD + "count = 1.5", '12: release "r": count: 1.5 is not a whole number'),
        (SGD + "count = -1", '12: release "r": count: -1 is below 0'),
        (SGD + "count = 1e9", '12: release "r": count: 10,000,000,000 uses of the mechanism'),
        (SGD + "partition = 3", '12: release "r": partition: must be text in quotes'),
        (SGD + "[release.more]\nx = 1", '12: release "r": unknown key "more"'),
        (SGD.replace("0.01", "256"), '10: release "r": sampling_rate: 256 is not in (0, 1]'),
        (SGD.replace("0.01", "0"), '10: release "r": sampling_rate: 0 is not in (0, 1]'),
        (SGD.replace("0.01", '"solv"'), '10: release "r": sampling_rate: must be a number, not text'),
        (SGD.replace("1.1", "nan"), '9: release "r": noise_multiplier: nan is not a finite number'),
        (SGD.replace("1.1", "-0.1"), '9: release "r": noise_multiplier: -0.1 is negative'),
        (SGD.replace("10\n", "2e9\n"), '11: release "r": steps: 2000000000 is above 1,000,000,000'),
        (
            SGD.replace("steps = 10", 'epochs = "solve"'),
            '11: release "r": epochs: cannot be "solve"; noise_multiplier, ',
        ),
        (SGD.replace("10", '"solve"') + 'status = "spent"', '11: release "r": steps: a spent release has no unknown'),
        (SGD.replace("steps = 10", ""), '6: release "r": steps, or epochs is missing'),
        (SGD.replace("noise_multiplier", "noise_std"), '9: release "r": noise_std: needs clip_norm beside it'),
        (
            SGD.replace("sampling_rate = 0.01", "batch_size = 20\ndataset_size = 10"),
            '10: release "r": batch_size: 20 is above the dataset size 10. Set batch_size = 10 for full-batch training',
        ),
        (SGD + 'sampling = "full-batch"', '12: release "r": sampling: full-batch means a sampling rate of 1'),
        (SGD.replace("steps = 10", "epochs = 1e300"), '11: release "r": epochs: 1e+302 is above 1,000,000,000'),
        (SGD.replace("dp-sgd", "dpsgd"), '8: release "r": unknown mechanism "dpsgd"; did you mean "dp-sgd"?'),
        (SGD.replace('"dp-sgd"', "1"), '8: release "r": mechanism must be text'),
        (SGD.replace('mechanism = "dp-sgd"', ""), '6: release "r": mechanism is missing'),
        ('mechanism = "gaussian"\nnoise_multiplier = 1\nsensitivity = 2', '10: release "r": noise_multiplier and sens'),
        ('mechanism = "gaussian"\nnoise_std = 1e-300\nsensitivity = 1e300', '9: release "r": noise_std: noise_std / s'),
        ('mechanism = "gaussian"\nnoise_std = 1\nsensitivity = 0', '10: release "r": sensitivity: 0 is not above 0'),
        ('mechanism = "laplace"\nscale = 0', '9: release "r": scale: 0 is not above 0'),
        ('mechanism = "approx-dp"\nepsilon = 1\ndelta = 1', '10: release "r": delta: 1 is not in [0, 1)'),
        (
            'mechanism = "randomized-response"\nepsilon = 1\ncategories = 4\ntruth_probability = 0.2',
            '11: release "r": epsilon and truth_probability contradict',
        ),
        ('mechanism = "randomized-response"\nepsilon = 1\ncategories = 1', '10: release "r": categories: 1 is below 2'),
        ('mechanism = "pure-dp"\nepsilon = "solve"', '9: release "r": epsilon: cannot be "solve"; nothing in this'),
    ],
)
def test_what_is_wrong_with_a_release(body: str, expected: str) -> None:
    assert only(f'{HEAD}[[release]]\nname = "r"\n{body}').startswith(f"b.toml:{expected}")


def test_all_problems_come_at_once_in_the_order_of_their_lines() -> None:
    text = (
        HEAD.replace("epsilon = 8", "epsilon = nan")
        + f'[[release]]\nname = "a"\n{SGD}batch_size = 0\n'
        + f'[[release]]\nname = "a"\n{SGD.replace("1.1", "true")}'
        + f"[[release]]\n{SGD}"
        + f'[[release]]\nname = ""\n{SGD}stats = 1\n'
    )
    assert [problem.split(". ")[0] for problem in problems(text)] == [
        "b.toml:3: [budget]: epsilon: nan is not a finite number",
        'b.toml:12: release "a": batch_size: 0 is below 1',
        'b.toml:12: release "a": sampling_rate and batch_size contradict each other',
        'b.toml:14: release "a": name: the name is not unique',
        'b.toml:16: release "a": noise_multiplier: must be a number',
        "b.toml:19: release 3: name is missing",
        "b.toml:25: release 4: name: must be text in quotes, and not empty",
        'b.toml:30: release 4: unknown key "stats"; did you mean "status"?',
    ]


def test_two_unknowns() -> None:
    unknown = SGD.replace("10\n", '"solve"\n')
    text = f'{HEAD}[[release]]\nname = "a"\n{unknown}[[release]]\nname = "b"\n{unknown}'
    assert only(text).startswith(
        'b.toml:17: release "b": steps: a second "solve"; a file has at most one. The first is'
    )
    assert "on line 11" in only(text)
    assert len(problems(f'{HEAD}[[release]]\nname = "a"\n{unknown.replace("1.1", chr(34) + "solve" + chr(34))}')) == 1


def test_partitions_under_replace_one_need_a_promise() -> None:
    head = HEAD.replace("add-or-remove-one", "replace-one")
    text = f'{head}[[release]]\nname = "r"\n{SGD}partition = "east"\n'
    assert only(text).startswith('b.toml:12: release "r": partition: under replace-one')
    document = load(text + "partition_fixed = true", filename="b.toml")
    assert (document.releases[0].partition, document.releases[0].partition_fixed) == ("east", True)
    assert load(text.replace("replace-one", "zero-out"), filename="b.toml").releases[0].partition == "east"


def test_what_is_quoted_from_a_line_cannot_break_a_message() -> None:
    message = only("# \u2028\nschema = 1\n\x1b[31madaptive = maybe\n")
    assert message.startswith("b.toml:3: not valid TOML") and message.isprintable()
    assert 'Text stands in quotes: \\u001B[31madaptive = "maybe".' in message


def test_names_cannot_break_a_message() -> None:
    text = f'{HEAD}[[release]]\nname = "a\\u001b[31m\\n\\"b"\n{SGD}x = 1\n'
    message = only(text)
    assert message.isprintable()
    assert 'release "a\\u001B[31m\\n\\"b"' in message
    with pytest.raises(BudgetFileError) as caught:
        load(text, filename="a\n\x1b[31m.toml")
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    "text",
    [
        HEAD + 'text = """\n[[release]]\nsteps = 1\n"""\nepsilonn = 1\n',
        HEAD + "x = '''\nepsilonn = 2'''\nepsilonn = 1\n#\n",
        HEAD + 'x = [\n  "a", # ]\n]\nepsilonn = 1\n#\n',
        HEAD + "x = [ # [[\n\n]\nepsilonn = 1\n#\n",
        HEAD.replace("[budget]\n", "") .replace("epsilon =", "budget.epsilon =").replace("delta =", "budget . delta =")
        .replace("adjacency =", "budget.'adjacency' =") + '# """\n#\n#\n#\nbudget.epsilonn = 1',
    ],
)  # fmt: skip
def test_lines_are_right_behind_strings_arrays_comments_and_dotted_keys(text: str) -> None:
    message = next(problem for problem in problems(text) if "epsilonn" in problem)
    line = next(
        number
        for number, row in enumerate(text.splitlines(), 1)
        if row.rstrip() in ("epsilonn = 1", "budget.epsilonn = 1")
    )
    assert message.startswith(f"b.toml:{line}: [budget]: unknown key")


def test_releases_in_an_inline_array() -> None:
    text = (
        'release = [\n {name = "a", mechanism = "zcdp", rho = 1},\n\n {name = "b", mechanism = "zcdp", rho = -1} ]\n'
        + HEAD
    )
    assert only(text) == 'b.toml:4: release "b": rho: -1 is negative'


def test_a_bom_and_windows_line_endings_are_fine() -> None:
    text = "\ufeff" + DESIGN.replace("\n", "\r\n")
    assert load(text, filename="b.toml").releases == load(DESIGN, filename="b.toml").releases
    assert only(text.replace("epsilon = 8", "epsilon = nan")).startswith("b.toml:3: ")


def test_reading(tmp_path: Path) -> None:
    path = tmp_path / "b.toml"
    path.write_bytes("\ufeffx = 1\r\n".encode())
    assert read(path) == "\ufeffx = 1\r\n"
    for data, expected in [
        (b"a\n\xff\xfe", "b.toml:2: not UTF-8 text: byte 0xff at offset 2"),
        ("schema = 1".encode("utf-16"), "It looks like UTF-16"),
        (b"#" * (MAX_BYTES + 1), "is larger than 1 MB"),
    ]:
        path.write_bytes(data)
        with pytest.raises(BudgetFileError, match=expected.replace(".", r"\.")):
            read(path)
    for missing in (tmp_path, tmp_path / "none", tmp_path / "b.toml" / "x", "a\0b"):
        with pytest.raises(BudgetFileError, match=r"cannot be read|is not a file name"):
            read(missing)


def test_a_large_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "large.toml"
    with path.open("wb") as stream:
        stream.truncate(10**12)  # sparse: reading it whole would not end
    with pytest.raises(BudgetFileError, match="larger than 1 MB"):
        read(path)
    with pytest.raises(BudgetFileError, match="larger than 1 MB"):
        load("#" * (MAX_BYTES + 1), filename="b.toml")


@pytest.mark.parametrize(
    "text",
    [
        HEAD + "".join(f'[[release]]\nname="{i}"\nmechanism="zcdp"\nrho=1\n' for i in range(20000)),
        HEAD + "".join(f"k{i}=1\n" for i in range(90000)),
        HEAD + "".join(f'[[release]]\nname="{i}"\nmechanism="zcdp"\nrh=1\n' for i in range(20000)),
        HEAD + "x = [" + "1," * 490000 + "]",
        HEAD + "x = [" + "{a=1}," * 160000 + "]",
        HEAD + "x = [" + "{a=1}," * 45000 + "]",
        HEAD + 'x = """' + "\\" * 990000,
        HEAD + "a.a.a.a.a.a.a.a=1\n" * 50000,
        "[" * 990000,
        '"' * 990000,
    ],
    ids=range(10),
)
def test_no_file_below_the_limit_takes_long(text: str) -> None:
    with patience(60):  # about a second; quadratic behaviour would take minutes
        try:
            load(text, filename="b.toml")
        except BudgetFileError as error:
            assert len(str(error)) < 100_000


# Hypothesis: whatever comes in, a document or BudgetFileError comes out.

WORDS = st.sampled_from(
    [
        "schema = 1\n", "[budget]\n", "[[release]]\n", "[defaults]\n", "epsilon = ", "delta = ", "adjacency = ",
        "name = ", "mechanism = ", "noise_multiplier = ", "sampling_rate = ", "steps = ", "epochs = ", "count = ",
        "batch_size = ", "dataset_size = ", "noise_std = ", "clip_norm = ", "partition = ", "scale = ", "rho = ",
        '"dp-sgd"\n', '"gaussian"\n', '"zcdp"\n', '"laplace"\n', '"solve"\n', '"add-or-remove-one"\n', "1\n", "0.5\n",
        "1e-5\n", "nan\n", "-inf\n", "true\n", "1e999\n", "'''", '"""', '"', "'", "[", "]", "{", "}", "#", ",", ".", "=",
        "\n", "\r\n", " ", "\\", "1979-05-27 07:32:00\n", "0x1F\n", "\ufeff", "é", "\x00",
    ]
)  # fmt: skip
JOINED = st.lists(WORDS, max_size=40).map("".join)
TEXTS = st.one_of(st.text(st.characters()), JOINED, JOINED.map(lambda text: HEAD + text))


@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow])
@given(TEXTS)
@example("a.b=1\na=2")
@example("[[a]]\n[a.b]\n[[a.b]]")
def test_any_text_gives_a_document_or_a_budget_file_error(text: str) -> None:
    try:
        document = load(text, filename="b.toml")
    except BudgetFileError as error:
        assert error.problems
        assert all(str(problem).isprintable() for problem in error.problems)
    else:
        for entry in document.releases:
            if not entry.unknown:
                to_releases(entry, document.budget.adjacency)


@given(st.binary())
def test_any_bytes_give_text_or_a_budget_file_error(data: bytes) -> None:
    try:
        load(decode(data, filename="b.toml"), filename="b.toml")
    except BudgetFileError as error:
        assert error.exit_code == 2


Place = tuple[str | int, ...]


def places(value: object, path: Place = ()) -> set[Place]:
    """The path of every key and of every element of a list."""
    if isinstance(value, dict):
        return {path} | {leaf for key, inner in value.items() for leaf in places(inner, (*path, key))}
    if isinstance(value, list):
        return {path} | {leaf for index, inner in enumerate(value) for leaf in places(inner, (*path, index))}
    return {path}


@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow])
@given(TEXTS)
@example('a = """x""""\nb = \'\'\'y\'\'\'\'\'\n"c\\u0041".d = {e = [1, {f = 1979-05-27 07:32:00}]}\n[[g]]\n[g.h]\ni=1')
@example("a = [[1, {b = [2, {c = 3}]}]]")
@example("[[a]]\nb=1\n[[a]]\nb=2\n[[a.c]]\n[a.c.d]\ne=1")
def test_the_scanner_finds_what_tomllib_finds(text: str) -> None:
    try:
        data = tomllib.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError):
        scan(text)
        return
    layout = scan(text)
    assert layout.error is None or layout.error.hazard
    if not layout.error:
        assert set(layout.spans) <= places(data)
        # An implied parent, such as a in [a.b], and a plain element of a list have no place of their own.
        found = {path[:n] for path in layout.spans for n in range(len(path) + 1)}
        assert {path for path in places(data) if path and isinstance(path[-1], str)} <= found


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_decimal_is_exact(value: float) -> None:
    assert exact(Decimal(repr(value))) == Fraction(repr(value)) if value else True
    assert exact(value) == Fraction(repr(value))


def test_a_hint_for_the_command_line_is_put_in_the_words_of_the_file() -> None:
    hint = "Pass --batch-size 10 for full-batch training, or correct --dataset-size."
    assert file_words(hint) == "Set batch_size = 10 for full-batch training, or correct dataset_size."
    hint = "If 256 is a batch size, pass --batch-size 256 --dataset-size N."
    assert file_words(hint) == "If 256 is a batch size, set batch_size = 256, dataset_size = N."


@pytest.mark.parametrize("text", ["0e999999999", "0.0E-999999999", "0/1e300"])
def test_a_zero_with_a_huge_exponent_is_not_expanded(text: str) -> None:
    assert checks.number("q", text) == 0


@pytest.mark.parametrize("text", ["1." + "0" * 5000, "1" + "0" * 5000 + "e-5000"])
def test_a_number_of_thousands_of_digits_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="characters"):
        checks.number("q", text)
