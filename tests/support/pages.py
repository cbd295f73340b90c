"""The pages that users read: the tests run what they show, and check that what they name exists."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
LAUNCHER = ROOT / "launcher/README.md"
SERVICE = ROOT / "rendezvous/README.md"
WORKER = ROOT / "worker/README.md"
BENCHMARK = ROOT / "tests/benchmark/README.md"
ALL = (README, LAUNCHER, *(ROOT / f"launcher/{subject}/README.md" for subject in (
    "evidence", "warm", "survivors", "vault")), SERVICE, WORKER, BENCHMARK)
# These include the pages for developers, of the examples, and of each host engine.
EVERY = tuple(sorted(path for folder in ("launcher", "rendezvous", "worker", "examples", "tests")
                     for path in (ROOT / folder).rglob("*.md"))) + (README,)


def text():
    """All of them, concatenated."""
    return "\n".join(page.read_text() for page in ALL)


def section(page, heading):
    """The text below `## heading`."""
    found = page.read_text().split(f"\n## {heading}\n")[1]
    return found.split("\n## ")[0]
