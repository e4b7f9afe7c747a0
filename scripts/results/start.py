"""What a user waits for beside the work: start-up, a page, a build."""
from common import commit, fill, head, load, machine

ORDER = 9.5


def waits():
    """(result, name, wait) of every machine."""
    for path, result in load("machines"):
        if not path.stem.startswith("start-"):
            continue
        for name, wait in result["waits"].items():
            yield result, name, wait


def seconds(number):
    return f"{1000 * number:.0f} ms" if number < 1 else f"{number:.1f} s"


def verdict(wait):
    inside = wait["median_s"] <= wait["limit_s"]
    return f"{'within' if inside else '**outside**'} {seconds(wait['limit_s'])}"


def rows():
    yield from head("what", "median", "slowest", "aim", "cores", "machine", "commit")
    for result, name, wait in waits():
        yield (f"| `{name}` | {seconds(wait['median_s'])} | {seconds(wait['slowest_s'])} "
               f"| {verdict(wait)} | {result['cores']} | {machine(result)} "
               f"| {commit(result)} |")


def section():
    return []  # speed.py has the heading


def fill_pages():
    fill("bench.md", "machines, start-up", rows())
