"""Timings beside other libraries, and the tables of docs/bench.md."""
from common import commit, fill, head, load, machine

ORDER = 9


def times(r):
    """Milliseconds of ours and of each peer that has a time, and their unit:
    those of a case where the peers were given fewer cases than ours."""
    peers = {name: ms for name, ms in r["peers"].items() if ms}
    cases, peer_cases = r.get("cases", 1), r.get("peer_cases", 1)
    if cases == peer_cases:
        return r["ours_ms"], peers, "ms"
    return (r["ours_ms"] / cases,
            {name: ms / peer_cases for name, ms in peers.items()},
            "ms a case")


def time(value, unit):
    if value is None:
        return "-"
    return f"{value:.{0 if value >= 100 else 2}f} {unit}"


def ratio(value):
    return "-" if value is None else f"{value:.1f}x"


def work(r):
    return r["name"] + (f", {r['cases']} cases" if "cases" in r else "")


def place(r):
    threads = f"{r['threads']} threads" if r["device"] == "cpu" else ""
    device = r["device"].partition(":")[0]
    where = ", ".join(filter(None, [device, r["precision"], threads]))
    return f"{machine(r)} | {where}"


def bench_rows():
    yield from head("work", "machine", "on", "ours",
                    "fastest peer, as published", "fastest peer",
                    "ours against published", "against the fastest",
                    "of the nearer limit", "over its products alone", "commit")
    for _, r in load("bench"):
        ours, peers, unit = times(r)
        published = [t for name, t in peers.items()
                     if name.endswith(", published")]
        yield (f"| {work(r)} | {place(r)} | {time(ours, unit)} "
               f"| {time(min(published, default=None), unit)} "
               f"| {time(min(peers.values(), default=None), unit)} "
               f"| {ratio(r['ratio_published'])} | {ratio(r['ratio'])} "
               f"| {100 * r['share_of_limit']:.0f} % of "
               f"{r.get('bound_by', 'products')} "
               f"| {ratio(r.get('floor_ratio'))} | {commit(r)} |")


def peer_rows():
    yield from head("work", "machine", "on", "who", "time",
                    "ours is faster by", "commit")
    for _, r in load("bench"):
        ours, peers, unit = times(r)
        start = f"| {work(r)} | {place(r)} "
        yield f"{start}| ours | {time(ours, unit)} | | {commit(r)} |"
        if r.get("floor_ms"):
            yield (f"{start}| its matrix products alone "
                   f"| {time(r['floor_ms'], 'ms')} | | {commit(r)} |")
        for name in r["peers"]:
            value = peers.get(name)
            yield (f"{start}| {name} | {time(value, unit)} "
                   f"| {ratio(value and value / ours)} | {commit(r)} |")


def kernel_rows(result):
    yield (f"On {machine(result)}, {result['device'].partition(':')[0]}, "
           f"{result['precision']}; commit {commit(result)}.")
    yield ""
    yield from head("operator", "ours", "libtorch's operations", "faster by",
                    "of the nearer limit")
    for k in result["kernels"]:
        if not k["has_kernel"]:
            continue
        yield (f"| `{k['name']}` | {k['ours_us']:.1f} µs "
               f"| {k['reference_us']:.1f} µs "
               f"| {ratio(k['reference_us'] / k['ours_us'])} "
               f"| {100 * k['share_of_limit']:.0f} % of {k['bound_by']} |")


def gradient_rows():
    yield from head("points", "products in", "ours", "peak memory",
                    "of the products' rate", "machine", "commit")
    rows = [row for _, row in load("closure")]
    for row in sorted(rows, key=lambda row: (row["benches"][0]["cases"],
                                             row["precision"])):
        r = row["benches"][0]
        yield (f"| {r['cases']} | {row['precision']} "
               f"| {r['median_ms']:.2f} ms "
               f"| {r['peak_memory_bytes'] / 2**30:.2f} GiB "
               f"| {100 * r['share_of_products']:.0f} % | {machine(row)} "
               f"| {commit(row)} |")


def section():
    return [
        "## Speed",
        "",
        "One training step of the heat transformer at the paper's size (batch 4, 12 layers of",
        "width 512, 401 frames; data, loss and Adam included), a rollout of 396 frames, a step of the",
        "detector lecture's network, and the loss of the wave equation with the gradient of all parameters (PINNsFormer,",
        "51² and 101² points). Ours is the honest model; a peer is the same network in another library, once",
        "as published, once as we would write it there: heat with our collapsed embedding, the wave with",
        "forward derivatives. The peer's rollout is the paper's own protocol: eighty passes over the whole",
        "sequence, five frames replaced in each.",
        "Command: `bench/compare`. [bench.md](bench.md) explains the numbers and has each peer's.",
        "",
        *bench_rows(),
        "",
    ]


def fill_pages():
    fill("bench.md", "bench", peer_rows())
    machines = {path.stem: result for path, result in load("machines")}
    fill("bench.md", "closure", gradient_rows())
    fill("bench.md", "machines", kernel_rows(machines["h200-tf32"]))
