# ranks=1 COLUMNS=100
import rich.traceback

rich.traceback.install()


def step():
    raise ValueError("loss is NaN")


step()
