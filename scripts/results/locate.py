"""Events in a detector."""
from common import (PLACE, band, commit, fill, head, load, machine, marks, place,
                    second_test, seeds, spread)

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


def length(metres):
    """With three digits in a unit that suits it; rounding is 0."""
    if metres < 1e-5:
        return "0"
    return f"{1e3 * metres:.3g} mm" if metres < 1e-2 else f"{100 * metres:.1f} cm"


def shown_rows():
    """Networks beside fits of the same events."""
    yield from head("row", "resolution", "median, mean",
                    "on the events of the fits: median, mean",
                    "least squares: resolution, median, mean",
                    "maximum likelihood: median, mean",
                    "events a second: ours, likelihood", "seeds",
                    "training of one seed", "machine", "commit")
    for path, row in sorted(load("locate"), key=lambda item: item[0].stem):
        r = row["result"]
        model, there = r["model"], r["model_there"]
        squares, likelihood = (r["classical"]["least_squares"],
                               r["classical"]["maximum_likelihood"])

        def errors(of):
            return f"{length(of['median'])}, {length(of['mean'])}"

        ours, fit = model["events_per_second"], likelihood["events_per_second"]
        yield (f"| {path.stem}{marks(row)} | {length(model['resolution'])} "
               f"| {errors(model)} | {errors(there)} "
               f"| {length(squares['resolution'])}, {errors(squares)} "
               f"| {errors(likelihood)} "
               f"| {ours:.0f}, {fit:.0f}: {ours / fit:.1f}x | {seeds(row)} "
               f"| {row['seconds'] / len(row['seeds']):.0f} s "
               f"| {machine(row)} | {commit(row)} |")


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


def fill_pages():
    fill("locate.md", "locate", shown_rows())
