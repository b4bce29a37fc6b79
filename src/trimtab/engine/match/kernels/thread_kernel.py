"""The general kernel: plain Python source that Numba compiles, or that runs as it is.

The kernel walks the rows of each key once, in order. Between two rows it holds the key's *threads*, ordered by
preference: first by the row where the attempt starts, then as the pattern prefers. A thread is a row of numbers:
position, first row, last row, path node, registers. Three things keep their number small:

- A thread that ends cuts off all less preferred threads of its attempt; under SKIP PAST LAST ROW also every attempt
  that starts inside the ended match, since the match is certain to be reported and only a longer one can replace it.
- Of two threads with the same position and equal registers, as far as conditions to come can see them, the less
  preferred one is dropped: they have the same future. Under SKIP PAST LAST ROW this holds between attempts too.
- A match is reported as soon as its thread is the first in the list: nothing preferred is left.

An attempt starts on every row while others are under way, so no row is ever looked at twice and none has to be
kept for that. Only where a condition needs MATCH_NUMBER(), which an attempt can't know before the earlier ones are
decided, attempts run one after another and rows are looked at again (`sequential`).

The source below is a template: a line counts if the words before its bar hold (`!` negates), and the label's
conditions and register updates are put in for LABELS. The program's steps are tables, so the size of the code grows
with the labels and not with the pattern.
"""

from __future__ import annotations

import re

from trimtab.engine.match.compile.program import DONE
from trimtab.engine.match.compile.registers import Bank, Register, RowRef, bank, initial
from trimtab.engine.match.ir.query import SkipTo
from trimtab.engine.match.kernels.emit import Thread, Writer
from trimtab.engine.match.kernels.kernel_writer import KernelWriter
from trimtab.engine.match.kernels.plan import (
    END,
    ERROR_SKIP_FIRST,
    ERROR_SKIP_MISSING,
    ERROR_THREADS,
    KIND_MATCH,
    KIND_UNMATCHED,
    NO_WATERMARK,
    NODE,
    PARAMETERS,
    POSITION,
    RESULTS,
    START,
)
from trimtab.engine.match.kernels.tables import MAY_END, NAMES, STAMPED, WAITS

