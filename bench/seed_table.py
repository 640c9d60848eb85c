#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the seeds' performance table as claimed, as measured with torch, and as measured with Fovea tier by tier, and
says which claims do not hold. Markdown, for docs/seed_table.md.

    bench/peers/gpu.py --model DIR --json peers.json       # on the GPU; holds Fovea's rows too
    fovea bench front-end --json > cpu.json                # and fovea bench model --model DIR --json > model.json
    bench/seed_table.py --peers peers.json --cpu cpu.json model.json --photos FOLDER [--plans plans.json]
    bench/seed_table.py --gpu gpu.json --peers peers.json --cpu cpu.json --plans plans.json    # runs nothing
    fovea bench attention --json > kinds.json              # one more file for --cpu
    fovea eval --cards 320 --seed 1 --arms full --attention KIND --json KIND.json    # for --eval (seed_attention.py)

All files have the form of `fovea bench --json`: Fovea's figure is a row's "value", a peer's its "peer_value". --gpu is
`fovea bench gpu --json` where --peers has no rows of Fovea. --photos runs `fovea see` on pictures and counts the bytes
of their plans (bench/seed_plans.py says how); --plans keeps those counts, or reads them where there are no --photos.

The page begins with the rules by which claims are judged: RULES.
"""
import argparse
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import seed_attention  # noqa: E402
import seed_plans  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
MILLISECONDS = {"ns": 1e-6, "us": 1e-3, "us an image": 1e-3, "ms": 1.0, "s": 1e3}
BATCH, SLACK, BYTE_SLACK = 32, 0.1, 3
RULES = " ".join("""
Times are in milliseconds for one picture; rows of a batch of 32 are divided by 32. A ratio that was claimed holds where
at least nine tenths of it were measured, a time where at most eleven tenths, a time of PyTorch where it is between half
and twice, a saving of bytes where at most three points less was measured, a loss of accuracy where at most half a point
more. What has no figure is "not measured". Ratios are to torch in eager mode on our GPU; where that is a loop in Python
(token allocation, and with it the sum of vision), to the best that torch does. Each claim has the machine beside it
that it was made for, and the one that it was measured on.
""".split())


class Figures:
    """The rows of some files by name: Fovea's own, and those of its peers."""

    def __init__(self, paths):
        self.own, self.peers, self.notes, self.machine = {}, {}, {}, {}
        for path in paths:
            found = json.loads(Path(path).read_text())
            found = {"rows": found} if isinstance(found, list) else found
            if "rows" not in found:
                sys.exit(f"seed_table.py: {path} has no rows; it must be of `fovea bench --json` or bench/peers")
            self.machine.update(found.get("machine", {}))
            for row in found["rows"]:
                if "value" in row:
                    self.own[row["name"]] = (row["value"], row["unit"])
                    self.notes[row["name"]] = row.get("note", "")
                if "peer_value" in row:
                    unit = row.get("peer_unit", row.get("unit"))
                    self.peers.setdefault(row["name"], {})[row["peer"]] = (row["peer_value"], unit)

    @staticmethod
    def in_ms(figure, images=1):
        """ms a picture, or None. Where the unit says "an image" it was divided before."""
        if figure is None or figure[1] not in MILLISECONDS:
            return None
        return figure[0] * MILLISECONDS[figure[1]] / (1 if figure[1].endswith("an image") else images)

    def ms(self, *names, images=1):
        """The sum of rows, or None where one is missing."""
        found = [self.in_ms(self.own.get(name), images) for name in names]
        return None if None in found else sum(found)

    def first_ms(self, *names):
        return next((found for found in map(self.ms, names) if found is not None), None)

    def rate(self, name):
        """A figure in GB/s, or None."""
        value, unit = self.own.get(name, (None, ""))
        return {"GB/s": 1, "TB/s": 1000}[unit] * value if unit in ("GB/s", "TB/s") else None

    def peer_ms(self, name, starts, images=1):
        """The peer whose name is `starts`, or the first that starts so."""
        peers = self.peers.get(name, {})
        key = starts if starts in peers else next((peer for peer in peers if peer.startswith(starts)), None)
        return self.in_ms(peers.get(key), images)

    def best_ms(self, name, images=1):
        found = [self.in_ms(figure, images) for figure in self.peers.get(name, {}).values()]
        return min((one for one in found if one is not None), default=None)


