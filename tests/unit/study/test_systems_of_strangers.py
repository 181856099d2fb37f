"""Systems of an installed package that are wrong, fail, or answer what cannot be, as a user sees them."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from foreign_packages import importable, install, roambench
from roambench.cli.main import main
from roambench.contract.errors import ConfigError, DataError
from roambench.learning.partitions import PartitionRequest
from roambench.learning.task_parts import build_model, load_data, share_out
from roambench.runner.model_files import GLOBAL_MODEL
from roambench.study.sweep.points import points_of
from roambench.study.sweep.sweep_file import read_sweep

SYSTEMS = '''
from dataclasses import replace

import numpy as np
from scipy import sparse

from roambench.learning.datasets.catalogue import load_dataset
from roambench.learning.evaluation import Evaluation, evaluate
from roambench.learning.models.build import mlp
from roambench.learning.partitions import iid
from roambench.systems.catalogue import SYSTEMS
from roambench.mobility.walks import GENERATORS
from roambench.mobility.walks.city import CityParameters as City
from roambench.mobility.walks.generator import Generator
from roambench.mobility.association import NearestAp
from roambench.systems.peers import PeerSystem
from roambench.systems.system import Selection


def like_mohawk(options, **changes):
    return replace(SYSTEMS.load("mohawk")(options), **changes)


def typo(options):
    training = replace(options.training, objective="crossentropy")
    return like_mohawk(options, training=training, upload="next_step")


def aimless(options):
    return like_mohawk(options, selection=Selection(choose="everyone", rate=3), plain_uploads="all")


def far(options):
    return like_mohawk(options, association=lambda trace, seed: Far(trace))


def short(options):
    return like_mohawk(options, association=lambda trace, seed: Short(trace))


def named_ap(options):
    return like_mohawk(options, association=lambda trace, seed: "AP 1")


class Far(NearestAp):
    @property
    def aps(self):
        return super().aps + 1000


class Short(NearestAp):
    @property
    def aps(self):
        return super().aps[1:]


def fails(options):
    return like_mohawk(options, cloud_weights=by_luck)


def by_luck(cloud):
    return cloud.lucky


def leaves(options):
    return like_mohawk(options, cloud_weights=exits)


def exits(cloud):
    raise SystemExit(0)


def not_a_number(options):
    return like_mohawk(options, cloud_weights=to_nan)


def to_nan(cloud):
    return cloud.reference * np.float32("nan"), np.ones(len(cloud.models))


def heavy(options):
    return like_mohawk(options, edge_weights=lambda edge: (edge.models[0], np.full(len(edge.models), 5.0)))


def half_of_mine(neighbours, *, speeds, samples, alpha):
    """Half of a device's own model, the rest evenly of its neighbours'."""
    devices = neighbours.shape[0]
    degrees = np.diff(sparse.csr_array(neighbours).indptr)
    here = sparse.csr_array(neighbours).tocoo()
    others = sparse.csr_array((0.5 / degrees[here.coords[0]], here.coords), shape=(devices, devices))
    return others + sparse.diags_array(np.where(degrees > 0, 0.5, 1.0))


def too_much(neighbours, **rest):
    return 2.0 * half_of_mine(neighbours, **rest)


def astray(parameters, seed):
    return parameters.nowhere


ASTRAY = Generator("astray", "goes nowhere", City, astray)


def halves(folder, download):
    """Labels as other programs have them."""
    found = load_dataset("synthetic")
    return replace(found, train_labels=found.train_labels.astype(np.int32))


def nothing_left(request):
    return [np.arange(3)] * (request.devices - 1)


def formula(channels, classes):
    return "y = a x"


def lent_data(folder, download):
    """The drawn images of roambench, under another name."""
    return load_dataset("synthetic")


def blunt(channels, classes):
    return mlp(channels, classes - 1)


lent_model, lent_partition = mlp, iid
LENT_WALK = GENERATORS.load("city")


class WithoutLoss:
    """A task that scores by accuracy and by metrics of its own, and has no loss."""

    metrics = {"error rate": "lower", "undefined": "higher"}

    def load(self, folder, download):
        return load_dataset("synthetic")

    def build(self, in_channels, classes):
        return mlp(in_channels, classes)

    def evaluate(self, module, vector, images, labels):
        accuracy = evaluate(module, vector, images, labels).accuracy
        metrics = {"error rate": np.float32(1.0 - accuracy), "undefined": float("nan")}
        return Evaluation(accuracy, float("nan"), metrics)


HALF = PeerSystem("half", half_of_mine, "half of one's own model, the rest evenly of the neighbours'")
TOO_MUCH = PeerSystem("too_much", too_much, "everything twice")
'''
NAMES = ("typo", "aimless", "far", "short", "named_ap", "fails", "leaves", "not_a_number", "heavy")
POINTS = {
    "roambench.systems": {name: f"pocket_bench.systems:{name}" for name in NAMES},
    "roambench.generators": {
        "astray": "pocket_bench.systems:ASTRAY",
        "lent_walk": "pocket_bench.systems:LENT_WALK",
    },
    "roambench.datasets": {
        "halves": "pocket_bench.systems:halves",
        "lent_data": "pocket_bench.systems:lent_data",
    },
    "roambench.partitions": {
        "nothing_left": "pocket_bench.systems:nothing_left",
        "lent_partition": "pocket_bench.systems:lent_partition",
    },
    "roambench.models": {
        "formula": "pocket_bench.systems:formula",
        "lent_model": "pocket_bench.systems:lent_model",
        "blunt": "pocket_bench.systems:blunt",
    },
    "roambench.peer_systems": {
        "half": "pocket_bench.systems:HALF",
        "too_much": "pocket_bench.systems:TOO_MUCH",
    },
}
EXPERIMENT = """
name = "try"
systems = ["{systems}"]
trace = { parameters = { devices = 20, steps = 24 }, steps = 6 }
fleet = { agents = 4, aps = 4 }
rounds = { cloud_every_steps = 2 }
learning = { model = "mlp", images_per_device = 16, test_images = 60 }
mobility = { mobile = 2 }
decentralised = { iterations = 4, evaluate_every = 2 }
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("package")
    with importable(install(folder, {"pocket_bench/systems.py": SYSTEMS}, POINTS)) as found:
        yield found