TEMPLATE = """
                      |def kernel(PARAMETERS):
                      |    cap = 32
                      |    ci = ints(cap * W); ni = ints(cap * W); cf = floats(cap * F); nf = floats(cap * F)
                      |    co = objects(cap * O); no = objects(cap * O)
                      |    hcap = 64; bucket = ints(hcap); bucket_row = ints(hcap); chain = ints(cap)
                      |    seen = ints(P + 1); stamp = 0; row_stamp = 0
                      |    ocap = len(out_i) // N; on = 0; oi = out_i; of = out_f
                      |    scap = 256; sn = 0; soff = ints(nk + 1); resume = ints(nk)
                      |    si = ints(scap * W); sf = floats(scap * F); so = objects(scap * O)
                      |    pcap = 256; pn = 0; pathrow = ints(pcap); pathpos = ints(pcap)
                      |    kcap = 256; nn = 0; krow = ints(kcap); kpos = ints(kcap); kpar = ints(kcap)
                      |    sncap = 256; snn = 0; snoff = ints(nk + 1)
                      |    snrow = ints(sncap); snpos = ints(sncap); snpar = ints(sncap)
                      |    error = 0; errors = 0; error_key = -1
                      |    for k in range(nk):
                      |        # The key's threads come in.
                      |        n = toff[k + 1] - toff[k]; base = toff[k]
                      |        if n + 1 > cap:
                      |            cap = 2 * (n + 1); chain = ints(cap)
                      |            ci = ints(cap * W); ni = ints(cap * W); cf = floats(cap * F); nf = floats(cap * F)
                      |            co = objects(cap * O); no = objects(cap * O)
                      |        for j in range(n * W):
                      |            ci[j] = tin[base * W + j]
floats                |        for j in range(n * F):
floats                |            cf[j] = tfin[base * F + j]
objects               |        for j in range(n * O):
objects               |            co[j] = toin[base * O + j]
paths                 |        nn = noff[k + 1] - noff[k]; base = noff[k]
paths                 |        if nn > kcap:
paths                 |            kcap = 2 * nn; krow = ints(kcap); kpos = ints(kcap); kpar = ints(kcap)
paths                 |        for j in range(nn):
paths                 |            krow[j] = nrow[base + j]; kpos[j] = npos[base + j]; kpar[j] = npar[base + j]
                      |        t0 = tail[k]; i = first[k]; hi = ends[k]; last = stop[k]; number = numbers[k]
                      |        origin = first[k] if begun[k] == 0 else -1
                      |        broken = False; s0 = i
timed                 |        # Rows held back until NEXT can be answered are still to come.
timed                 |        clock = min(watermark, times[last]) if last < hi else watermark
unmatched             |        front = fronts[k]
                      |        while True:
                      |            over = i >= last  # the rows at hand are used up: only time can decide now
                      |            if over:
                      |                if broken or error != 0 or n == 0 or (closing == 0 and NOT_TIMED):
                      |                    break
                      |            if (n + 1) * FAN > cap:
                      |                cap = 2 * (n + 1) * FAN; chain = ints(cap)
                      |                ci = grow_ints(ci, cap * W, n * W); ni = ints(cap * W)
                      |                cf = grow_floats(cf, cap * F, n * F); nf = floats(cap * F)
                      |                co = grow_objects(co, cap * O, n * O); no = objects(cap * O)
                      |                while hcap < cap:
                      |                    hcap *= 2
                      |                bucket = ints(hcap); bucket_row = ints(hcap)
paths                 |            if n == 0:
paths                 |                nn = 0
paths                 |            if nn + (n + 1) * FAN > kcap:
paths                 |                kcap = 2 * (nn + (n + 1) * FAN)
paths                 |                krow = grow_ints(krow, kcap, nn); kpos = grow_ints(kpos, kcap, nn)
paths                 |                kpar = grow_ints(kpar, kcap, nn)
                      |            m = 0; cut = -1; stamp += 1; row_stamp += 1
!past_last            |            attempt = -1
                      |            total = n
                      |            if not over:
sequential            |                if n == 0:
sequential            |                    s0 = i
timed                 |                now = times[i]
                      |                # An attempt starts on the row, last in preference: before any position.
!sequential           |                total = n + 1
sequential            |                total = n + 1 if n == 0 else n
                      |                b = n * W; bf = n * F; bo = n * O
                      |                ci[b + POSITION] = P; ci[b + START] = i; ci[b + END] = -1; ci[b + NODE] = -1
                      |                INITIAL
                      |            for t in range(total):
                      |                b = t * W; bf = t * F; bo = t * O
                      |                s = ci[b + START]
past_last             |                if s <= cut:
past_last             |                    continue
!past_last            |                if s != attempt:
!past_last            |                    attempt = s; stamp += 1
!past_last            |                if s == cut:
!past_last            |                    continue
                      |                p = ci[b + POSITION]
                      |                w = m * W; wf = m * F; wo = m * O
                      |                ended = p == DONE; waits = False
                      |                if not ended and over:
                      |                    # No row follows: the input ends, or none can come in time.
timed                 |                    late = closing != 0 or clock >= times[s] + WITHIN
!timed                |                    late = True
                      |                    waits = not late
                      |                    if late:
                      |                        for e in range(step_from[p], step_from[p + 1]):
                      |                            if step_to[e] == DONE:
                      |                                if step_when[e] == 2 and closing == 0:
                      |                                    waits = True  # too late for a row; the input may end
                      |                                else:
                      |                                    ended = True
                      |                                    break
                      |                    if waits:
                      |                        for j in range(W):
                      |                            ni[w + j] = ci[b + j]
floats                |                        for j in range(F):
floats                |                            nf[wf + j] = cf[bf + j]
objects               |                        for j in range(O):
objects               |                            no[wo + j] = co[bo + j]
                      |                        m += 1; w += W; wf += F; wo += O
                      |                if ended or over:
                      |                    if ended:
                      |                        for j in range(W):
                      |                            ni[w + j] = ci[b + j]
floats                |                        for j in range(F):
floats                |                            nf[wf + j] = cf[bf + j]
objects               |                        for j in range(O):
objects               |                            no[wo + j] = co[bo + j]
                      |                        ni[w + POSITION] = DONE; m += 1
                      |                        if p != DONE:
past_last             |                            cut = ci[b + END]
!past_last            |                            cut = s
                      |                    continue
timed                 |                late = now >= times[s] + WITHIN
                      |                for e in range(step_from[p], step_from[p + 1]):
                      |                    q = step_to[e]; when = step_when[e]
                      |                    if when == 1 and i != origin:
                      |                        continue
                      |                    if q == DONE:
                      |                        # An empty match, or one that ends because its time is over.
timed                 |                        if p == P or (when == 3 and late):
!timed                |                        if p == P:
                      |                            w = m * W; wf = m * F; wo = m * O
                      |                            for j in range(W):
                      |                                ni[w + j] = ci[b + j]
floats                |                            for j in range(F):
floats                |                                nf[wf + j] = cf[bf + j]
objects               |                            for j in range(O):
objects               |                                no[wo + j] = co[bo + j]
                      |                            ni[w + POSITION] = DONE; m += 1
past_last             |                            cut = ci[b + END]
!past_last            |                            cut = s
                      |                            break
                      |                        continue
timed                 |                    if late:
timed                 |                        continue
                      |                    flag = flags[q]
                      |                    if flag & STAMPED and seen[q] == stamp:
                      |                        continue  # asked first: a position taken on this row needs no condition
                      |                    label = label_of[q]
                      |                    w = m * W; wf = m * F; wo = m * O
                      |                    holds = False
                      |                    LABELS
                      |                    if not holds:
                      |                        continue
                      |                    ni[w + START] = s; ni[w + END] = i
                      |                    if flag & STAMPED:
                      |                        seen[q] = stamp
                      |                    elif flag & WAITS:
                      |                        # Needless if a preferred thread looks the same to what may come.
                      |                        h = q
                      |                        for c in range(icmp_from[q], icmp_from[q + 1]):
                      |                            h = (h * 31 + ni[w + icmp[c]]) & (hcap - 1)
past_last timed       |                        h = (h * 31 + times[s]) & (hcap - 1)
!past_last            |                        h = (h * 31 + s) & (hcap - 1)
                      |                        h &= hcap - 1
                      |                        if bucket_row[h] != row_stamp:
                      |                            bucket_row[h] = row_stamp; bucket[h] = -1
                      |                        u = bucket[h]
                      |                        while u >= 0:
                      |                            same = ni[u * W + POSITION] == q
past_last timed       |                            same = same and times[ni[u * W + START]] == times[s]
!past_last            |                            same = same and ni[u * W + START] == s
                      |                            if same:
                      |                                for c in range(icmp_from[q], icmp_from[q + 1]):
                      |                                    if ni[u * W + icmp[c]] != ni[w + icmp[c]]:
                      |                                        same = False
floats                |                                for c in range(fcmp_from[q], fcmp_from[q + 1]):
floats                |                                    if nf[u * F + fcmp[c]] != nf[wf + fcmp[c]]:
floats                |                                        same = False
objects               |                                for c in range(ocmp_from[q], ocmp_from[q + 1]):
objects               |                                    if no[u * O + ocmp[c]] != no[wo + ocmp[c]]:
objects               |                                        same = False
                      |                            if same:
                      |                                break
                      |                            u = chain[u]
                      |                        if u >= 0:
                      |                            continue
                      |                        chain[m] = bucket[h]; bucket[h] = m
paths                 |                    krow[nn] = i; kpos[nn] = q; kpar[nn] = ci[b + NODE]
paths                 |                    ni[w + NODE] = nn; nn += 1
                      |                    ni[w + POSITION] = q if flag & WAITS else DONE
                      |                    m += 1
                      |                    if flag & MAY_END:
                      |                        if flag & WAITS:
                      |                            # Its ended twin stands behind it: a longer match is preferred.
                      |                            for j in range(W):
                      |                                ni[w + W + j] = ni[w + j]
floats                |                            for j in range(F):
floats                |                                nf[wf + F + j] = nf[wf + j]
objects               |                            for j in range(O):
objects               |                                no[wo + O + j] = no[wo + j]
                      |                            ni[w + W + POSITION] = DONE
                      |                            m += 1
past_last             |                        cut = i
!past_last            |                        cut = s
                      |                        break
                      |            ci, ni = ni, ci
                      |            cf, nf = nf, cf
                      |            co, no = no, co
                      |            n = m
                      |            if n > limit:
                      |                error = ERROR_THREADS; errors += 1
                      |                if error_key < 0:
                      |                    error_key = k
                      |                n = 0; broken = True; i = last
                      |                break
                      |            # Report what nothing preferred can replace any more, and drop what it skips.
                      |            h = 0
                      |            while h < n and ci[h * W + POSITION] == DONE:
                      |                g = h * W
unmatched             |                bound = ci[g + START]
unmatched             |                UNMATCHED
                      |                number += 1
paths                 |                node = ci[g + NODE]; length = 0
paths                 |                while node >= 0:
paths                 |                    length += 1; node = kpar[node]
paths                 |                if pn + length > pcap:
paths                 |                    pcap = 2 * (pn + length)
paths                 |                    pathrow = grow_ints(pathrow, pcap, pn)
paths                 |                    pathpos = grow_ints(pathpos, pcap, pn)
paths                 |                node = ci[g + NODE]; at = pn + length
paths                 |                while node >= 0:
paths                 |                    at -= 1; pathrow[at] = krow[node]; pathpos[at] = kpos[node]
paths                 |                    node = kpar[node]
paths                 |                pn += length
                      |                RESERVE
                      |                o = on * N
                      |                REPORT
                      |                on += 1
unmatched             |                front = max(front, (ci[g + START] if ci[g + END] < 0 else ci[g + END]) + 1)
                      |                h += 1
skip_to               |                if ci[g + END] >= 0:
skip_to               |                    target = ci[g + TARGET]
skip_to               |                    if target < 0 or target == ci[g + START]:
skip_to               |                        if error == 0:
skip_to               |                            error = ERROR_SKIP_MISSING if target < 0 else ERROR_SKIP_FIRST
skip_to               |                            error_key = k
skip_to               |                        broken = True
skip_to               |                    while h < n and ci[h * W + START] < target:
skip_to               |                        h += 1
sequential            |                i = s0 + 1
sequential past_last  |                i = max(i, ci[g + END] + 1)
sequential skip_to    |                if ci[g + END] >= 0:
sequential skip_to    |                    i = max(i, ci[g + TARGET])
sequential            |                n = 0
sequential            |                h = -1
sequential            |                break
sequential            |            if h < 0:
sequential            |                continue
sequential            |            if n == 0:
sequential unmatched  |                bound = s0 + 1
sequential unmatched  |                UNMATCHED
sequential            |                i = s0 + 1
sequential            |                continue
                      |            if h > 0:
                      |                n -= h
                      |                for j in range(n * W):
                      |                    ci[j] = ci[h * W + j]
floats                |                for j in range(n * F):
floats                |                    cf[j] = cf[h * F + j]
objects               |                for j in range(n * O):
objects               |                    co[j] = co[h * O + j]
                      |            if over:
                      |                break
                      |            i += 1
unmatched !sequential |            bound = ci[START] if n > 0 else i
unmatched !sequential |            UNMATCHED
unmatched             |        if closing != 0 and not broken:
unmatched             |            bound = last
unmatched             |            UNMATCHED
                      |        # The threads that are left go out, and the path nodes that they can still reach.
                      |        if broken:
                      |            n = 0
                      |        numbers[k] = number; resume[k] = i; soff[k] = sn
unmatched             |        fronts[k] = front
sequential            |        if n > 0:
sequential            |            resume[k] = s0; n = 0  # done again from its first row when more rows are there
                      |        if sn + n > scap:
                      |            scap = 2 * (sn + n)
                      |            si = grow_ints(si, scap * W, sn * W); sf = grow_floats(sf, scap * F, sn * F)
                      |            so = grow_objects(so, scap * O, sn * O)
paths                 |        mark = ints(nn + 1)
paths                 |        for t in range(n):
paths                 |            node = ci[t * W + NODE]
paths                 |            while node >= 0 and mark[node] == 0:
paths                 |                mark[node] = 1; node = kpar[node]
paths                 |        base = snn
paths                 |        for j in range(nn):
paths                 |            if mark[j] != 0:
paths                 |                if snn == sncap:
paths                 |                    sncap *= 2
paths                 |                    snrow = grow_ints(snrow, sncap, snn); snpos = grow_ints(snpos, sncap, snn)
paths                 |                    snpar = grow_ints(snpar, sncap, snn)
paths                 |                snrow[snn] = krow[j]; snpos[snn] = kpos[j]
paths                 |                snpar[snn] = mark[kpar[j]] - 1 if kpar[j] >= 0 else -1
paths                 |                snn += 1; mark[j] = snn - base
paths                 |        for t in range(n):
paths                 |            if ci[t * W + NODE] >= 0:
paths                 |                ci[t * W + NODE] = mark[ci[t * W + NODE]] - 1
paths                 |        snoff[k + 1] = snn
                      |        for j in range(n * W):
                      |            si[sn * W + j] = ci[j]
floats                |        for j in range(n * F):
floats                |            sf[sn * F + j] = cf[j]
objects               |        for j in range(n * O):
objects               |            so[sn * O + j] = co[j]
                      |        sn += n
                      |    soff[nk] = sn
                      |    return (RESULTS)
"""


