# ranks=1
import threading
import time


def watch():
    time.sleep(0.5)
    raise ConnectionResetError("the metrics server is gone")


threading.Thread(target=watch).start()
raise ValueError("loss is NaN")
