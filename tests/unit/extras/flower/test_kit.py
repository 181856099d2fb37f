"""What of an app's folder comes to boards: what Flower itself ships, and nothing that a run leaves there."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
from pathlib import Path

from flower_apps import written_app
from roambench.extras.flower.kit import kit_of_app


def test_code_comes_and_what_was_made_beside_it_does_not(tmp_path: Path) -> None:
    app = written_app(tmp_path, "least-squares")
    before = kit_of_app(app)
    for stranger in (
        ".venv/lib/x.py",
        "runs/a/run.json",
        "squares/__pycache__/x.py",
        "my/pyvenv.cfg",
        "my/x.py",
    ):
        (app / stranger).parent.mkdir(parents=True, exist_ok=True)
        (app / stranger).write_text("x")
    (app / "model.pt").write_text("x")
    (app / "squares/link.py").symlink_to("/etc/passwd")
    kit = kit_of_app(app)
    with tarfile.open(fileobj=io.BytesIO(kit.files)) as tar:
        names = tar.getnames()
    package = [f"squares/{name}.py" for name in ("__init__", "client_app", "server_app")]
    assert names == ["pyproject.toml", *package]
    assert kit.digest == before.digest
    assert (kit.spec.name, kit.spec.version) == ("least-squares", "1.0.0")
    (app / "squares/client_app.py").write_text("app = None")
    assert kit_of_app(app).digest != before.digest


def test_boards_load_the_program_without_the_controllers_packages() -> None:
    """They have the base install alone: experiments and their checks are none of theirs."""
    code = (
        "import sys\n"
        "for name in ('pydantic', 'typer', 'rich', 'paramiko', 'pyarrow'): sys.modules[name] = None\n"
        "from roambench.agent.orders.programs import file_of\n"
        "print(file_of('flower').name)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("client_process.py", "")