def write_threads(kernel: KernelWriter) -> str:
    """The general kernel's source for a query."""
    skip = kernel.query.skip
    flags = {
        "paths": kernel.paths,
        "sequential": kernel.sequential,
        "timed": kernel.timed,
        "past_last": kernel.past_last,
        "unmatched": kernel.unmatched,
        "skip_to": isinstance(skip, SkipTo),
        "floats": kernel.fwidth > 0,
        "objects": kernel.owidth > 0,
    }
    blocks = {
        "INITIAL": _initial(kernel),
        "LABELS": _labels(kernel),
        "REPORT": _report(kernel),
        "RESERVE": _reserve(kernel),
        "UNMATCHED": _unmatched(kernel),
    }
    target = kernel.layout.at[RowRef(skip.labels, skip.side, 0, 0)] if isinstance(skip, SkipTo) else 0
    widest = max([len(p.steps) for p in kernel.program.positions] + [len(kernel.program.start)])
    names = {
        "W": kernel.width, "F": kernel.fwidth, "O": kernel.owidth,
        "N": len(kernel.fields), "M": len(kernel.float_fields),
        "P": len(kernel.program.positions), "FAN": widest + 2, "TARGET": target,
        "WITHIN": kernel.query.within_us, "DONE": DONE, "POSITION": POSITION, "START": START, "END": END, "NODE": NODE,
        "WAITS": WAITS, "MAY_END": MAY_END, "STAMPED": STAMPED,
        "ERROR_THREADS": ERROR_THREADS, "ERROR_SKIP_FIRST": ERROR_SKIP_FIRST, "ERROR_SKIP_MISSING": ERROR_SKIP_MISSING,
        "NOT_TIMED": f"watermark <= {NO_WATERMARK}" if kernel.timed else "True",
        "PARAMETERS": f"{PARAMETERS}, {NAMES}{kernel.column_parameters}", "RESULTS": RESULTS,
    }  # fmt: skip
    return _fill(flags, blocks, {name: str(value) for name, value in names.items()})


