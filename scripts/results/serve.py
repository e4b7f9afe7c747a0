"""What a request over HTTP costs, how a server bears those who ask improperly,
and the tables of docs/serving.md."""
from common import commit, fill, head, load, machine

ORDER = 13
MOST_OVERHEAD = 0.15
MOST_RATIO = 5


def results(*names):
    return [r for _, r in load("serve") if r["name"] in names]


def place(r):
    return f"{machine(r)} | {commit(r)}"


def cost_rows():
    yield from head("model", "request", f"overhead (at most {100 * MOST_OVERHEAD:.0f} %)",
                    "p99 of the model", "p99 of a request", "requests a second",
                    "of 4 clients", "machine", "commit")
    for r in results("serve-cost"):
        yield (f"| {r['model_us']:.0f} µs | {r['request_us']:.0f} µs "
               f"| {100 * r['overhead']:.1f} % | {r['model_p99_us']:.0f} µs "
               f"| {r['request_p99_us']:.0f} µs "
               f"| {r['requests_per_second']:.0f} "
               f"| {r['requests_per_second_of_clients']:.0f} | {place(r)} |")


def load_rows():
    yield from head("run", "requests", "connections", "minutes", "wrong answers",
                    "refused (503)", "p99 alone", "p99 among others",
                    f"ratio (at most {MOST_RATIO})", "growth of memory",
                    "ended", "machine", "commit")
    for r in results("load", "soak"):
        alone, among = r["alone"], r["among_others"]
        ended = "yes" if r["crashes"] or r["exit_code"] else "no"
        yield (f"| {r['name']} | {r['requests']} | {r['connections']} "
               f"| {r['seconds'] / 60:.1f} | {alone['wrong'] + among['wrong']} "
               f"| {among['refused']} of {among['requests']} "
               f"| {alone['p99_ms']:.2f} ms | {among['p99_ms']:.2f} ms "
               f"| {r['p99_ratio']:.1f} | {r['memory_growth'] / 2**20:.1f} MiB "
               f"of {r['memory_end'] / 2**20:.0f} | {ended} | {place(r)} |")


def section():
    if not load("serve"):
        return []
    return [
        "## Over HTTP",
        "",
        "One case of `forecast/tiny` over the loopback address, one thread computing; and proper requests among",
        "200 connections that trickle, send too much, send nonsense or break off. Commands:",
        "[serving.md](serving.md#what-it-costs).",
        "",
        *cost_rows(),
        "",
        *load_rows(),
        "",
    ]


def fill_pages():
    fill("serving.md", "serve/serve-cost-*.json", cost_rows())
    fill("serving.md", "serve/load-*.json, soak-*.json", load_rows())
