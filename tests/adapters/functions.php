<?php

/* What the functions of the data cache return, one after the other: the same under Reprise and elsewhere. */

declare(strict_types=1);

$said = [];
$say = static function (string $what, callable $does) use (&$said): void {
    try {
        $said[] = [$what, $does()];
    } catch (Throwable $thrown) {
        $said[] = [$what, 'thrown ' . get_class($thrown)];
    }
};
$number = 0;
$count = static function (int &$ttl) use (&$number): string {
    return 'made ' . ++$number;
};
$say('first', fn () => reprise_cache('a', $count, 60, tags: ['t']));
$say('again', fn () => reprise_cache('a', $count, 60, tags: ['t']));
$say('invalidate', fn () => reprise_cache_invalidate(['t', 'other']));
$say('gone', fn () => reprise_cache_fetch('a', 'none'));
$say('new', fn () => reprise_cache('a', $count, 60, tags: ['t', 'u']));
$say('second tag', fn () => [reprise_cache_invalidate(['u']), reprise_cache_fetch('a', 'none')]);
$say('not kept', fn () => [reprise_cache('b', function (int &$ttl) { $ttl = 0; return 5; }, 60), reprise_cache_fetch('b')]);
$say('for ever', fn () => [reprise_cache('c', fn () => ['x' => [1, 2.5, null, true]]), reprise_cache_fetch('c')]);
$say('own key', fn () => reprise_cache('d', fn () => reprise_cache('d', fn () => 1)));
$say('throws', fn () => reprise_cache('e', fn () => throw new RuntimeException('no')));
$say('after it', fn () => reprise_cache('e', fn () => 3));
$say('tag meanwhile', fn () => [reprise_cache('f', fn () => reprise_cache_invalidate(['s']), 60, tags: ['s']), reprise_cache_fetch('f', 'none')]);
$say('removed meanwhile', fn () => [reprise_cache('g', fn () => reprise_cache_delete('g'), 60), reprise_cache_fetch('g', 'none')]);
$say('stored meanwhile', fn () => [reprise_cache('g', fn () => reprise_cache_store('g', 'stored') ? 'computed' : 0, 60), reprise_cache_fetch('g', 'none')]);
$say('store', fn () => [reprise_cache_store('k', 'x'), reprise_cache_store('k', 'y', only_if: 'q'), reprise_cache_store('k', 'y', only_if: 'x'), reprise_cache_fetch('k')]);
$say('add', fn () => [reprise_cache_add('k', 1), reprise_cache_add('l', 1), reprise_cache_add('l', 2), reprise_cache_fetch('l')]);
$say('delete', fn () => [reprise_cache_delete('k', 'x'), reprise_cache_delete('k', 'y'), reprise_cache_delete('k'), reprise_cache_add('k', 5)]);
$say('increment', fn () => [reprise_cache_increment('k', 2), reprise_cache_increment('n', -2, 60), reprise_cache_increment('n'), reprise_cache_increment('c')]);
$say('lock', fn () => [reprise_cache_lock('L', 5), reprise_cache_lock('L', 5), reprise_cache_unlock('L'), reprise_cache_unlock('L'), reprise_cache_lock('L', 5)]);
$say('stale', function () {
    reprise_cache('o', fn () => 'old', 1, 60, [], 0.0);
    usleep(1_200_000);

    return [reprise_cache_fetch('o', 'none'), reprise_cache('o', fn () => throw new Exception('no'), 1, 0, [], 0.0), reprise_cache('o', fn () => 'new', 1, 0, [], 0.0)];
});
foreach (['' => 1, str_repeat('x', 1025) => 1] as $key => $value) {
    $say('key', fn () => reprise_cache_store($key, $value));
}
$say('seconds', fn () => reprise_cache_store('p', 1, -1));
$say('tags', fn () => reprise_cache_store('p', 1, 0, range(1, 3)));
$say('early', fn () => reprise_cache('p', fn () => 1, early: -1.0));
$say('lease', fn () => reprise_cache_lock('p', 0.0));
$say('resource', fn () => reprise_cache_store('p', [[fopen('php://memory', 'r')]]));
$say('closure', fn () => reprise_cache_store('p', fn () => 1));
$say('object', fn () => [reprise_cache_store('p', new ArrayObject([1])), reprise_cache_fetch('p') == new ArrayObject([1])]);
$say('bytes', fn () => [reprise_cache_store("\0 b\n\xff", [1, 'two' => null]), reprise_cache_fetch("\0 b\n\xff")]);
$say('many', fn () => [reprise_cache_store_many(['q1' => 1, 7 => 2], 0, ['t']), reprise_cache_fetch_many(['q1', 7, 'q3'], 'none'), reprise_cache_delete_many(['q1']), reprise_cache_fetch_many(['q1', 7])]);
$say('null', fn () => [reprise_cache_store('r', null), reprise_cache_fetch('r', 'none'), reprise_cache('r', fn () => 1)]);
$say('flush', fn () => [reprise_cache_flush(), reprise_cache_fetch('r', 'none'), reprise_cache_fetch('k', 'none'), reprise_cache_add('k', 1)]);
foreach ($said as [$what, $value]) {
    echo $what, ' ', json_encode($value), "\n";
}
