"""Events in a detector."""
from common import (PLACE, band, head, load, place, second_test, seeds,
                    spread)

ORDER = 3


def locate_rows():
    yield from head("row", "mode", "resolution", "median", "90 %", "seeds",
                    "spread", "second test", "band", "least squares, median",
                    "maximum likelihood, median",
                    "events a second: ours, least squares, likelihood",
                    "training", PLACE, "command")
    for _, row in load("locate"):
        r = row["result"]
        model, fits = r["model"], r["classical"]
        squares, likelihood = fits["least_squares"], fits["maximum_likelihood"]
        yield (f"| {row['row']} | {row['mode']} | {model['resolution']:.3g} m "
               f"| {model['median']:.3g} m | {model['ninety']:.3g} m "
               f"| {seeds(row)} | {spread(row)} | {second_test(row)} | {band(row)} "
               f"| {squares['median']:.2g} m | {likelihood['median']:.2g} m "
               f"| {model['events_per_second']:.0f}, "
               f"{squares['events_per_second']:.0f}, "
               f"{likelihood['events_per_second']:.0f} "
               f"| {row['seconds']:.0f} s | {place(row)} "
               f"| `{row['command']}` |")


def section():
    return [
        "## Locate",
        "",
        "Distances between the event and where it was located, of events that no network has seen. The",
        "fits are of the first 2000 of them, on the CPU. [locate.md](locate.md) explains the columns.",
        "",
        *locate_rows(),
        "",
        "A band is of the row's first metric. Where times are exact, some events fit two places; they make the",
        "resolution of the fits.",
        "",
    ]
