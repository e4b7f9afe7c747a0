"""Plates: every row, precisions, larger grids."""
import subprocess

from common import (PLACE, ROOT, band, document_metric, fill, head, is_field, is_question,
                    load, marks, place, read, second_test, seeds, spread)

ORDER = 1
# The configurations: name, plate, whether the paper has it.
CONFIGURATIONS = [
    ("base-block", "base", True),
    ("base-causal", "base", True),
    ("challenge-1-block", "challenge-1", True),
    ("challenge-1-causal", "challenge-1", True),
    ("challenge-2-block", "challenge-2", True),
    ("challenge-2-causal", "challenge-2", True),
    ("base-block-fixed", "base, fixed time step", False),
    ("base-causal-fixed", "base, fixed time step", False),
    ("base-block-52", "base, 52 × 52 nodes", False),
    ("base-block-104", "base, 104 × 104 nodes", False),
    ("quick", "base", False),
    ("quick-bands", "base, 16 × 16 nodes", False),
    ("tiny", "base, 8 × 8 nodes", False),
]


def propagator_errors(result):
    """Of the learned propagator at the last frame; docs/report.md defines them."""
    learned = result.get("learned_propagator")
    if not learned:
        return "-"
    return (f"{100 * learned['data_error'][-1]:.1f} % / "
            f"{100 * learned['node_error'][-1]:.0f} %")


def leaks(result):
    """Outputs that change with hidden inputs; older files have gradients."""
    audit = result["leak_audit"]
    return f"{audit['leaks']}{'' if 'paths' in audit else ' gradients'}"


def with_paper(row, metric, value):
    """Ours, and behind it the paper's number, if it is of this metric."""
    paper = row["document"] if document_metric(row) == metric else None
    return (f"{value:.2e}" if value else "-") + (f" ({paper:.2e})" if paper else "")


def forecast_rows():
    yield from head("row", "mode", "test MSE (heat-plate paper)",
                    "total loss (heat-plate paper)", "seeds", "spread",
                    "second test", "band",
                    "hidden frames", "better baseline, hidden", "leaks",
                    "propagator error, data / nodes", "training", PLACE,
                    "command")
    for _, row in load("forecast"):
        r = row["result"]
        if "spread" in r or is_field(row) or is_question(row):
            continue  # its metric is another
        best = min(b["mse_hidden"] for b in r["baselines"].values())
        yield (f"| {row['row']} | {row['mode']} | {with_paper(row, 'MSE', r['mse'])} "
               f"| {with_paper(row, 'total loss', r.get('total_loss'))} "
               f"| {seeds(row)} | {spread(row)} | {second_test(row)} | {band(row)} "
               f"| {r['mse_hidden']:.2e} | {best:.2e} "
               f"| {leaks(r)} | {propagator_errors(r)} "
               f"| {row['seconds']:.0f} s | {place(row)} "
               f"| `{row['command']}` |")


def time_of_a_plate(seconds):
    return f"{1e3 * seconds:.3g} ms"


def classical_rows():
    """The classical answer beside the network, on the same plates."""
    yield from head("row", "network: hidden frames, MSE", "a plate",
                    "Euler, alpha given: MSE", "a plate",
                    "Euler, alpha fitted: MSE", "a plate", PLACE)
    names = {name for name, *_ in CONFIGURATIONS}
    for path, row in load("forecast"):
        r = row["result"]
        answers = r.get("classical")
        if path.stem not in names or not answers:
            continue
        cells = [f"{one['mse_hidden']:.1e} | {time_of_a_plate(one['seconds_per_case'])}"
                 for one in (answers["explicit Euler, alpha given"],
                             answers["explicit Euler, alpha fitted"])]
        yield (f"| {path.stem} | {r['mse_hidden']:.1e} "
               f"| {time_of_a_plate(r['seconds_per_case'])} | {' | '.join(cells)} "
               f"| {place(row)} |")


def bands_rows():
    """Rows with a predicted variance; nothing while there is none."""
    rows = [row for _, row in load("forecast") if "spread" in row["result"]]
    if not rows:
        return

    def percent(shares):
        return " / ".join(f"{100 * shares[size]:.1f}" for size in ("50", "90", "95"))

    yield from head("row", "inside 50 / 90 / 95 % (%)", "before scaling (%)",
                    "mean over nodes (%)", "the same, nodes independent (%)",
                    "points off 90 %", "seeds", "spread", "second test", "band",
                    "test MSE", "leaks", "training", PLACE, "command")
    for row in rows:
        r = row["result"]
        s = r["spread"]
        alone = s.get("coverage_of_mean_independent")
        yield (f"| {row['row']} | {percent(s['coverage'])} "
               f"| {percent(s['coverage_uncalibrated'])} "
               f"| {percent(s['coverage_of_mean'])} "
               f"| {percent(alone) if alone else '-'} "
               f"| {row['value']:.2f} | {seeds(row)} | {spread(row)} "
               f"| {second_test(row)} | {band(row)} | {r['mse']:.2e} "
               f"| {r['leak_audit']['leaks']} | {row['seconds']:.0f} s "
               f"| {place(row)} | `{row['command']}` |")


