"""The commits that computed the results, and those that are gone."""
from common import head
from history import day, is_absent, named

ORDER = 20
# What is known of those that are gone.
GONE = {
    "55c6cfb65d6a": "The history was laid anew after it had computed its rows; its "
                    "sources came in with 9b1c63c to 34bc08d.",
}


def rows():
    yield from head("commit", "day", "files")
    for commit, files in sorted(named().items(), key=lambda item: (day(item[0]), item)):
        when = "**not in the history**" if is_absent(commit) else day(commit)
        yield f"| {commit} | {when} | {len(files)} |"


def section():
    lines = ["## Commits", "", "Those that computed the files, by their days.", "",
             *rows(), ""]
    for commit, files in named().items():
        if is_absent(commit):
            lines += [f"Nobody can build {commit} again as it was, and its rows are to be measured "
                      f"once more: {', '.join(files)}. {GONE.get(commit, '')}".strip(), ""]
    return lines