def experiment(folder: Path, *systems: str) -> Path:
    path = folder / "try.toml"
    path.write_text(EXPERIMENT.replace("{systems}", '", "'.join(systems)))
    return path


@pytest.fixture
def typed(
    tmp_path: Path, site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Types a command in this process: (exit status, output, errors)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        code = ended.value.code
        assert code is None or isinstance(code, int)
        return (code or 0, *capsys.readouterr())

    return run


Typed = Callable[..., tuple[int, str, str]]


def state(folder: Path, system: str) -> tuple[str, str]:
    info = json.loads((folder / "runs" / f"try/latest/{system}" / "run.json").read_text())
    return info["state"], info["reason"]


def test_a_systems_code_that_exits_does_not_end_as_if_all_were_well(tmp_path: Path, typed: Typed) -> None:
    code, _, errors = typed("run", str(experiment(tmp_path, "leaves")), "--fleet", "rehearsal")
    assert code == 1
    assert errors.splitlines()[-1].startswith("roambench: pocket-bench 0.1: exits fails with SystemExit: 0 (")


def test_choices_that_no_fleet_knows_are_mistakes_before_anything_starts(
    tmp_path: Path, typed: Typed
) -> None:
    code, _, errors = typed("run", str(experiment(tmp_path, "typo")), "--fleet", "rehearsal")
    assert code == 2
    where = "system 'typo' (pocket-bench pocket_bench.systems:typo)"
    assert errors.splitlines() == [
        f"roambench: {where}: upload: expected a UploadRule, got 'next_step'",
        f"roambench: {where}: training.objective: unknown local algorithm 'crossentropy': expected one of "
        "ce, feddyn, fedprox, middle_plus, scaffold",
    ]
    assert not (tmp_path / "runs").exists()


def test_functions_that_are_none_are_mistakes_before_anything_starts(tmp_path: Path, typed: Typed) -> None:
    code, _, errors = typed("run", str(experiment(tmp_path, "aimless")), "--fleet", "rehearsal")
    assert code == 2
    where = "system 'aimless' (pocket-bench pocket_bench.systems:aimless)"
    assert errors.splitlines() == [
        f"roambench: {where}: selection.choose: expected a function, got 'everyone'",
        f"roambench: {where}: selection.rate: expected a function or None, got 3",
        f"roambench: {where}: plain_uploads: expected a function or None, got 'all'",
    ]


@pytest.mark.parametrize(
    ("system", "wrong"),
    [
        ("far", r"aps: expected access points in 0\.\.3, got 100[0-3]\.\.100[0-3]"),
        (
            "short",
            r"aps: expected whole numbers of shape \((\d+),\), one for each row, got int.. of shape .*",
        ),
        ("named_ap", "expected an Association, got str, which has no aps, distances_m, placement, trace"),
    ],
)
def test_access_points_that_are_none_end_a_run_with_the_systems_name(
    tmp_path: Path, typed: Typed, system: str, wrong: str
) -> None:
    code, _, errors = typed("run", str(experiment(tmp_path, system)), "--fleet", "rehearsal")
    assert code == 1
    assert re.fullmatch(
        f"roambench: run try-{system}: system '{system}': association: {wrong}", errors.strip()
    )


def test_rows_of_a_package_are_listed_and_a_run_of_them_is_the_run_of_the_rows_they_are_made_of(
    tmp_path: Path, site: Path, typed: Typed
) -> None:
    for kind in ("datasets", "models", "partitions", "generators"):
        _, listed, _ = typed("list", kind)
        (line,) = (line for line in listed.splitlines() if line.startswith("lent_"))
        assert "cannot be" not in line
    file = experiment(tmp_path, "mohawk")
    ours = (
        "trace.generator=city",
        "learning.dataset=synthetic",
        "learning.partition=iid",
        "learning.model=mlp",
    )
    lent = (
        "trace.generator=lent_walk",
        "learning.dataset=lent_data",
        "learning.partition=lent_partition",
        "learning.model=lent_model",
    )
    models = []
    for number, settings in enumerate((ours, lent)):
        words = [word for setting in settings for word in ("--set", setting)]
        folder = tmp_path / str(number)
        words += ["--fleet", "simulated", "--runs-dir", str(folder)]
        done = roambench(tmp_path, "run", str(file), *words, site=site)  # training has processes of its own
        assert done.returncode == 0, done.stderr
        models.append(load_file(folder / "try/latest/mohawk" / GLOBAL_MODEL))
    ours_model, lent_model = models
    assert ours_model.keys() == lent_model.keys()
    assert all((ours_model[name] == lent_model[name]).all() for name in ours_model)


@pytest.mark.usefixtures("site")
@pytest.mark.parametrize("fleet", ["simulated", "local"])
def test_a_model_with_too_few_outputs_is_a_mistake_before_anything_trains(
    tmp_path: Path, typed: Typed, fleet: str
) -> None:
    command = ("run", str(experiment(tmp_path, "mohawk")), "--fleet", fleet)
    code, _, errors = typed(*command, "--set", "learning.model=blunt")
    assert code == 2
    assert errors.splitlines() == [
        "roambench: model 'blunt': expected outputs of shape (2, 10), one per class, for 2 images, got shape "
        "(2, 9)"
    ]


@pytest.mark.usefixtures("site")
def test_a_sweep_finds_them_with_all_its_other_mistakes(tmp_path: Path) -> None:
    experiment(tmp_path, "mohawk")
    (tmp_path / "sweep.toml").write_text('experiment = "try.toml"\n[grid]\nsystems = ["mohawk", "typo"]\n')
    with pytest.raises(ConfigError, match=r"sweep.toml:2: grid: system 'typo' .* one of ce, feddyn, fedprox"):
        points_of(read_sweep(tmp_path / "sweep.toml"))


def test_a_system_whose_code_fails_is_one_sentence_and_the_others_run(
    tmp_path: Path, site: Path, typed: Typed
) -> None:
    file = experiment(tmp_path, "fails", "mohawk", "not_a_number", "heavy")
    code, output, errors = typed("run", str(file), "--fleet", "rehearsal")
    assert code == 1
    line = SYSTEMS.splitlines().index("    return cloud.lucky") + 1
    group = Path("runs/try") / (tmp_path / "runs/try/latest").readlink()
    assert errors.splitlines() == [
        "roambench: run try-fails: pocket-bench 0.1: by_luck fails with AttributeError: 'CloudInput' object "
        f"has no attribute 'lucky' ({site}/pocket_bench/systems.py:{line}); the traceback is in "
        f"{group}/fails/controller.log",
        "roambench: run try-not_a_number: system 'not_a_number': cloud_weights at step 2: expected a finite "
        "model, got NaN or infinity in it",
        "roambench: run try-heavy: system 'heavy': edge_weights at step 1, AP 0: expected weights that add "
        "up to 1, got [5.0]",
    ]
    assert "\nmohawk " in output  # compared all the same
    assert state(tmp_path, "mohawk") == ("finished", "")
    for system in ("fails", "not_a_number", "heavy"):
        assert state(tmp_path, system)[0] == "failed"
    assert "AttributeError" in (tmp_path / "runs/try/latest/fails" / "controller.log").read_text()


@pytest.mark.timeout(600)
def test_a_decentralised_system_of_a_package_is_listed_and_run(tmp_path: Path, site: Path) -> None:
    listed = roambench(tmp_path, "list", "decentralised", site=site)
    assert "half of one's own model" in listed.stdout
    file = experiment(tmp_path, "half", "too_much", "d_psgd")
    done = roambench(tmp_path, "run", str(file), "--fleet", "simulated", site=site)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "roambench: run try-too_much: mixing: device 0: expected weights that sum to 1, got 2"
    ]
    assert state(tmp_path, "half") == ("finished", "")
    assert state(tmp_path, "d_psgd") == ("finished", "")
    assert "\nhalf " in done.stdout


