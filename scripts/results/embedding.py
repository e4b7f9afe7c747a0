"""What a call from C and a step of a Fortran loop cost, and the tables of
docs/embedding.md."""
from common import commit, fill, head, load, machine

ORDER = 12
MOST_OVERHEAD_US = 5
LEAST_STEPS = 1000


def results(name):
    return [r for _, r in load("embedding") if r["name"] == name]


def place(r):
    return f"{machine(r)} | {r['precision']}, 1 thread | {commit(r)}"


def call_rows():
    yield from head("model directly", "C++ library", "C interface",
                    f"overhead (at most {MOST_OVERHEAD_US} µs)",
                    "half of the calls", "machine", "on", "commit")
    for r in results("call-cost"):
        yield (f"| {r['direct_us']:.1f} µs | {r['library_us']:.1f} µs "
               f"| {r['c_us']:.1f} µs | {r['overhead_us']:.2f} µs "
               f"| {r['overhead_lower_quartile_us']:.2f} to "
               f"{r['overhead_upper_quartile_us']:.2f} µs | {place(r)} |")


def loop_rows():
    yield from head(f"steps a second (at least {LEAST_STEPS})", "of the stencil",
                    "mean square error after 1 step", "after the last",
                    "of a plate that stays still", "machine", "on", "commit")
    for r in results("fortran-loop"):
        yield (f"| {r['steps_per_second']:.0f} "
               f"| {r['stencil_steps_per_second']:.0f} "
               f"| {r['mse_by_step'][0]:.1e} | {r['mse_by_step'][-1]:.1e} "
               f"| {r['still_mse_by_step'][-1]:.1e} | {place(r)} |")


def section():
    if not load("embedding"):
        return []
    return [
        "## In other people's programs",
        "",
        "One case of `forecast/tiny`, called from C, and a Fortran solver whose time loop asks a model of that",
        "size. Commands: [embedding.md](embedding.md#what-a-call-costs).",
        "",
        *call_rows(),
        "",
        *loop_rows(),
        "",
    ]


def fill_pages():
    fill("embedding.md", "embedding/call-cost-*.json", call_rows())
    fill("embedding.md", "embedding/fortran-loop-*.json", loop_rows())
