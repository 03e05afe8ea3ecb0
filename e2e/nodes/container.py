"""One attempt of one container, or a pod's sandbox, as a process that `launch.py` has become.

All of them are started by one thread that lives as long as the node: the kernel's "die with your
parent" looks at the thread that made the process, not at the program.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Any

LAUNCHER = Path(__file__).with_name("launch.py")
KILLED = 128 + signal.SIGKILL
NODES_MARKER = "TAUGRID_RAY_NODES"
"""In the environment of all that runs in a pod: the prefix of the cluster it belongs to."""

_spawner = ThreadPoolExecutor(max_workers=1, thread_name_prefix="spawner")


@dataclass(frozen=True, slots=True)
class Exit:
    code: int
    signal: int = 0
    error: str = ""
    """Why it never ran."""


class Launched:
    """A process on its way or running. Callbacks come from a thread of its own."""

    def __init__(
        self,
        order: dict[str, Any],
        env: dict[str, str],
        *,
        on_running: Callable[[int], None] = lambda pid: None,
        on_exit: Callable[[Exit], None] = lambda end: None,
    ) -> None:
        self.pid = 0
        """The first process inside, as seen from here; 0 until it runs."""
        self.running = Event()
        self.error = ""
        self._on_running, self._on_exit = on_running, on_exit
        self._process, status = _spawner.submit(_spawn, order, env).result()
        self._watcher = Thread(target=self._watch, args=(status,), name="container", daemon=True)
        self._watcher.start()

    def terminate(self) -> None:
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        """End what runs inside; the exit is told as usual."""
        self._send(signal.SIGUSR1 if self.pid and not self.is_sandbox else signal.SIGKILL)

    def destroy(self) -> None:
        """End it now, whatever state it is in. The kernel ends all that is inside."""
        self._send(signal.SIGKILL)

    def wait(self, timeout_s: float) -> bool:
        """Until it has ended and its callback returned. False when the time is over."""
        self._watcher.join(timeout_s)
        return not self._watcher.is_alive()

    @property
    def is_sandbox(self) -> bool:
        return self.pid == self._process.pid

    def _send(self, number: int) -> None:
        # Popen knows whether the process was waited for, so no other process is ever hit.
        self._process.send_signal(number)

    def _watch(self, status: int) -> None:
        end = Exit(KILLED, signal.SIGKILL)
        with os.fdopen(status, "rb") as lines:
            for line in lines:
                said = json.loads(line)
                if "error" in said:
                    self.error = str(said["error"])
                    end = Exit(128, error=self.error)
                    self.running.set()
                elif "pid" in said:
                    self.pid = int(said["pid"])
                    self.running.set()
                    self._on_running(self.pid)
                elif not self.error:
                    end = Exit(int(said["code"]), int(said["signal"]))
        self._process.wait()
        self.running.set()
        self._on_exit(end)


def _spawn(order: dict[str, Any], env: dict[str, str]) -> tuple[subprocess.Popen[bytes], int]:
    status, status_end = os.pipe()
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(LAUNCHER), str(os.getpid()), str(status_end)],
            stdin=subprocess.PIPE,
            pass_fds=(status_end,),
            env=env,
            cwd="/",
            start_new_session=True,
        )
    finally:
        os.close(status_end)
    assert process.stdin is not None
    try:
        with process.stdin as stdin:
            stdin.write(json.dumps(order).encode())
    except BrokenPipeError:
        pass  # it died; the status pipe tells
    return process, status
