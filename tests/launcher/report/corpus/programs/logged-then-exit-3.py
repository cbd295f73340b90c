# ranks=1
import logging
import sys

logging.basicConfig(level=logging.INFO)


def train():
    return {}["learning_rate"]


def main():
    try:
        train()
    except Exception:
        logging.exception("training failed")
        logging.info("logs are in /home/user/job/logs")
        return 3
    return 0


sys.exit(main())