def _fill(flags: dict[str, bool], blocks: dict[str, list[str]], names: dict[str, str]) -> str:
    """The template's lines whose flags hold, with blocks and names put in."""
    lines: list[str] = []
    for line in TEMPLATE.strip("\n").split("\n"):
        condition, _, code = line.partition("|")
        if not all(flags[word.lstrip("!")] != word.startswith("!") for word in condition.split()):
            continue
        word = code.strip()
        if word in blocks:
            indent = code[: len(code) - len(code.lstrip())]
            lines += [indent + inner for inner in blocks[word]]
        else:
            lines.append(code)
    pattern = re.compile(r"\b(" + "|".join(sorted(names, key=len, reverse=True)) + r")\b")
    return "\n".join(pattern.sub(lambda found: names[found[0]], line) for line in lines) + "\n"


def _initial(kernel: KernelWriter) -> list[str]:
    return [f"{_slot(kernel, r, 'c', 'b')} = {initial(r)!r}" for r in kernel.layout.registers] or ["pass"]


def _labels(kernel: KernelWriter) -> list[str]:
    """For each label: its condition, and if it holds the registers of the thread that has consumed the row."""
    outer, kernel.write = kernel.write, Writer()
    write = kernel.write
    used = sorted({p.label for p in kernel.program.positions})
    for number, label in enumerate(used):
        with write.block(f"{'if' if number == 0 else 'elif'} label == {label}:"):
            emitter = kernel.emitter(label, Thread())
            condition = kernel.query.conditions[label]
            with write.block(f"if {emitter.condition(condition) if condition is not None else 'True'}:"):
                for register in kernel.layout.registers:
                    write(f"{_slot(kernel, register, 'n', 'w')} = {emitter.updated(register)}")
                write("holds = True")
    kernel.write = outer
    return write.lines or ["pass"]


