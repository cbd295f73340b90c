# ranks=1
import traceback


def report():
    try:
        raise TimeoutError("the metrics server did not answer")
    except TimeoutError:
        traceback.print_exc()


def step():
    report()
    raise ValueError("loss is NaN")


step()
