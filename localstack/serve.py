"""Runs MiniStack with two changes that it has no settings for (see ministack.sh)."""

import os
import sys
import threading

import ministack.services.scheduler as scheduler
from ministack.app import main

# EventBridge schedules are looked at every 10 s by default.
scheduler._SCHEDULE_TICK_INTERVAL = float(os.environ.get("ERRAND_SCHEDULER_SWEEP", "1"))


def end_with_stdin():
    sys.stdin.read()
    os._exit(0)


if os.environ.get("ERRAND_STDIN_GUARD") == "1":
    threading.Thread(target=end_with_stdin, daemon=True).start()

main()