def bands_section():
    rows = list(bands_rows())
    if not rows:
        return []
    return [
        "## Forecasts with bands",
        "",
        *rows,
        "",
        "Shares of nodes of hidden frames of the test inside the intervals that are predicted for them, which validation",
        "cases have scaled ([forecast.md](forecast.md#how-far-off-it-may-be)); and shares of frames whose mean over all nodes",
        "is inside its own. The metric of such a row is by how many points the 90 % interval misses 90 %.",
        "",
    ]


def claim(row, in_paper):
    if not in_paper:
        return "–"
    document = row and row["document"]
    return f"{document_metric(row)} {document:.2e}" if document else "in a figure only"


def configuration_rows():
    yield from head("name", "plate", "mask", "as published",
                    "the paper's number", "ours, as published: MSE",
                    "ours, honest: MSE")
    rows = {path.stem: row for path, row in load("forecast")
            if not is_field(row)}

    def ours(name):
        row = rows.get(name)
        if not row:
            return "–"
        total = row["result"].get("total_loss")
        return (f"{row['result']['mse']:.2e}"
                + (f", total loss {total:.2e}" if total else "") + marks(row))

    for name, plate, in_paper in CONFIGURATIONS:
        mask = "causal" if "causal" in name else "block"
        published = f"{name}-published"
        yield (f"| `{name}` | {plate} | {mask} "
               f"| {f'`{published}`' if in_paper else '–'} "
               f"| {claim(rows.get(name), in_paper)} "
               f"| {ours(published)} | {ours(name)} |")


def precision_rows():
    yield from head("products in", "test MSE", "seeds", "training", PLACE,
                    "command")
    rows = [row for _, row in load("precision")]
    for row in sorted(rows, key=lambda row: row["result"]["mse"]):
        yield (f"| {row['precision']} | {row['result']['mse']:.2e} "
               f"| {seeds(row)} | {row['seconds']:.0f} s "
               f"| {place(row)} | `{row['command']}` |")


def grids():
    """Nodes along a side, milliseconds of a step, test MSE."""
    for path, step in load("grids"):
        side = int(path.stem.removeprefix("step-"))
        name = "base-block" + (f"-{side}" if side != 26 else "")
        row = read(f"forecast/{name}")
        yield side, step["benches"][0]["median_ms"], row["result"]["mse"]


def grid_rows():
    yield from head("nodes along a side", "training step, batch 16", PLACE)
    for side, ms, _ in sorted(grids()):
        yield (f"| {side} | {ms:.2f} ms "
               f"| {place(read(f'grids/step-{side}'))} |")


def draw_grids():
    data = "\n".join(f"{side} {ms} {mse}" for side, ms, mse in sorted(grids()))
    subprocess.run(["gnuplot"], input=f"""
set terminal svg size 640,360 font "sans,13" background "white"
set output "{ROOT}/docs/pictures/grids.svg"
set border 11; set key top left; set logscale x 2
set xlabel "nodes along a side"; set xrange [22:124]
set xtics ("26" 26, "52" 52, "104" 104) nomirror
set ylabel "training step, batch 16 (ms)"; set yrange [0:10]; set ytics nomirror
set y2label "test MSE"; set y2range [0:2e-8]; set format y2 "%.1e"; set y2tics 4e-9
$data << END
{data}
END
plot $data using 1:2 with linespoints pt 7 lw 2 lc rgb "#1f5fa8" title "step", \\
     $data using 1:3 axes x1y2 with linespoints pt 5 dt 2 lw 2 lc rgb "#b3441f" title "test MSE"
""", text=True, check=True)


def section():
    (few, fast, _), *_, (many, slow, _) = sorted(grids())
    return [
        "## Forecast",
        "",
        *forecast_rows(),
        "",
        "The files are `results/<row>.json`. `forecast/quick` is what `scripts/demo` trains.",
        "The paper's numbers are of its own, leaking models: for block models a total loss, for causal ones an MSE",
        "([forecast.md](forecast.md#the-test-and-its-baselines)). Rows without a total loss are from before it was",
        "measured, with no second test and no proof by perturbation: their leaks are gradients that are not zero, which shows",
        "less. In the other rows leaks are outputs that change with hidden inputs. A band is of the metric of its row.",
        "Where there are several seeds the row has the median; the spread is from the least to the largest. The",
        "second test is the same metric on plates of another seed, which were drawn after all recipes were chosen.",
        "Hidden frames are those that the model has to predict; baselines are given the visible ones.",
        "",
        *bands_section(),
        "## Precision",
        "",
        "`forecast/base-block` as it was at that commit, with 10 epochs of Adam. In bf16 layers run as plain operations;",
        "the other two differ in nothing but their products. There is no band: the paper's number for this plate is a",
        "total loss, which these files have not.",
        "",
        *precision_rows(),
        "",
        "## Larger grids",
        "",
        "The same layers for plates of 26, 52 and 104 nodes along a side: 12 000, 4000 and 2000 plates, 7875, 5250 and",
        "5220 steps of Muon, batch 16. The time step follows the grid, so the finer plates are followed for a shorter",
        f"time. A step with {(many // few) ** 2} times the nodes",
        f"takes {slow / fast:.1f} times as long: only the first and the last product see nodes.",
        "",
        *grid_rows(),
        "",
        "![step time and error against the grid](pictures/grids.svg)",
        "",
    ]


def fill_pages():
    draw_grids()
    fill("forecast.md", "forecast", configuration_rows())
    fill("forecast.md", "forecast, classical", classical_rows())
