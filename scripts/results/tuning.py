"""Fine-tuning, and the table of docs/tuning.md."""
from common import commit, fill, head, load, machine, marks, seeds

ORDER = 1.1
PREFIX = "forecast/tune-quick"


def trained(row):
    """What of the model."""
    tuning = row["result"].get("tuning")
    if not tuning:
        return f"new weights, {row['result']['parameters']}"
    rank = f", rank {tuning['rank']}" if tuning["method"] == "lora" else ""
    return f"{tuning['method']}{rank}, {tuning['trained_parameters']}"


def rows():
    yield from head("row", "trained", "test MSE", "seeds", "training", "machine",
                    "commit")
    found = [row for _, row in load("forecast") if row["row"].startswith(PREFIX)]
    for row in sorted(found, key=lambda row: row["value"]):
        name = row["row"].removeprefix("forecast/")
        yield (f"| `{name}` | {trained(row)} | {row['result']['mse']:.2e}{marks(row)} "
               f"| {seeds(row)} | {row['seconds']:.0f} s | {machine(row)} "
               f"| {commit(row)} |")


def section():
    return []


def fill_pages():
    fill("tuning.md", "forecast, fine-tuned", rows())
