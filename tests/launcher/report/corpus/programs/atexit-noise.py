# ranks=1
import atexit


def finish():
    raise OSError(16, "Device or resource busy: '.nfs0000001'")


atexit.register(finish)
raise ValueError("loss is NaN")
