"""The tables of README.md: headlines, and the files that they come from."""
from common import document_metric, fill, head, machine, marks, read
from speed import time

ORDER = 10


def seeds(r):
    count = len(r["seeds"])
    return "one seed" if count == 1 else f"median of {count} seeds"


def result_rows():
    yield from head("", "ours", "beside it", "machine")

    def line(what, r, ours, beside):
        return (f"| {what} | {ours}{marks(r)} | {beside} "
                f"| {machine(r)}, {r['precision']} |")

    for what, name, whose in [
            ("frame by frame", "base-causal",
             "the heat-plate paper, whose model sees its answer"),
            ("401 frames at once", "base-block", "the same")]:
        r = read(f"forecast/{name}")
        beside = f"{r['document']:.2e}" if document_metric(r) == r["metric"] else "-"
        yield line(f"heat plate, {what}: test {r['metric']} ({seeds(r)})", r,
                   f"{r['value']:.2e}", f"{beside}, {whose}")
    for what, name, whose in [
            ("wave equation: relative L2", "wave",
             "the S-Pformer paper's best"),
            ("reaction equation", "reaction", "the same"),
            ("convection equation, features chosen knowing the answer",
             "convection", "the same")]:
        r = read(f"solve/{name}-best")
        yield line(f"{what} ({seeds(r)})", r, f"{r['value']:.1e}",
                   f"{r['document']:.2e}, {whose}")
    r = read("locate/corners-jitter-long")
    test = r["result"]
    fit = test["classical"]["maximum_likelihood"]
    rate = test["model"]["events_per_second"] / fit["events_per_second"]
    yield line(f"eight sensors, 1 ns of jitter: median distance ({seeds(r)})",
               r, f"{100 * test['model_there']['median']:.1f} cm",
               f"{100 * fit['median']:.1f} cm, maximum likelihood on the same "
               f"events; ours is {rate:.0f} times as fast, the fit on the CPU")


def per_case(r):
    """Seconds of ours and of the fastest peer in each form."""
    peers = r["peer_seconds_per_case"]

    def fastest(form):
        return min(s for name, s in peers.items() if s and form in name)

    return r["seconds_per_case"], fastest("published"), fastest("collapsed")


def speed_rows():
    yield from head("", "ours", "fastest peer, as published",
                    "with our collapsed embedding", "", "on")
    for what, name, is_step in [
            ("training step, block", "heat-step-block-cuda", True),
            ("396 frames, one by one, a plate", "rollout-cuda", False),
            ("training step, block", "heat-step-block-cpu", True)]:
        r = read(f"bench/{name}")
        cases = r["cases"] if is_step else 1
        ours, published, collapsed = [1e3 * cases * s for s in per_case(r)]
        threads = f", {r['threads']} threads" if r["device"] == "cpu" else ""
        yield (f"| {what} | {time(ours, 'ms')}{marks(r)} "
               f"| {time(published, 'ms')} | {time(collapsed, 'ms')} "
               f"| {published / ours:.1f}x, {collapsed / ours:.1f}x "
               f"| {machine(r)}, {r['precision']}{threads} |")


def section():
    return []


def fill_pages():
    fill("../README.md", "", result_rows())
    fill("../README.md", "bench", speed_rows())
