"""Applications of many files, as frameworks have them: classes with comments and methods, fifty in a directory."""

from __future__ import annotations

from pathlib import Path

IN_A_DIRECTORY = 50
METHODS = 16
# All files of a tree are as old: opcache trusts no file that was just written.
AGE_S = 3600
INDEX = """<?php
$sum = 0;
for ($i = 0; $i < (int) $_GET['n']; $i++) {
    require __DIR__ . '/../src/P' . intdiv($i, %d) . "/C$i.php";
    $sum += (new ("Shop\\\\C$i")(1))->m3(2);
}
header('Content-Type: text/plain');
echo $sum;
""" % IN_A_DIRECTORY


def source(number: int) -> str:
    """A class of some 5 KB."""
    methods = "\n".join(f"""    /**
     * Counts what comes of {name} and what was there before, for order {number}.
     *
     * @param int $count How many of them
     * @return int What there is then, never less than before
     */
    public function m{name}(int $count): int
    {{
        if ($count < 0) {{
            throw new \\InvalidArgumentException("m{name} of C{number} takes no less than 0, not $count");
        }}
        return $this->start + $count * {name} + {number};
    }}
""" for name in range(METHODS))
    return f"""<?php

declare(strict_types=1);

namespace Shop;

/** One of many. */
final class C{number}
{{
    public const NAMES = ['first' => 'C{number}', 'second' => {number}, 'third' => [1, 2, {number}]];

    public function __construct(private int $start)
    {{
    }}

{methods}}}
"""


def sum_of(count: int) -> int:
    """What the page says that loads so many files."""
    return sum(1 + 2 * 3 + number for number in range(count))


def write(tree: Path, files: int) -> None:
    """A tree with so many classes and its front controller."""
    (tree / "public").mkdir(parents=True)
    (tree / "public" / "index.php").write_text(INDEX)
    for number in range(files):
        path = tree / "src" / f"P{number // IN_A_DIRECTORY}" / f"C{number}.php"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source(number))