@dataclass
class Row:
    what: str
    software: float | None = None   # claimed, ms
    hardware: float | None = None
    ratio: float | None = None
    eager: float | None = None      # torch, transformers
    best: float | None = None
    cpu: float | None = None        # Fovea
    kernels: float | None = None
    textures: float | None = None
    loops: bool = False             # torch's eager form is a loop in Python, which says nothing of torch

    def fastest(self):
        return min((one for one in (self.kernels, self.textures) if one is not None), default=None)

    def measured(self):
        return quotient(self.best if self.loops else self.eager, self.fastest())


@dataclass
class Claim:
    what: str
    claimed: str
    measured: str | None = None
    holds: bool | None = None
    why: str = ""
    theirs: str = "A100"  # where it was claimed
    ours: str = "GPU"     # where it was measured; report() puts the machines' names in the places of GPU and CPU


def quotient(a, b):
    return None if a is None or not b else a / b


def total(*parts):
    return None if None in parts else sum(parts)


def at_least(found, claimed):
    return None if found is None else found >= (1 - SLACK) * claimed


def at_most(found, claimed):
    return None if found is None else found <= (1 + SLACK) * claimed


def number(value, unit=""):
    if value is None:
        return "-"
    return f"{value:,.0f}{unit}" if value >= 100 else f"{value:.3g}{unit}"


def operations(gpu, cpu, peers):
    """The rows of the seeds' table."""
    formats = ("int8", "bf16", "f32")
    rows = {
        "mipmaps": Row("mipmaps, 4096x4096, 5 levels", 5, 0.1, 50,
                       peers.peer_ms("pyramid/4096x4096x5", "torch avg_pool2d chain fp32"),
                       peers.best_ms("pyramid/4096x4096x5"), cpu.ms("pyramid/4096x4096x5"),
                       gpu.ms("pyramid/4096x4096x5"), gpu.ms("pyramid/texture/4096x4096x5")),
        "patches": Row("patch extraction, 1024x1024, all 4,096", 2, 0.3, 6.7,
                       peers.peer_ms("patches/uniform/1x1024x1024", "torch unfold fp32"),
                       peers.best_ms("patches/uniform/1x1024x1024"),
                       cpu.first_ms("patches/1024x1024/uniform/bf16", "patches/1024x1024/uniform/f32"),
                       gpu.ms("patches/uniform/1x1024x1024")),
        "sampling": Row("foveated sampling, 1024x1024 (GPU: 336 cells a picture, batch of 32)", None, 0.5, None,
                        peers.peer_ms("patches/grouped", "torch, one indexed copy a level", BATCH),
                        peers.best_ms("patches/grouped", BATCH), cpu.ms("patches/1024x1024/68-tokens/bf16"),
                        gpu.ms("patches/grouped", images=BATCH)),
        "tower": Row("tower, 4,096 patches", 50, None, None, peers.peer_ms("tower/4096", "transformers eager"),
                     peers.best_ms("tower/4096"), cpu.first_ms(*(f"tower/4096/{kind}" for kind in formats)),
                     gpu.ms("tower/4096")),
        "few": Row("tower, 273 patches (ours: 272)", None, 4.3, 11.6, peers.peer_ms("tower/272", "transformers eager"),
                   peers.best_ms("tower/272"), cpu.first_ms(*(f"tower/272/{kind}" for kind in formats)),
                   gpu.ms("tower/272")),
        "allocation": Row("token allocation, 1024x1024 (Fovea: relevance and plan; GPU: batch of 32)", 10, 1, 10,
                          peers.peer_ms("allocation/1x1024x1024", "torch, a Python loop"),
                          peers.best_ms("allocation/1x1024x1024"),
                          total(cpu.ms("relevance/1024x1024/all"),
                                cpu.first_ms("gaze/quadtree/1024x1024/68", "gaze/quadtree/1024x1024/96")),
                          gpu.ms("relevance/32x1024x1024", "plan/quadtree68/32x1024x1024", images=BATCH), loops=True),
        "attention": Row("dense attention, 4,096 tokens, one layer of the tower", 20, None, None,
                         peers.peer_ms("attention/tower4096", "torch SDPA flash"), peers.best_ms("attention/tower4096"),
                         cpu.first_ms(*(name for name in cpu.own if name.startswith("attention/tower-4096/"))),
                         gpu.ms("attention/tower4096")),
    }
    dense = rows["attention"]
    rows["hierarchical"] = Row("the same, hierarchical: an eighth of the blocks, the rest pooled (torch: dense)", None,
                               3, 6.7, dense.eager, dense.best, cpu.ms("attention/4096/hierarchical"),
                               gpu.ms("attention/kinds4096/hierarchical"))
    rows["vision"] = vision_total(rows)
    whole, ask = "first-token/full", "ask/1024x1024/{}{}/first_token"
    rows["full"] = Row("first token, 1024x1024, every token", 167, None, None,
                       peers.peer_ms(whole, "transformers eager, all"), peers.best_ms(whole),
                       cpu.first_ms(*(ask.format("", kind) for kind in formats)), gpu.ms(whole))
    rows["end"] = Row("first token, 68 visual tokens (torch: every token)", 167, 110, 1.52, rows["full"].eager,
                      rows["full"].best, cpu.first_ms(*(ask.format("68/", kind) for kind in formats)),
                      gpu.ms("first-token/68"))
    return rows


