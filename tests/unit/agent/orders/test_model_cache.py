"""The trained model and the last answers survive the agent."""

from pathlib import Path

from roambench.agent.orders.model_cache import ModelCache
from roambench.contract.orders import TrainReply


def _reply(digest: str = "ab" * 32) -> TrainReply:
    return TrainReply(samples=10, sgd_steps=2, mean_loss=0.5, mean_squared_loss=0.3, model_digest=digest)


def _keep(cache: ModelCache, order_id: str, digest: str, content: bytes) -> None:
    draft = cache.draft(order_id)
    draft.write_bytes(content)
    cache.keep(order_id, _reply(digest), draft)


def test_a_kept_model_is_there_after_a_restart(tmp_path: Path) -> None:
    _keep(ModelCache(tmp_path), "run/1", "ab" * 32, b"model")
    found = ModelCache(tmp_path).trained()
    assert found is not None
    assert (found.order_id, found.reply, found.path.read_bytes()) == ("run/1", _reply(), b"model")


def test_a_new_model_replaces_the_old_one_on_disk(tmp_path: Path) -> None:
    cache = ModelCache(tmp_path)
    _keep(cache, "run/1", "ab" * 32, b"old")
    _keep(cache, "run/2", "cd" * 32, b"new")
    assert [path.read_bytes() for path in tmp_path.glob("*.blob")] == [b"new"]


def test_clearing_another_order_leaves_the_model(tmp_path: Path) -> None:
    cache = ModelCache(tmp_path)
    _keep(cache, "run/1", "ab" * 32, b"model")
    cache.release("run/0")
    assert cache.trained() is not None
    cache.release("run/1")
    assert cache.trained() is None
    assert list(tmp_path.glob("*.blob")) == []


def test_a_damaged_description_counts_as_no_model(tmp_path: Path) -> None:
    _keep(ModelCache(tmp_path), "run/1", "ab" * 32, b"model")
    (tmp_path / "trained.json").write_text('{"order_id": 3')
    assert ModelCache(tmp_path).trained() is None


def test_answers_survive_and_only_the_newest_are_kept(tmp_path: Path) -> None:
    cache = ModelCache(tmp_path)
    for number in range(20):
        cache.remember(f"run/{number}", bytes([number]))
    again = ModelCache(tmp_path)
    assert again.answer("run/19") == bytes([19])
    assert again.answer("run/3") is None
    assert again.answer("run/4") == bytes([4])


def test_an_answer_that_is_kept_is_not_written_again(tmp_path: Path) -> None:
    cache, answers = ModelCache(tmp_path), tmp_path / "answers.json"
    cache.remember("run/1", b"answer")
    (tmp_path / "link").hardlink_to(answers)
    cache.remember("run/1", b"answer")
    assert answers.samefile(tmp_path / "link")
    cache.remember("run/1", b"another")
    assert not answers.samefile(tmp_path / "link")


def test_what_a_training_began_from_lies_beside_its_model_and_goes_with_it(tmp_path: Path) -> None:
    cache, start = ModelCache(tmp_path / "cache"), tmp_path / "start.blob"
    for number, name in enumerate(("ab", "cd")):
        start.write_bytes(name.encode())
        cache.draft(name).write_bytes(b"model")
        cache.keep(name, _reply(name * 32), cache.draft(name), base=start)
        start.write_bytes(b"of the next training")
        found = ModelCache(tmp_path / "cache").trained()
        assert found is not None
        assert found.base is not None
        assert found.base.read_bytes() == name.encode()
        assert found.base in cache.files()
        assert len(list((tmp_path / "cache").glob("base-*"))) == 1, number
    cache.release("cd")
    assert list((tmp_path / "cache").glob("*.blob")) == []