def _slot(kernel: KernelWriter, register: Register, which: str, base: str) -> str:
    letter = bank(register).value
    offset = base if bank(register) is Bank.INT else base + letter
    return f"{which}{letter}[{offset} + {kernel.layout.at[register]}]"


def _report(kernel: KernelWriter) -> list[str]:
    """The integers and floats of a reported match, from thread `h`, whose integers begin at `g`."""
    code = {
        "key": "k", "kind": str(KIND_MATCH), "number": "number", "start": "ci[g + START]", "end": "ci[g + END]",
        "begin": "pn - length", "length": "length",
    }  # fmt: skip
    lines = [
        f"oi[o + {at}] = {code[field] if isinstance(field, str) else f'ci[g + {kernel.layout.at[field]}]'}"
        for at, field in enumerate(kernel.fields)
    ]
    lines += [
        f"of[on * M + {at}] = cf[h * F + {kernel.layout.at[register]}]"
        for at, register in enumerate(kernel.float_fields)
    ]
    return lines


def _reserve(kernel: KernelWriter) -> list[str]:
    lines = ["if on == ocap:", "    ocap *= 2; oi = grow_ints(oi, ocap * N, on * N)"]
    return [*lines, "    of = grow_floats(of, ocap * M, on * M)"] if kernel.float_fields else lines


def _unmatched(kernel: KernelWriter) -> list[str]:
    """Report the rows before `bound` that are in no match; all of them are decided."""
    code = {"key": "k", "kind": str(KIND_UNMATCHED), "start": "front", "begin": "pn", "length": "0"}
    reserve = ["    " + line for line in _reserve(kernel)]
    fields = [f"    oi[on * N + {at}] = {code.get(str(field), '-1')}" for at, field in enumerate(kernel.fields)]
    return ["while front < bound:", *reserve, *fields, "    on += 1; front += 1"]