def vision_total(rows):
    """The seeds' own sums: mipmaps, patches, tower at 4,096 and allocation against mipmaps, sampling, tower at 273
    and allocation."""
    software = ("mipmaps", "patches", "tower", "allocation")
    ours = ("mipmaps", "sampling", "few", "allocation")
    return Row("vision, sum (torch: every patch; Fovea: 272)", 67, 10, 6.7,
               total(*(rows[key].eager for key in software)), total(*(rows[key].best for key in software)),
               total(*(rows[key].cpu for key in ours)), total(*(rows[key].kernels for key in ours)),
               total(rows["mipmaps"].textures, *(rows[key].kernels for key in ours[1:])), loops=True)


def row_claims(rows):
    """The claims of the table itself: the software's time, the hardware's, and their ratio."""
    claims = []
    for key, row in rows.items():
        if key == "full":
            continue
        if row.software and key != "end":
            slower = quotient(row.software, row.eager)
            claims.append(Claim(f"{row.what}: PyTorch takes", f"{row.software:g} ms", number(row.eager, " ms"),
                                None if slower is None else 0.5 <= slower <= 2))
        if row.hardware:
            claims.append(Claim(f"{row.what}: reached", f"{row.hardware:g} ms", number(row.fastest(), " ms"),
                                at_most(row.fastest(), row.hardware)))
        if row.ratio and key != "few":
            than = "torch's best" if row.loops else "torch eager"
            claims.append(Claim(f"{row.what}: times faster than {than}", f"{row.ratio:g}x",
                                number(row.measured(), "x"), at_least(row.measured(), row.ratio)))
    for label, field in (("transformers eager", "eager"), ("torch's best", "best"), ("Fovea, CUDA", "kernels"),
                         ("Fovea, CPU", "cpu")):
        gain = quotient(getattr(rows["tower"], field), getattr(rows["few"], field))
        claims.append(Claim(f"273 instead of 4,096 patches make the tower faster: {label}", "11.6x", number(gain, "x"),
                            at_least(gain, 11.6), ours="CPU" if field == "cpu" else "GPU"))
    return claims


def ratio_in(note):
    found = re.search(r"([0-9.]+)x", note or "")
    return float(found[1]) if found else None


def other_claims(gpu, cpu):
    """Claims beside the table: order of sampling, prefetching, batches, video, matrix products."""
    mixed = quotient(gpu.ms("patches/mixed"), gpu.ms("patches/grouped"))
    ahead, warm = ratio_in(gpu.notes.get("patches/prefetch")), gpu.notes.get("patches/warm", "")
    update = quotient(gpu.ms("pyramid/4096x4096x5"), gpu.ms("pyramid/update/1of20"))
    upload, rate = gpu.ms("front-end/upload/32x1024x1024"), gpu.rate("ceiling/h2d")
    least = quotient(1024 * 1024 * 16 / 1e6, rate)
    textures = quotient(gpu.ms("pyramid/4096x4096x5"), gpu.ms("pyramid/texture/4096x4096x5"))
    claims = [
        Claim("sampling grouped by level against mixed order", "2x", number(mixed, "x"), at_least(mixed, 2)),
        Claim("prefetching the next cells", "1.5x", number(ahead, "x"), at_least(ahead, 1.5)),
        Claim("a cache warmed from the plan before: hit rate 68 to 94 %", "1.38x", number(last_ratio(warm), "x"),
              at_least(last_ratio(warm), 1.38), "by time; hits are in notebook/gpu_counters.md"),
        Claim("textures instead of plain kernels for the levels", "3.3x", number(textures, "x"),
              at_least(textures, 3.3)),
        Claim("upload and levels of a 1024x1024 RGBA32F picture, batch of 32", "0.019 ms",
              number(least, " ms at least"), at_most(least, 0.019),
              "16.8 MB at the measured rate of pinned copies, before any level is made"),
        Claim("the same with 8-bit RGB, relevance, plan and patches too", "0.044 ms", number(upload, " ms"),
              at_most(upload, 0.044)),
        Claim("levels of a frame of which a tenth changed (ours: a twentieth of the tiles)", "2x", number(update, "x"),
              at_least(update, 2)),
    ]
    steps = [name for name in gpu.own if name.startswith("gemm-steps/")]
    for before, after in zip(steps, steps[1:]):
        gain = quotient(gpu.ms(before), gpu.ms(after))
        claims.append(Claim(f"matrix product, {after.split('/')[1]}", "1.15x to 1.40x", number(gain, "x"),
                            at_least(gain, 1.15), theirs="not named"))
    return claims


