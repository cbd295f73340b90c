"""examples/containers: its files are valid, and the image that is built from them runs two
nodes."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cluster import BIN, ROOT, WORKER, Program
from tests.support.needs import needs

yaml = pytest.importorskip("yaml", reason="PyYAML is missing: tests/setup installs it")

FOLDER = ROOT / "examples" / "containers"
# Where the base of the images is kept, which takes a minute to build.
BASE = ROOT / ".cache" / "container-base"
DIGITS = Path(os.environ.get("DDPRUN_DIGITS", ROOT / ".cache" / "digits.csv"))
TRAINING_LIMIT = 600  # PyTorch is imported
TRAIN = ROOT / "examples" / "01_snapshot_resume" / "train.py"


def instructions():
    """The Dockerfile as [(word, rest)], with continued lines joined."""
    text = re.sub(r"^\s*#.*\n", "", (FOLDER / "Dockerfile").read_text(), flags=re.M)
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    return [tuple(line.split(None, 1)) for line in lines if line.strip()]


def services():
    """The services in the compose file, with `${NAME:-default}` filled in."""
    text = (FOLDER / "compose.yaml").read_text()
    return yaml.safe_load(re.sub(r"\$\{\w+:-([^}]*)\}|\$\{\w+\}", r"\1", text))["services"]


def test_the_dockerfile_has_ddprun_as_its_first_process():
    made = instructions()
    assert {word for word, _ in made} <= {"ARG", "FROM", "RUN", "COPY", "ENV", "WORKDIR",
                                          "ENTRYPOINT", "CMD"}
    assert made[1] == ("FROM", "${BASE}")
    rest = dict(made)
    # With the shell form it would get no SIGTERM.
    assert json.loads(rest["ENTRYPOINT"]) == ["ddprun"]
    assert json.loads(rest["CMD"]) == ["--help"]
    torch = re.search(r"^torch==\S+", (ROOT / "tests/requirements.txt").read_text(), re.M)[0]
    assert ("ARG", f"TORCH={torch}") in made, "the newest PyTorch that is tested"


def test_every_profile_has_two_nodes_of_one_run():
    known = subprocess.run([BIN / "ddprun", "--help"], capture_output=True, text=True,
                           check=True).stdout
    profiles = {}
    for service in services().values():
        (profile,) = service["profiles"]
        profiles.setdefault(profile, []).append(service)
        assert service["shm_size"] and service["stop_grace_period"] == "60s"
        for word in service["command"][:-1]:
            assert word.split("=")[0] + " " in known or word.split("=")[0] + "=" in known, word
    assert set(profiles) == {"cpu", "cuda", "host", "infiniband"}
    for profile, nodes in profiles.items():
        assert len(nodes) == 2 and nodes[0]["command"] == nodes[1]["command"]
        is_on_host = profile in ("host", "infiniband")
        assert all((one.get("network_mode") == "host") == is_on_host for one in nodes)
        if profile in ("cuda", "infiniband"):
            gpus = [one["deploy"]["resources"]["reservations"]["devices"][0] for one in nodes]
            assert [one["device_ids"] for one in gpus] == [["0"], ["1"]]
    for one in profiles["infiniband"]:
        assert one["devices"] == ["/dev/infiniband:/dev/infiniband"]
        assert one["cap_add"] == ["IPC_LOCK"] and one["ulimits"]["memlock"]["hard"] == -1


@pytest.mark.parametrize("profile", ["cpu", "cuda"])
def test_the_name_at_which_nodes_meet_is_one_of_theirs(profile):
    mine = {name: one for name, one in services().items() if one["profiles"] == [profile]}
    names = set(mine)
    for one in mine.values():
        if isinstance(one.get("networks"), dict):
            names |= set(one["networks"]["default"]["aliases"])
    (endpoint,) = {word for one in mine.values() for word in one["command"]
                   if word.startswith("--rdzv-endpoint=")}
    assert endpoint.split("=")[1] in names


def base_folder():
    """A minimal Debian with Python, from Debian's package servers; made once for all runs in this
    tree."""
    if not (BASE / "usr/bin/python3").exists():
        part = BASE.with_name(f"container-base.{os.getpid()}")
        made = subprocess.run(["debootstrap", "--variant=minbase", "--include=python3", "bookworm",
                               part], capture_output=True, text=True, check=False, timeout=1800)
        if made.returncode != 0:
            shutil.rmtree(part, ignore_errors=True)
            pytest.skip(f"no Debian can be had here: {made.stdout[-300:]}")
        shutil.rmtree(BASE, ignore_errors=True)
        part.rename(BASE)
    return BASE


class Engine:
    """buildah without a daemon, with all its files in one folder."""

    def __init__(self, folder):
        self.words = ["buildah", "--root", folder / "root", "--runroot", folder / "run",
                      "--storage-driver", "vfs"]

    def __call__(self, *words):
        done = subprocess.run([*self.words, *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout.strip()

    def image(self, name, context, *files):
        """Builds the Dockerfile's image with ddprun and these files, without PyTorch."""
        (context / "bin").mkdir(parents=True)
        for program in ("ddprun", "ddprun-rendezvous"):
            shutil.copy(BIN / program, context / "bin")
        for file in files:
            shutil.copy(file, context)
        self("bud", "-q", "--isolation", "chroot", "--build-arg", "BASE=localhost/base",
             "--build-arg", "TORCH=", "-f", FOLDER / "Dockerfile", "-t", f"localhost/{name}",
             context)
        told = json.loads(self("inspect", "--type", "image", f"localhost/{name}"))
        return told["OCIv1"]["config"]


