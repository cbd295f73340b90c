"""The command of this folder: chooses mutants, has them judged, and reports who lived."""

import argparse
import difflib
import hashlib
import json
import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import judge
import mutators

FOLDER = judge.ROOT / "build-mutation"
KNOWN = Path(__file__).with_name("equivalent.txt")
GLOBS = ("rendezvous/core/run/*.cpp", "rendezvous/core/agent/*.cpp",
         "rendezvous/core/run/*.hpp", "rendezvous/core/agent/*.hpp",
         "rendezvous/core/messages/*.cpp", "rendezvous/core/daemon/*.cpp",
         "rendezvous/base/machine_*.hpp")  # fmt: skip
LEFT_OUT = ("rendezvous/core/run/view.cpp", "rendezvous/core/agent/agent_text.cpp",
            "rendezvous/core/messages/wait_text.cpp", "rendezvous/core/agent/agent_machine.hpp")
RATE_LEAST = 0.9


def parse(argv):
    parser = argparse.ArgumentParser(prog="tests/mutation/run", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="which mutants are chosen")
    parser.add_argument("--count", type=int, default=100, help="how many; 0: all")
    parser.add_argument("--files", nargs="+", metavar="GLOB", default=GLOBS,
                        help="mutated files, from the top of the tree")  # fmt: skip
    parser.add_argument("--jobs", type=int, default=2, help="mutants judged at a time")
    parser.add_argument("--schedules", type=int, default=10_000,
                        help="of the simulator, at most; 0: only the unit tests")  # fmt: skip
    parser.add_argument("--list", action="store_true", help="print the chosen mutants, judge none")
    parser.add_argument("--only", type=int, nargs="+", metavar="N",
                        help="these numbers of the list")  # fmt: skip
    parser.add_argument("--match", metavar="TEXT", help="mutants whose FILE:LINE: ... contains it")
    parser.add_argument("--survivors", action="store_true", help="only those that lived last time")
    parser.add_argument("--fresh", action="store_true", help="forget what was judged before")
    parser.add_argument("--keep-going", action="store_true",
                        help="run a judge's other tests too after one has failed")  # fmt: skip
    return parser.parse_args(argv)


def population(globs):
    files = sorted({file for glob in globs for file in judge.ROOT.glob(glob)})
    found = []
    for file in files:
        name = str(file.relative_to(judge.ROOT))
        if name not in LEFT_OUT:
            found += mutators.mutants_of(name, file.read_text())
    return found


def equivalents():
    """{name of a mutant: why it changes nothing}"""
    reasons, name = {}, ""
    for line in KNOWN.read_text().splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith(" "):
            reasons[name] = (reasons[name] + " " + line.strip()).strip()
        else:
            name = line.strip()
            reasons[name] = ""
    return reasons


class Memory:
    """What was judged before. A kill counts as long as the mutated file is the same, a survivor as
    long as everything is."""

    def __init__(self, fresh):
        self.path = FOLDER / "results.jsonl"
        self.known = {}
        if fresh:
            self.path.unlink(missing_ok=True)
        if self.path.exists():
            for line in self.path.read_text().splitlines():
                try:
                    entry = json.loads(line)
                except ValueError:
                    continue  # cut short when that run ended
                self.known[entry["name"]] = entry

    def recall(self, mutant, file_digest, all_digest):
        entry = self.known.get(mutant.name)
        if entry is None or entry["file"] != file_digest:
            return None
        if entry["kind"] == "survived" and entry["all"] != all_digest:
            return None
        return judge.Verdict(entry["kind"], entry["by"], entry["seconds"])

    def keep(self, mutant, verdict, file_digest, all_digest):
        entry = {"name": mutant.name, "file": file_digest, "all": all_digest} | vars(verdict)
        self.known[mutant.name] = entry
        with self.path.open("a") as file:
            file.write(json.dumps(entry) + "\n")

    def survivors(self):
        return {name for name, entry in self.known.items() if entry["kind"] == "survived"}


