"""Where things lie: orders of tiles, boxes of a tensor, swizzled rows, packed values, im2col."""

import math
from collections.abc import Callable

from server.web.figures.svg import WIDTH, Drawing, Picture

_Order = Callable[[int], tuple[int, int]]


def swizzled(pid: int, rows: int, cols: int, group: int) -> tuple[int, int]:
    """Tile row and column of a program in grouped order, as in Triton's matmul tutorial."""
    first = pid // (group * cols) * group
    height = min(rows - first, group)
    return first + pid % (group * cols) % height, pid % (group * cols) // height


def program_ids(rows: int = 6, cols: int = 6, group: int = 3, together: int = 9) -> Picture:
    """Order of output tiles, row by row and in groups, with what runs at the same time."""
    orders: tuple[tuple[str, _Order], ...] = (
        ("Row by row", lambda pid: divmod(pid, cols)),
        (f"Groups of {group} rows", lambda pid: swizzled(pid, rows, cols, group)),
    )
    panels = [[order(pid) for pid in range(rows * cols)] for _, order in orders]
    needs = [
        (len({row for row, _ in panel[:together]}), len({col for _, col in panel[:together]}))
        for panel in panels
    ]
    texts = [
        f"{words.lower()}: {a} rows of A and {b} columns of B"
        for (words, _), (a, b) in zip(orders, needs, strict=True)
    ]
    drawing = Drawing("order", "Order of output tiles by program id", "; ".join(texts))
    size, gap = 30, WIDTH - 2 * 30 * cols
    for at, ((words, _), panel, (a, b)) in enumerate(zip(orders, panels, needs, strict=True)):
        left = at * (size * cols + gap)
        drawing.text(left, 12, words, "heading")
        for pid, (row, col) in enumerate(panel):
            kind = "hot" if pid < together else "cell"
            drawing.boxed(left + col * size, 20 + row * size, size, size, pid, kind=kind)
        drawing.text(left, 36 + rows * size, f"{a} rows of A + {b} columns of B", "quiet")
    return drawing.picture(
        f"Program ids on the tiles of the output. The first {together} programs, which run at the "
        f"same time, read {texts[0].split(': ')[1]} in the plain order and "
        f"{texts[1].split(': ')[1]} in groups: {sum(needs[0])} panels against {sum(needs[1])}."
    )


def tma_boxes(rows: int = 10, cols: int = 13, box: tuple[int, int] = (4, 4)) -> Picture:
    """Boxes of a tensor map over a tensor: coordinates, and what lies outside of it."""
    tall, wide = math.ceil(rows / box[0]), math.ceil(cols / box[1])
    size = min(24, WIDTH / (wide * box[1]))
    outside = tall * box[0] * wide * box[1] - rows * cols
    drawing = Drawing(
        "boxes", "Boxes of a tensor map",
        f"A tensor of {rows} rows and {cols} columns under {tall} times {wide} boxes of {box[0]} "
        f"by {box[1]} elements; {outside} elements of them lie outside of the tensor",
    )  # fmt: skip
    for row in range(tall * box[0]):
        for col in range(wide * box[1]):
            inside = row < rows and col < cols
            drawing.rect(col * size, row * size, size, size, "cell" if inside else "idle")
            if not inside and (row % box[0] or col % box[1] > 1):  # its coordinates stand there
                drawing.text(
                    col * size + size / 2, row * size + size / 2 + 4, "0", "in idle", "middle"
                )
    for down in range(tall):
        for across in range(wide):
            y, x = down * box[0], across * box[1]
            height, width = box[0] * size, box[1] * size
            drawing.rect(x * size, y * size, width, height, "frame")
            drawing.text(x * size + 4, y * size + 14, f"{x}, {y}", "on")
    return drawing.picture(
        f"A {rows} × {cols} tensor in boxes of {box[0]} × {box[1]}. A copy names a box by its "
        "first element, the innermost coordinate first; elements outside arrive as zeros and are "
        "not written back, so no mask is needed."
    )


