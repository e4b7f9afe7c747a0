"""What all peers share: arguments, timing, output."""

import argparse
import contextlib
import json
import os
import signal
import sys
import time


class OutOfTime(Exception):
    pass


def make_parser(doc, modes, forms, precisions=("fp32", "tf32")):
    """The arguments that every peer has; `forms`: name and what it is."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--form", choices=forms, default=next(iter(forms)),
                        help="; ".join(f"{name}: {what}"
                                       for name, what in forms.items()))
    parser.add_argument("--mode", choices=modes, default=modes[0])
    parser.add_argument("--precision", choices=precisions,
                        default=precisions[0])
    parser.add_argument("--device", default="cpu", help="cpu, cuda or cuda:N")
    parser.add_argument("--threads", type=int, default=os.cpu_count(),
                        help="of the CPU (default: %(default)s, all cores)")
    parser.add_argument("--repeats", type=int, default=0,
                        help="timed runs (default: what suits the device)")
    parser.add_argument("--limit", type=float, default=120,
                        help="seconds after which no new run is begun")
    return parser


def parse(parser):
    args = parser.parse_args()
    args.start = time.monotonic()
    args.on_cpu = args.device == "cpu"
    if args.on_cpu and args.precision == "tf32":
        parser.error("--precision tf32 needs a GPU")
    if args.on_cpu and args.mode not in ("eager", "jit"):
        parser.error(f"--mode {args.mode} needs a GPU; on the CPU use "
                     f"--mode {parser.get_default('mode')}")
    return args


def seconds_left(args):
    return args.limit - (time.monotonic() - args.start)


@contextlib.contextmanager
def limited(args):
    """Raises OutOfTime inside, at the limit: compilers do not look at it."""
    def out_of_time(*_):
        raise OutOfTime(f"not ready within {args.limit:.0f} s")
    signal.signal(signal.SIGALRM, out_of_time)
    signal.setitimer(signal.ITIMER_REAL, max(seconds_left(args), 0.1))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def measure(work, wait, args, plan):
    """Sorted milliseconds of `work`, each from an idle device to an idle one;
    `plan`: runs that do not count, and runs that do.

    Before the limit at least one run is timed; after it, none is begun.
    """
    warm_up, repeats = plan
    repeats = args.repeats or repeats
    times = []
    for n in range(warm_up + repeats):
        if times and seconds_left(args) < 0:
            break
        wait()
        start = time.perf_counter()
        work()
        wait()
        if n >= warm_up:
            times.append((time.perf_counter() - start) * 1e3)
    return sorted(times)


def median(times):
    return times[(len(times) - 1) // 2]


def report(args, peer, times, cases, peak_memory=None, **more):
    json.dump({"peer": peer, "ms": median(times), "fastest_ms": times[0],
               "slowest_ms": times[-1], "repeats": len(times),
               "cases": cases, "form": args.form,
               "precision": args.precision, "device": args.device,
               "peak_memory_bytes": peak_memory, **more}, sys.stdout)
    print()