def last_ratio(note):
    found = re.findall(r"([0-9.]+)x", note or "")
    return float(found[-1]) if found else None


def arithmetic_claims():
    """What the seeds' own figures give when they are added up again; nothing is measured here."""
    claims = [
        Claim("256 + 128 + 64 patches are 273 full-resolution ones", "273", f"{256 + 128 + 64} patches for the tower",
              False, "a patch costs the tower the same at any level"),
        Claim("10, 30 and 60 % of the places at levels 0, 1 and 2 save", "61 %",
              f"{100 * (1 - seed_plans.share_of([0.1, 0.3, 0.6])):.0f} %", False,
              "a level has a quarter of the bytes of the one before, not half"),
        Claim("tower at 273 patches, in proportion", "4.3 ms", f"{50 * 273 / 4096:.1f} ms", False,
              "50 ms x 273 / 4,096; attention falls with the square"),
        Claim("the end-to-end ceiling with an instant tower", "1.67x", f"{167 / 100:.2f}x", True,
              "as long as the language model's time stays what it was"),
    ]
    for claim in claims:
        claim.theirs = claim.ours = "arithmetic"
    return claims


def byte_claims(found):
    claims = []
    for claim in seed_plans.CLAIMS:
        plans = [plan for plan in found["plans"] if plan["said"] == claim["said"]]
        own = 100 * (1 - seed_plans.share_of(claim["area"]))
        sampled = whole = None
        if plans:
            sampled = 100 * (1 - seed_plans.mean(plan["sampled"] / plan["dense_sampled"] for plan in plans))
            whole = 100 * (1 - seed_plans.mean(plan["front_end"] / plan["dense_front_end"] for plan in plans))
        least = claim["percent"] - BYTE_SLACK
        claims += [Claim(f"sampled bytes saved: {claim['said']}", f"{claim['percent']} %", number(sampled, " %"),
                         None if sampled is None else sampled >= least,
                         f"its own areas give {own:.0f} %; the budget sets it", theirs="arithmetic",
                         ours="plans of photographs"),
                   Claim(f"bytes of the whole front end saved: {claim['said']}", f"{claim['percent']} %",
                         number(whole, " %"), None if whole is None else whole >= least,
                         "levels and relevance read every pixel first", theirs="arithmetic",
                         ours="plans of photographs")]
    return claims


def amdahl(gpu):
    """Lines on the share of vision and what fewer tokens do to the rest."""
    front, tower = gpu.ms("front-end/32x1024x1024"), gpu.ms("tower/4096")
    few, long, short = gpu.ms("tower/272"), gpu.ms("prefill/1056"), gpu.ms("prefill/100")
    if None in (front, tower, few, long, short):
        return ["Not measured: it takes front-end, tower and prefill of `fovea bench gpu`."]
    share = (front + tower) / (front + tower + long)
    gain = (front + tower) / (front + few)
    predicted = 1 / (1 - share + share / gain)
    lines = ["The seeds: vision is 40 % of the time, 6.7x on it gives 1.52x, and never more than 1.67x. Measured: "
             f"vision is {100 * share:.0f} % (front end {number(front)}, tower {number(tower)}, prefill {number(long)} "
             f"ms), 272 patches make it {gain:.1f}x faster, which by Amdahl's law gives {predicted:.2f}x with the "
             f"language model as it was, and {1 / (1 - share):.2f}x at most.",
             f"The law's premise does not hold: fewer visual tokens shorten the prefill too ({number(long)} to "
             f"{number(short)} ms, {long / short:.1f}x), so the parts together give "
             f"{(front + tower + long) / (front + few + short):.1f}x."]
    whole = quotient(gpu.ms("first-token/full"), gpu.ms("first-token/68"))
    return lines + ([f"Measured from the picture in host memory to the first token: {whole:.1f}x."] if whole else [])