@pytest.fixture
def engine(tmp_path):
    for tool in ("buildah", "debootstrap"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed, with which the image is built: apt-get install "
                        f"{tool}")
    if os.getuid() != 0:
        pytest.skip("root is needed: debootstrap makes device files")
    made = Engine(tmp_path)
    container = made("from", "scratch")
    tried = subprocess.run([*made.words, "add", "-q", container, str(base_folder()), "/"],
                           capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        pytest.skip(f"buildah cannot work here: {tried.stderr[-300:]}")
    made("commit", "-q", container, "localhost/base")
    yield made
    subprocess.run([*made.words, "rm", "--all"], capture_output=True, check=False)
    shutil.rmtree(tmp_path / "root", ignore_errors=True)


def two_nodes(cluster, engine, hosts, name, mounts, words):
    """Runs a container of the image on each of two hosts, as compose.yaml does."""
    nodes = []
    for index, host in enumerate(hosts):
        container = engine("from", f"localhost/{name}")
        flags = [word for folder in mounts for word in ("-v", folder)]
        nodes.append(Program(
            cluster, f"{name}{index}",
            [*host.prefix, *engine.words, "run", "--isolation", "chroot", "--network", "host",
             *flags, "-e", f"DDPRUN_TEST_CONTROL={cluster.folder}",
             "-e", f"DDPRUN_TEST_MARK={cluster.mark}", container, "--", "ddprun",
             "--nnodes=2", "--nproc-per-node=1", f"--rdzv-endpoint={hosts[0].address}",
             f"--rdzv-id={name}", *words]))
    return nodes


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_two_containers_of_the_image_are_two_nodes(cluster, engine, make_hosts, tmp_path):
    config = engine.image("train", tmp_path / "context", WORKER)
    assert config["Entrypoint"] == ["ddprun"] and config["Cmd"] == ["--help"]
    # A container has its own files, so the test's folder is mounted where the worker looks for it.
    agents = two_nodes(cluster, engine, make_hosts(2), "train",
                       [f"{cluster.folder}:{cluster.folder}"], ["--no-python", "./worker.sh"])
    workers = cluster.started(1, 2)
    assert {worker.world_size for worker in workers} == {"2"}
    cluster.finish(2)
    assert [agent.wait() for agent in agents] == [0, 0], agents[0].err()
    cluster.nothing_left()


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.skipif(not DIGITS.exists(), reason=f"no {DIGITS}: ./tests/setup makes it")
def test_a_pytorch_script_trains_in_containers_and_goes_on_in_new_ones(
        cluster, engine, make_hosts, tmp_path):
    needs("torch", "./tests/setup installs it")
    if sys.base_prefix != "/usr" or sys.version_info[:2] != (3, 11):
        pytest.skip("the environment that is mounted needs a Python that Debian 12 has, too")
    engine.image("digits", tmp_path / "context", TRAIN, DIGITS)
    volume = tmp_path / "volume"
    volume.mkdir()
    # PyTorch is not installed again, but mounted where the Dockerfile would install it.
    mounts = [f"{sys.prefix}:/opt/venv:ro", f"{volume}:/volume"]
    hosts = make_hosts(2)
    for epochs, said in [(2, "starting at epoch 1"), (3, "resuming from snapshot /volume/")]:
        nodes = two_nodes(cluster, engine, hosts, "digits", mounts,
                          ["train.py", epochs, 1, "--data", DIGITS.name, "--snapshot-dir",
                           "/volume"])
        assert [node.wait(TRAINING_LIMIT) for node in nodes] == [0, 0], nodes[0].err()
        out = "".join(node.out() for node in nodes)
        assert said in out, out
        assert f"epoch {epochs} | snapshot saved" in out, out
        cluster.nothing_left()