def shared_swizzle(rows: int = 8, chunks: int = 8, target: int = 2) -> Picture:
    """A 128-byte swizzle: which banks one column of 16-byte chunks lies in."""
    panels = (
        ("Plain rows", [list(range(chunks)) for _ in range(rows)]),
        ("Chunk XOR row", [[c ^ (r % chunks) for c in range(chunks)] for r in range(rows)]),
    )
    ways = []
    for _, panel in panels:
        places = [row.index(target) for row in panel]
        ways.append(max(places.count(place) for place in places))
    drawing = Drawing(
        "swizzle", "A column of a tile in the banks of shared memory",
        f"Chunk {target} of {rows} rows lies in the same banks {ways[0]} times in plain rows, "
        f"{ways[1]} time where the place is the chunk XOR the row",
    )  # fmt: skip
    size, gap = 23, WIDTH - 2 * 23 * chunks
    for at, (words, panel) in enumerate(panels):
        left = at * (size * chunks + gap)
        conflict = f"{ways[at]}-way conflict" if ways[at] > 1 else "no conflict"
        drawing.text(left, 12, f"{words}: {conflict}", "heading")
        for row, line in enumerate(panel):
            for place, chunk in enumerate(line):
                kind = "hot" if chunk == target else "cell"
                drawing.boxed(left + place * size, 20 + row * size, size, size, chunk, kind=kind)
        drawing.text(left, 36 + rows * size, "4 banks in each column", "quiet")
    return drawing.picture(
        f"{rows} rows of {chunks} chunks of 16 bytes (128 bytes, all 32 banks). A warp that reads "
        f"chunk {target} of every row hits one group of banks in plain rows. With the chunk "
        "stored at its number XOR the row, each row has it in different banks."
    )


_E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def e2m1(value: float) -> int:
    """The 4-bit code of a value: the nearest one, ties to the even code, saturating."""
    size = min(abs(value), _E2M1[-1])
    code = min(range(8), key=lambda i: (abs(_E2M1[i] - size), i % 2))
    return code + (8 if math.copysign(1.0, value) < 0 else 0)


def fp4_packing(values: tuple[float, ...] = (0.4, -1.6, 2.5, 7.0)) -> Picture:
    """Values to E2M1 codes, and two codes to a byte."""
    codes = [e2m1(value) for value in values]
    packed = [low | high << 4 for low, high in zip(codes[::2], codes[1::2], strict=True)]
    text = ", ".join(
        f"{value:g} becomes {code:04b}" for value, code in zip(values, codes, strict=True)
    )
    octets = " and ".join(f"0x{octet:02X}" for octet in packed)
    drawing = Drawing("fp4", "FP4 values in bytes", f"{text}; the bytes are {octets}")
    step = WIDTH / len(values)
    for at, (value, code) in enumerate(zip(values, codes, strict=True)):
        left, bits = at * step + 6, f"{code:04b}"
        stored = math.copysign(_E2M1[code % 8], value)
        drawing.text(left, 12, f"{value:g} → {stored:g}", "heading")
        for place, (bit, kind) in enumerate(zip(bits, ("two", "one", "one", "three"), strict=True)):
            drawing.boxed(left + place * 20, 22, 20, 22, bit, kind=kind)
        drawing.text(left, 60, "low half" if at % 2 == 0 else "high half", "quiet")
    for at, octet in enumerate(packed):
        left = 2 * at * step + 6
        for place, bit in enumerate(f"{octet:08b}"):
            kind = ("two", "one", "one", "three")[place % 4]
            drawing.boxed(left + place * 20, 72, 20, 22, bit, kind=kind)
        drawing.text(left, 110, f"byte {at} = 0x{octet:02X}", "quiet")
    return drawing.picture(
        "E2M1: a sign, two bits of exponent, one of mantissa; the magnitudes are "
        f"{', '.join(f'{value:g}' for value in _E2M1)}. Rounding is to the nearest, ties to even, "
        "and larger values saturate. The second value of a pair is the byte's high half."
    )


