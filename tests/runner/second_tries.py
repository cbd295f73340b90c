"""Tests of real processes, real time and real networks that have failed are tried again alone, when
everything else is done, and twice at most. A test that passes then counts as passed, and is
named."""

from outcomes import FAILED, PASSED

TRIES = 2
MOST = 5  # tests in one run; if there are more, our code is at fault, not the machine


def candidates(reports):
    return [(report, outcome) for report in reports.all if report.part.again
            for outcome in report.failed() if outcome.may_be_again]


def take_place(runner, screen, reports):
    """Changes the outcomes of tests that pass, and returns whether there were too many failures."""
    wanted = candidates(reports)
    if len(wanted) > MOST:
        screen.say(f"{len(wanted)} tests of real processes failed, and at most {MOST} are tried "
                   "again: none is")
        return
    for report, outcome in wanted:
        for number in range(1, TRIES + 1):
            again = runner.run(report.part, [outcome.name], f"-again{len(reports.second_tries)}"
                                                            f"-{number}")
            if again.count(PASSED) and not again.count(FAILED):
                outcome.result = PASSED
                reports.second_tries.append(f"{report.part.name} {outcome.name}")
                break


def line(reports):
    count = len(reports.second_tries)
    return f"{count} on a second try: {', '.join(reports.second_tries)}" if count else ""