def test_what_a_codec_has_yet_to_send_is_known_when_the_rest_has_arrived(tmp_path: Path) -> None:
    cache = ModelCache(tmp_path)
    cache.fed_back()
    assert cache.memory() is None
    cache.memory_draft.write_bytes(b"first")
    assert ModelCache(tmp_path).memory() is None
    cache.fed_back()
    cache.memory_draft.write_bytes(b"of an upload that broke off")
    again = ModelCache(tmp_path)
    memory = again.memory()
    assert memory is not None
    assert memory.read_bytes() == b"first"
    assert memory in again.files()
    again.clear()
    assert again.memory() is None


def test_a_released_model_may_stay_as_the_devices_own(tmp_path: Path) -> None:
    cache = ModelCache(tmp_path)
    assert cache.own_model() is None
    _keep(cache, "run/1", "ab" * 32, b"trained")
    cache.release("run/1", as_own=True)
    again = ModelCache(tmp_path)
    assert again.trained() is None
    own = again.own_model()
    assert own is not None
    assert own.read_bytes() == b"trained"


def test_a_model_that_was_just_trained_is_the_devices_own_before_the_older_one(tmp_path: Path) -> None:
    cache = ModelCache(tmp_path)
    _keep(cache, "run/1", "ab" * 32, b"older")
    cache.release("run/1", as_own=True)
    _keep(cache, "run/2", "cd" * 32, b"newer")
    own = cache.own_model()
    assert own is not None
    assert own.read_bytes() == b"newer"


def test_a_synchronisation_replaces_every_model_the_device_had(tmp_path: Path) -> None:
    cache = ModelCache(tmp_path)
    _keep(cache, "run/1", "ab" * 32, b"own")
    cache.release("run/1", as_own=True)
    _keep(cache, "run/2", "cd" * 32, b"not uploaded")
    cache.synchronise(b"global")
    again = ModelCache(tmp_path)
    assert again.trained() is None
    assert {path.read_bytes() for path in tmp_path.glob("*.blob")} == {b"global"}
    for path in (again.own_model(), again.global_model()):
        assert path is not None
        assert path.read_bytes() == b"global"


def test_training_after_a_synchronisation_leaves_the_global_model_beside_the_own_one(tmp_path: Path) -> None:
    cache = ModelCache(tmp_path)
    cache.synchronise(b"global")
    _keep(cache, "run/3", "ab" * 32, b"trained")
    cache.release("run/3", as_own=True)
    own, globally = cache.own_model(), cache.global_model()
    assert own is not None
    assert globally is not None
    assert (own.read_bytes(), globally.read_bytes()) == (b"trained", b"global")


def test_what_a_local_algorithm_keeps_outlives_its_models_and_goes_back_with_the_resume_point(
    tmp_path: Path,
) -> None:
    cache = ModelCache(tmp_path / "cache")
    assert cache.kept() is None

    def train(order_id: str, digest: str, kept: bytes | None) -> None:
        draft, kept_draft = cache.draft(order_id), cache.kept_draft(order_id)
        draft.write_bytes(b"model")
        if kept is not None:
            kept_draft.write_bytes(kept)
        cache.keep(order_id, _reply(digest), draft, kept_draft)

    def kept() -> bytes:
        found = ModelCache(tmp_path / "cache").kept()  # as an agent that was killed finds it
        assert found is not None
        return found.read_bytes()

    train("run/1", "ab" * 32, b"first")
    assert kept() == b"first"
    cache.release("run/1")
    assert kept() == b"first"
    point = tmp_path / "point"
    point.mkdir()
    for file in cache.files():
        (point / file.name).hardlink_to(file)
    train("run/2", "cd" * 32, b"second")
    assert kept() == b"second"
    train("run/3", "ef" * 32, b"third")  # the second model was never uploaded
    assert kept() == b"third"
    cache.synchronise(b"global")
    assert kept() == b"third"
    cache.kept_draft("run/4").write_bytes(b"of a training that was cut short")
    assert kept() == b"third"
    cache.put_back(point)
    assert kept() == b"first"
    cache.clear()
    assert cache.kept() is None