def implicit_gemm(side: int = 5, taps: int = 3, output: int = 4) -> Picture:
    """A convolution's input and the rows of the matrix that is never stored."""
    out = side - taps + 1
    matrix = [
        [(p + r) * side + q + s for r in range(taps) for s in range(taps)]
        for p in range(out)
        for q in range(out)
    ]
    window = set(matrix[output])
    again = sum(side * side // 2 in row for row in matrix)
    drawing = Drawing(
        "im2col", "A convolution as a product of matrices",
        f"Output {output} reads pixels {', '.join(map(str, sorted(window)))}; pixel "
        f"{side * side // 2} stands in {again} of {out * out} rows",
    )  # fmt: skip
    size, small = 26, 22
    drawing.text(0, 12, "Input", "heading")
    for pixel in range(side * side):
        kind = "hot" if pixel in window else "cell"
        row, col = divmod(pixel, side)
        drawing.boxed(col * size, 20 + row * size, size, size, pixel, kind=kind)
    left = WIDTH - taps * taps * small
    drawing.text(left, 12, "Matrix A: outputs × taps", "heading")
    for row, line in enumerate(matrix):
        drawing.text(left - 6, 20 + row * small + 15, row, "quiet", "end")
        for col, pixel in enumerate(line):
            kind = "hot" if row == output else "two" if pixel == side * side // 2 else "cell"
            drawing.boxed(left + col * small, 20 + row * small, small, small, pixel, kind=kind)
    return drawing.picture(
        f"A {taps} × {taps} filter over {side} × {side} pixels. Row m of A holds the pixels of "
        f"output m; the kernel computes their addresses from (m, tap) and never stores A, in which "
        f"pixel {side * side // 2} stands {again} times."
    )


def online_softmax(
    values: tuple[float, ...] = (1.0, 3.0, 2.0, 2.5, 5.0, 1.5, 4.0, 4.5, 2.0), block: int = 3
) -> Picture:
    """One reading of a row: running maximum and sum, and the factor that corrects the sum."""
    drawing = Drawing("online", "Softmax in one pass", "")
    step, floor = (WIDTH - 20) / len(values), 110
    height = 80 / max(values)
    top, total, steps = -math.inf, 0.0, []
    for start in range(0, len(values), block):
        part = values[start : start + block]
        highest = max(top, *part)
        factor = math.exp(top - highest)
        total = total * factor + sum(math.exp(value - highest) for value in part)
        top = highest
        steps.append((start, len(part), highest, factor, total))
    for at, value in enumerate(values):
        left = 20 + at * step
        drawing.rect(left + 4, floor - value * height, step - 8, value * height, "one")
        drawing.text(left + step / 2, floor - 4, f"{value:g}", "in", "middle")
    for start, count, highest, factor, sum_ in steps:
        left, right = 20 + start * step, 20 + (start + count) * step
        drawing.line([(left, floor - highest * height), (right, floor - highest * height)], "peak")
        for line, words in enumerate((f"m = {highest:g}", f"× {factor:.3g}", f"l = {sum_:.3f}")):
            drawing.text((left + right) / 2, floor + 18 + 16 * line, words, "quiet", "middle")
        drawing.line([(left, 12), (left, floor + 54)], "grid")
    exact = sum(math.exp(value - max(values)) for value in values)
    drawing.description = (
        f"After blocks of {block} values the running maximum is "
        f"{', '.join(f'{state[2]:g}' for state in steps)} and the sum {steps[-1][4]:.3f}"
    )
    return drawing.picture(
        f"Blocks of {block} values. m is the running maximum (line); where it rises, the sum so "
        f"far is multiplied by exp(m before − m now). The last l is the sum that two passes "
        f"give, {exact:.3f}."
    )
