#!/usr/bin/env python3
"""Draws a metrics file (worker/metrics/metrics_file.hpp): loss, accuracy and samples per second
over the steps, with each restart marked.

    plot_metrics.py metrics.jsonl metrics.png

Needs matplotlib. A line that was cut off by a kill is skipped. Of steps that a resumed job has
repeated, the last values count.
"""
import json
import sys


def read(path):
    """Returns (rows by step, steps at which the job resumed after a restart)."""
    rows, restarts = {}, []
    with open(path) as file:
        for line in file:
            try:
                row = json.loads(line)
            except ValueError:
                continue
            if row.get("event") == "start":
                # What came after the snapshot is repeated, so drop it.
                rows = {step: old for step, old in rows.items() if step <= row["step"]}
                if row["restart"] > 0 or row["step"] > 0:
                    restarts.append(row["step"])
            else:
                rows[row["step"]] = row
    return rows, restarts


def draw(rows, restarts, title):
    """Draws a figure with one plot for each number, sorted by name."""
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot

    known = ("time", "epoch", "step")
    names = sorted({name for row in rows.values() for name in row if name not in known})
    figure, parts = pyplot.subplots(len(names), 1, sharex=True, squeeze=False,
                                    figsize=(8, 2.4 * len(names)))
    for part, name in zip(parts[:, 0], names):
        steps = [step for step in sorted(rows) if rows[step].get(name) is not None]
        part.plot(steps, [rows[step][name] for step in steps], marker=".")
        part.set_ylabel(name.replace("_", " "))
        part.grid(alpha=0.3)
        for number, step in enumerate(restarts):
            part.axvline(step, color="tab:red", linestyle="--", linewidth=1,
                         label="restart" if number == 0 else None)
        if restarts:
            part.legend(loc="best")
    parts[-1, 0].set_xlabel("step")
    parts[0, 0].set_title(title)
    figure.tight_layout()
    return figure


def counted(number, what):
    return f"{number} {what}{'' if number == 1 else 's'}"


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    rows, restarts = read(sys.argv[1])
    if not rows:
        sys.exit(f"{sys.argv[1]}: there are no numbers in it yet")
    draw(rows, restarts, sys.argv[1]).savefig(sys.argv[2])
    print(f"{counted(len(rows), 'point')}, {counted(len(restarts), 'restart')}: {sys.argv[2]}")


if __name__ == "__main__":
    main()
