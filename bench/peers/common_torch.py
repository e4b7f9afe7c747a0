"""What the peers in PyTorch share: setting up, graphs, torch.compile."""

import platform
import sys

import torch

import common

MODES = ["eager", "graph", "compiled"]


def set_up(args):
    """Device and precision; returns what waits for the device."""
    torch.manual_seed(0)
    torch.set_num_threads(args.threads)  # the library may take one of two
    torch.set_float32_matmul_precision(
        "high" if args.precision == "tf32" else "highest")
    # The same choice of library as ours: see core/torch_compat.h.
    if platform.machine() == "aarch64" and torch.__version__ < "2":
        torch._C._set_mkldnn_enabled(False)
    if args.on_cpu:
        return lambda: None
    if not torch.cuda.is_available():
        raise SystemExit("error: this PyTorch sees no CUDA device")
    torch.cuda.set_device(torch.device(args.device).index or 0)
    return torch.cuda.synchronize


def captured(work):
    """`work` as a CUDA graph, and what it returns at every replay."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = work()
    return graph, result


def compiled(function, mode, **options):
    torch._dynamo.reset()
    fast = torch.compile(function, mode=mode, **options)

    def call(*inputs):
        torch.compiler.cudagraph_mark_step_begin()
        return fast(*inputs)

    return call


def closure_of(args, model, loss, compile_mode):
    """Loss and the gradient of all parameters, as the mode asks for it."""
    if compile_mode:
        # Whole or not at all: what it cannot read would run as it is written.
        loss = compiled(loss, compile_mode, fullgraph=True)

    def closure():
        model.zero_grad(set_to_none=True)
        value = loss()
        value.backward()
        return value

    return captured(closure)[0].replay if args.mode == "graph" else closure


def training_step(args, model, loss_at, batch, rows, compile_mode):
    """A step of Adam on loss_at(numbers of the next `batch` of `rows` rows)."""
    options = {"eager": {}, "graph": {"capturable": True, "fused": True},
               "compiled": {"fused": True}}[args.mode]
    adam = torch.optim.Adam(model.parameters(), lr=1e-3, **options)
    place = torch.zeros((), dtype=torch.int64, device=args.device)
    numbers = torch.arange(batch, device=args.device)

    def loss():
        return loss_at(place + numbers)

    if compile_mode:
        loss = compiled(loss, compile_mode)

    def step():
        adam.zero_grad(set_to_none=True)
        loss().backward()
        adam.step()
        place.add_(batch).remainder_(rows)

    return captured(step)[0].replay if args.mode == "graph" else step


def best_compiled(args, make, wait, plan, ready):
    """The faster mode and its times; one that fails is told and left out."""
    best = None
    for mode in ("reduce-overhead", "max-autotune"):
        try:
            with common.limited(args):
                work = make(mode)
                for _ in range(ready):
                    work()
                wait()
            times = common.measure(work, wait, args, plan)
        except Exception as error:
            lines = str(error).strip().splitlines()
            print(f"{mode}: {type(error).__name__}: {(lines or [''])[0]}",
                  file=sys.stderr)
            continue
        print(f"{mode}: {common.median(times):.2f} ms", file=sys.stderr)
        if best is None or common.median(times) < common.median(best[1]):
            best = mode, times
    if best is None:
        raise SystemExit("error: no mode of torch.compile worked in time")
    return best


def run(args, make, wait, plan, cases, ready=3, **more):
    """Times make(mode of torch.compile or None), and prints the line.

    ready: calls after which a compiled function compiles no more.
    """
    if not args.on_cpu:
        torch.cuda.reset_peak_memory_stats()
    mode = args.mode
    if mode == "compiled":
        best, times = best_compiled(args, make, wait, plan, ready)
        mode = f"compiled ({best})"
    else:
        times = common.measure(make(None), wait, args, plan)
    version = torch.__version__.split("+")[0]
    common.report(
        args, f"pytorch {version} {mode}", times, cases,
        None if args.on_cpu else torch.cuda.max_memory_allocated(),
        threads=torch.get_num_threads(), **more)
