"""What the heat-plate paper leaves open, on a small plate."""
from common import PLACE, fill, head, is_question, load, marks, place, seeds, spread

ORDER = 1.2
PREFIX = "forecast/question-"
# The questions, in this order, and their rows; each is beside `base`.
QUESTIONS = [
    ("beside all", ["base"]),
    ("how small may it be?", ["width-16", "width-32", "width-128", "layers-1", "layers-6"]),
    ("do schedules pay?", ["rate-constant", "rate-published"]),
    ("which optimiser?", ["adamw", "lamb", "muon"]),
    ("do larger batches pay?", ["accumulate"]),
    ("does cross-correlation help?", ["correlation"]),
    ("need histories go on?", ["steady"]),
    ("is it the transformer?", ["cnn", "rnn"]),
]


def hidden(row):
    """Mean square error of hidden frames: the row's own metric, if it is that."""
    return row["value"]


def against(row, base):
    if base is None or row is base:
        return "-"
    return f"{hidden(row) / hidden(base):.2g}x"


def rows():
    found = {row["row"].removeprefix(PREFIX): row for _, row in load("forecast")
             if is_question(row)}
    if not found:
        return
    yield from head("question", "row", "MSE of hidden frames", "against base", "seeds",
                    "spread", "parameters", "ms a case", "training", PLACE, "command")
    for question, names in QUESTIONS:
        for name in names:
            row = found.get(name)
            if row is None:
                continue
            r = row["result"]
            yield (f"| {question} | {name} | {hidden(row):.2e}{marks(row)} "
                   f"| {against(row, found.get('base'))} "
                   f"| {seeds(row)} | {spread(row)} | {r.get('parameters', '-')} "
                   f"| {1e3 * r['seconds_per_case']:.2f} | {row['seconds']:.0f} s "
                   f"| {place(row)} | `{row['command']}` |")


def section():
    table = list(rows())
    if not table:
        return []
    return [
        "## Questions that the heat-plate paper leaves open",
        "",
        *table,
        "",
        "Each row changes one thing of `forecast/question-base` ([what each asks](forecast.md#open-questions)); all see the same",
        "small plates. Times to train are of machines that others may have used.",
        "",
    ]


def fill_pages():
    fill("forecast.md", "forecast, open questions", rows())