@pytest.mark.timeout(600)
def test_a_score_that_is_no_number_leaves_the_report_whole_and_a_tasks_own_metric_is_in_it(
    tmp_path: Path, site: Path, typed: Typed
) -> None:
    file = experiment(tmp_path, "mohawk")
    file.write_text(file.read_text().replace('model = "mlp"', 'task = "pocket_bench.systems:WithoutLoss"'))
    done = roambench(tmp_path, "run", str(file), "--fleet", "simulated", site=site)
    assert done.returncode == 0, done.stderr
    assert "\nmohawk reached " in done.stdout
    code, output, _ = typed("report", "runs/try/latest/mohawk", "--full")
    assert code == 0
    (line,) = (line for line in output.splitlines() if "final error rate (lower is better)" in line)
    (undefined,) = (line for line in output.splitlines() if "final undefined" in line)
    assert undefined.split()[-1] == "–"
    code, output, _ = typed("report", "runs/try/latest/mohawk", "--json")
    assert code == 0
    (run,) = json.loads(output, parse_constant=lambda name: pytest.fail(name))["runs"]
    assert run["learning"]["final_loss"] is None
    assert 0.0 <= run["learning"]["final_accuracy"] <= 1.0
    for step in run["learning"]["steps"]:
        assert step["metrics"] == {"error rate": pytest.approx(1.0 - step["accuracy"], abs=1e-7)}
    final = run["learning"]["final_metrics"]["error rate"]
    assert final == pytest.approx(1.0 - run["learning"]["final_accuracy"], abs=1e-7)
    assert f"{final:.4f}" in line
    info = json.loads((tmp_path / "runs" / "try/latest/mohawk" / "run.json").read_text())
    assert [code["package"] for code in info["code"]] == ["pocket-bench"]