def show_rows(rows):
    lines = ["| operation, ms | claimed: software | hardware | torch eager | torch best | Fovea CPU | CUDA kernels "
             "| CUDA textures | claimed ratio | torch / CUDA |", "|---|---|---|---|---|---|---|---|---|---|"]
    for row in rows.values():
        cells = [*map(number, (row.software, row.hardware, row.eager, row.best, row.cpu, row.kernels, row.textures))]
        cells[2] += " in a loop" if row.loops and row.eager != row.best else ""
        ratios = [number(row.ratio, "x") if row.ratio else "-",
                  number(row.measured(), "x") + (" of the best" if row.loops and row.measured() else "")]
        lines.append(f"| {row.what} | " + " | ".join([*cells, *ratios]) + " |")
    return lines


def show_claims(claims):
    lines = ["| claim | claimed | theirs | measured | ours | holds | |", "|---|---|---|---|---|---|---|"]
    words = {True: "yes", False: "**no**", None: "not measured"}
    return lines + [f"| {claim.what} | {claim.claimed} | {claim.theirs} | {claim.measured or '-'} | {claim.ours} "
                    f"| {words[claim.holds]} | {claim.why} |" for claim in claims]


def report(gpu, cpu, peers, found, accuracies=None):
    """-> (Markdown, claims)"""
    rows = operations(gpu, cpu, peers)
    fewer = seed_attention.claims(gpu, cpu, peers, accuracies or seed_attention.Accuracies([]))
    claims = (row_claims(rows) + other_claims(gpu, cpu) + [Claim(**vars(one)) for one in fewer] + byte_claims(found)
              + arithmetic_claims())
    machine = {**peers.machine, **gpu.machine}
    named = [f"{key} {machine[key]}" for key in ("gpu", "torch", "transformers") if machine.get(key)]
    named += [f"the CPU column: {cpu.machine['cpu']}, {cpu.machine['threads']} threads"] if cpu.machine else []
    ours = {"GPU": machine.get("gpu", "GPU").split(",")[0], "CPU": "the CPU above"}
    for claim in claims:
        claim.ours = ours.get(claim.ours, claim.ours)
    lines = ["# The seeds' table, redone", RULES, "", "; ".join(named), "", *show_rows(rows), "", "## Bytes",
             *seed_plans.table(found)]
    if found["thresholds"]:
        lines += ["", seed_plans.threshold_line(found)]
    lines += ["", "## Amdahl", *amdahl(gpu), "", "## Claim by claim", *show_claims(claims), ""]
    broken = [claim for claim in claims if claim.holds is False]
    lines.append(f"{sum(claim.holds is True for claim in claims)} claims hold, {len(broken)} do not, "
                 f"{sum(claim.holds is None for claim in claims)} were not measured. What does not hold:")
    lines += [f"- {claim.what}: claimed {claim.claimed}, measured {claim.measured}."
              + (f" {claim.why[0].upper()}{claim.why[1:]}." if claim.why else "") for claim in broken]
    return "\n".join(lines) + "\n", claims


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", nargs="+", default=[], metavar="FILE", help="of `fovea bench gpu --json`")
    parser.add_argument("--cpu", nargs="+", default=[], metavar="FILE", help="of `fovea bench front-end` and `model`")
    parser.add_argument("--peers", nargs="+", default=[], metavar="FILE", help="of bench/peers/gpu.py --json FILE")
    parser.add_argument("--eval", nargs="+", default=[], metavar="FILE", help="of `fovea eval --json FILE`")
    parser.add_argument("--plans", type=Path, metavar="FILE", help="counts of plans: written with --photos, or read")
    parser.add_argument("--photos", nargs="+", type=Path, default=[], help="pictures or folders of them to look at")
    parser.add_argument("--program", type=Path, default=ROOT / "build/release/bin/fovea")
    args = parser.parse_args()
    found = {"plans": [], "thresholds": []}
    if args.photos:
        photos = [file for place in args.photos
                  for file in (sorted(place.glob("*.[jpw][pne]*")) if place.is_dir() else [place])]
        found = seed_plans.plans_of(args.program, photos)
        if args.plans:
            args.plans.write_text(json.dumps(found) + "\n")
    elif args.plans:
        found = json.loads(args.plans.read_text())
    text, _ = report(Figures(args.gpu or args.peers), Figures(args.cpu), Figures(args.peers), found,
                     seed_attention.Accuracies(args.eval))
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
