"""Attention with Green's functions: time and memory against tokens."""
import subprocess

from common import ROOT, commit, fill, head, load, machine

ORDER = 5.5
PICTURE = ROOT / "docs/pictures/green-attention.svg"


def measured():
    """The result, and its benches by name and tokens."""
    for _, result in load("greens"):
        yield result, {(b["name"], b["cases"]): b for b in result["benches"]}


def table():
    yield from head("tokens", "fused", "memory", "plain operations", "memory",
                    "faster by", "of the memory", "machine", "on", "commit")
    for result, benches in measured():
        for tokens in sorted({tokens for _, tokens in benches}):
            ours = benches["green-attention", tokens]
            plain = benches.get(("green-attention-plain", tokens))
            yield (f"| {tokens} | {shown(ours)} | {shown(plain)} "
                   f"| {compared(ours, plain)} | {machine(result)} "
                   f"| {result['device'].partition(':')[0]}, "
                   f"{result['precision']} | {commit(result)} |")


def shown(bench):
    if bench is None:
        return "does not fit | -"
    memory = bench.get("peak_memory_bytes")
    return (f"{bench['median_ms']:.2f} ms | "
            + (f"{memory / 2**30:.2f} GiB" if memory else "-"))


def compared(ours, plain):
    if plain is None:
        return "- | -"
    share = "-"
    if ours.get("peak_memory_bytes"):
        share = (f"{100 * ours['peak_memory_bytes'] / plain['peak_memory_bytes']:.0f}"
                 " %")
    return f"{plain['median_ms'] / ours['median_ms']:.1f}x | {share}"


def draw():
    """Of the first result that knows memory."""
    found = [benches for _, benches in measured()
             if all("peak_memory_bytes" in b for b in benches.values())]
    if not found:
        return
    blocks = []
    for name in ("green-attention", "green-attention-plain"):
        blocks.append("\n".join(
            f"{tokens} {b['median_ms']} {b['peak_memory_bytes'] / 2**30}"
            for (kind, tokens), b in sorted(found[0].items(),
                                            key=lambda item: item[0][1])
            if kind == name))
    data = "\n\n\n".join(blocks)
    subprocess.run(["gnuplot"], input=f"""
set terminal svg size 760,340 font "sans,13" background "white"
set output "{PICTURE}"
$data << EOD
{data}
EOD
set multiplot layout 1,2
set border 3; set key top left; set logscale xy 2; set format y "%g"
set tics nomirror; set xlabel "tokens"; set grid ytics lc "#dddddd"
set style line 1 lc "#1f5fa8" lw 2 pt 7 ps 0.6
set style line 2 lc "#b3441f" lw 2 pt 5 ps 0.6 dt 2
set ylabel "forward and backward (ms)"
plot $data index 0 using 1:2 with linespoints ls 1 title "fused", \\
     $data index 1 using 1:2 with linespoints ls 2 title "plain"
set ylabel "peak memory (GiB)"
plot $data index 0 using 1:3 with linespoints ls 1 title "fused", \\
     $data index 1 using 1:3 with linespoints ls 2 title "plain"
unset multiplot
""", text=True, check=True)


def section():
    if not load("greens"):
        return []
    return ["## Attention with Green's functions", "",
            "Forward and backward, of queries, keys, values and the diffusivity: 8 heads of 32, heat in the plane.",
            "Command: `propagator bench green-attention --json`. [greens.md](greens.md) says how it is computed.", "",
            *table(), ""]


def fill_pages():
    if load("greens"):
        draw()
        fill("greens.md", "greens", table())