@pytest.mark.timeout(600)
def test_a_run_in_which_every_upload_was_refused_is_reported_and_does_not_exit_with_0(tmp_path: Path) -> None:
    """A learning rate at which every model diverges at once."""
    command = ("run", str(experiment(tmp_path, "mohawk")), "--fleet", "simulated")
    done = roambench(
        tmp_path, *command, "--set", "learning.learning_rate=1e30", "--set", "learning.batch_size=4"
    )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert re.match(r"roambench: run try-mohawk\.[0-9a-f]{8}: none of ", line)
    assert line.endswith(
        " upload orders was done, the first refused: training diverged after 4 steps: the model holds NaN or "
        "infinity"
    )
    assert "\nmohawk: none of " in done.stdout
    assert done.stdout.splitlines()[-1].startswith("report: ")


def test_an_error_before_any_run_is_one_sentence_too(tmp_path: Path, typed: Typed) -> None:
    command = ("run", str(experiment(tmp_path, "mohawk")), "--fleet", "rehearsal")
    code, _, errors = typed(*command, "--set", 'trace.generator="astray"', "--set", "trace.parameters={}")
    assert code == 1
    (line,) = errors.splitlines()
    assert line.startswith("roambench: pocket-bench 0.1: astray fails with AttributeError: ")
    kept = Path(line.rpartition("the traceback is in ")[2])
    assert "return parameters.nowhere" in kept.read_text()


@pytest.mark.usefixtures("site")
def test_data_parts_and_models_of_a_package_are_checked_as_a_tasks_are() -> None:
    with pytest.raises(DataError, match=r"data set 'halves': train_labels: expected int64 .* got int32"):
        load_data("", "halves", None, download=False)
    request = PartitionRequest(np.zeros(6, np.int64), 3, 2, 1.0, seed=1)
    with pytest.raises(DataError, match="partition 'nothing_left': expected 3 devices, got 2"):
        share_out("", "nothing_left", request)
    with pytest.raises(ConfigError, match=r"model 'formula': expected a torch\.nn\.Module, got str"):
        build_model("", "formula", 1, 10)