class Run:
    def __init__(self, options, chosen):
        self.options = options
        self.chosen = chosen  # [(number, mutant)]
        self.bench = judge.Bench(FOLDER, options.schedules, options.keep_going)
        self.memory = Memory(options.fresh)
        self.reasons = equivalents()
        self.verdicts = {}  # by number
        self.left = list(chosen)
        self.lock = threading.Lock()

    def go(self):
        self.digest = f"{self.bench.digest(*judge.copied_files())} {self.options.schedules}"
        workers = [threading.Thread(target=self._work, args=(desk,))
                   for desk in range(max(1, self.options.jobs))]  # fmt: skip
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    def _work(self, desk):
        while True:
            with self.lock:
                if not self.left or self.bench.commands.stopped:
                    return
                number, mutant = self.left.pop(0)
            try:
                verdict = self._verdict(mutant, FOLDER / f"desk{desk}")
            except judge.Stopped:
                return
            with self.lock:
                self.verdicts[number] = verdict
                self._say(number, mutant, verdict)

    def _verdict(self, mutant, desk):
        if mutant.name in self.reasons:
            return judge.Verdict("equivalent", self.reasons[mutant.name])
        own = self.bench.digest(mutant.path)
        known = self.memory.recall(mutant, own, self.digest)
        if known is not None:
            return known
        verdict = self.bench.judge(mutant, desk)
        with self.lock:
            self.memory.keep(mutant, verdict, own, self.digest)
        return verdict

    def _say(self, number, mutant, verdict):
        done = f"[{len(self.verdicts)}/{len(self.chosen)}]"
        what = "SURVIVED" if verdict.kind == "survived" else f"{verdict.kind}: {verdict.by}"
        print(f"{done} #{number} {mutant}\n      {what} ({verdict.seconds:.1f} s)", flush=True)

    def report(self):
        counts = Counter(verdict.kind for verdict in self.verdicts.values())
        folder = FOLDER / "survivors"
        folder.mkdir(exist_ok=True)
        for old in folder.iterdir():
            old.unlink()
        lines = []
        for number, mutant in self.chosen:
            verdict = self.verdicts.get(number)
            if verdict is None or verdict.kind != "survived":
                continue
            lines.append(f"#{number} {mutant.path}:{mutant.number}\n{mutant.name}")
            (folder / f"{number}.diff").write_text(f"{mutant.name}\n{difference(mutant)}")
        judged = counts["killed"] + counts["survived"]
        rate = counts["killed"] / judged if judged else 1.0
        summary = (
            f"{len(self.verdicts)} of {len(self.chosen)} mutants (seed {self.options.seed}): "
            f"{counts['killed']} killed, {counts['survived']} survived, "
            f"{counts['equivalent']} known to be equivalent, "
            f"{counts['same']} compile to the same code, {counts['broken']} do not compile; "
            f"{100 * rate:.1f} % of {judged} died"
        )
        (FOLDER / "report.txt").write_text("\n".join([summary, "", *lines]) + "\n")
        print("\n".join(["", *lines, "", summary]))
        print(f"survivors with their differences: {folder.relative_to(judge.ROOT)}/")
        return rate


def difference(mutant):
    before = (judge.ROOT / mutant.path).read_text()
    return "".join(
        difflib.unified_diff(
            before.splitlines(keepends=True), mutant.apply(before).splitlines(keepends=True),
            mutant.path, mutant.path, n=6)
    )  # fmt: skip


def choose(options, everything):
    numbered = list(enumerate(everything))
    if options.only:
        return [numbered[number] for number in options.only]
    if options.match:
        return [one for one in numbered if options.match in str(one[1])]
    if options.survivors:
        alive = Memory(False).survivors()
        return [one for one in numbered if one[1].name in alive]

    def lot(one):  # drawn by name, so that a change of the sources changes few of them
        return hashlib.sha256(f"{options.seed} {one[1].name}".encode()).digest()

    numbered.sort(key=lot)
    return numbered[: options.count or None]


def main():
    options = parse(sys.argv[1:])
    FOLDER.mkdir(exist_ok=True)
    everything = population(options.files)
    chosen = choose(options, everything)
    if options.list:
        for number, mutant in sorted(chosen, key=lambda one: one[0]):
            print(f"#{number} {mutant}")
        return 0
    run = Run(options, chosen)
    for stopping in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(stopping, lambda *_: run.bench.commands.stop())
    names = {mutant.name for mutant in everything}
    if options.files == GLOBS:
        for stale in sorted(set(run.reasons) - names):
            print(f"equivalent.txt names what is not there any more: {stale}")
    started = time.monotonic()
    try:
        error = run.bench.prepare()
    except judge.Stopped:
        return 130
    if error:
        print(error, file=sys.stderr)
        return 2
    times = ", ".join(f"{name} {seconds:.1f} s" for name, *_, seconds in run.bench.stages)
    print(f"{len(chosen)} of {len(everything)} mutants; the unchanged tree passes: {times}",
          flush=True)  # fmt: skip
    run.go()
    rate = run.report()
    print(f"{time.monotonic() - started:.0f} s")
    if run.bench.commands.stopped:
        return 130
    return 0 if rate >= RATE_LEAST else 1


if __name__ == "__main__":
    sys.exit(main())
