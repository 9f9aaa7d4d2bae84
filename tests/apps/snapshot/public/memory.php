<?php
// No boot, and a page that needs 6 MiB: what is left of a snapshot's gain when nothing is booted.
if (!function_exists('reprise_snapshot')) {
    function reprise_snapshot(): void {}
}
final class Item
{
    /** @var array<string, mixed> */
    public array $more = [];

    public function __construct(public string $name, public int $value) {}
}
reprise_snapshot();
$items = [];
for ($i = 0; $i < 6_000; $i++) {
    $item = new Item("item-$i", $i * 7 % 1001);
    $item->more = ['number' => $i, 'text' => str_repeat("$i,", 20), 'list' => [1, 2, $i]];
    $items[$item->name] = $item;
}
uasort($items, fn (Item $one, Item $other): int => [$one->value, $one->name] <=> [$other->value, $other->name]);
$lines = array_map(fn (Item $item): string => sprintf('%05d %s %s', $item->value, $item->name, htmlspecialchars($item->more['text'])), $items);
header('Content-Type: text/plain');
echo implode("\n", array_slice($lines, 0, 100)), "\n", crc32(implode("\n", $lines)), "\n";
