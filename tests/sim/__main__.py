"""`python -m tests.sim SEED`: live one life and tell what the API server was told."""

from __future__ import annotations

import sys

from taugrid_ray.kinds.resource import EVENT
from tests.fake_kube import Call
from tests.sim.life import Life


def main(seed: int) -> None:
    life = Life(seed)
    webhook = life.kube.on_call

    def on_call(call: Call) -> None:
        if call.verb not in ("get", "list", "watch") and call.kind != EVENT:
            what = f"{call.verb} {call.kind.kind} {call.key.name} {call.sub} {_short(call.body)}"
            life.tell(what)
        if webhook is not None:
            webhook(call)

    life.kube.on_call = on_call
    try:
        life.run()
    except AssertionError as wrong:
        sys.exit(str(wrong))
    sys.stdout.write("\n".join((*life.story, f"seed {seed}: all is well", "")))


def _short(body: object) -> str:
    return str(body)[:300]


if __name__ == "__main__":
    main(int(sys.argv[1]))
