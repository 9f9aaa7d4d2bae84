<?php
// What bench/cache-deaths asks for. A request works on the cache for some milliseconds, and says `right`, or what was wrong; ?keep stores the values
// that nobody changes afterwards. KIND names the cache: reprise, apcu, or apcu-entry, which computes by apcu_entry().

const KEPT = 50;
const KEYS = 31;
define('KIND', getenv('KIND'));

function make(?string $key = null): array
{
    $n = mt_rand();
    return ['n' => $n, 'list' => array_fill(0, mt_rand(1, 400), "v$n"), 'more' => ['deep' => ["v$n"]]];
}

function is_right(mixed $value): bool
{
    if (!is_array($value) || !isset($value['n'], $value['list'], $value['more']['deep'])) {
        return false;
    }
    foreach ($value['list'] as $one) {
        if ($one !== "v$value[n]") {
            return false;
        }
    }
    return $value['more']['deep'] === ["v$value[n]"];
}

function fetch(string $key): mixed
{
    if (KIND === 'reprise') {
        return reprise_cache_fetch($key);
    }
    $value = apcu_fetch($key, $is_there);
    return $is_there ? $value : null;
}

function store(string $key, mixed $value): void
{
    KIND === 'reprise' ? reprise_cache_store($key, $value) : apcu_store($key, $value);
}

function compute(string $key): mixed
{
    if (KIND === 'reprise') {
        return reprise_cache($key, fn () => make(), 60);
    }
    if (KIND === 'apcu-entry') {
        return apcu_entry($key, 'make', 60);
    }
    $value = fetch($key);
    if ($value === null) {
        apcu_store($key, $value = make(), 60);
    }
    return $value;
}

function work(int $steps): string
{
    for ($i = 0; $i < $steps; $i++) {
        $key = 'k' . mt_rand(0, KEYS - 1);
        $value = null;
        switch (mt_rand(0, 8)) {
            case 0: case 1: case 2: $value = fetch($key); break;
            case 3: case 4: store($key, make()); break;
            case 5: $value = compute($key); break;
            case 6: KIND === 'reprise' ? reprise_cache_delete($key) : apcu_delete($key); break;
            case 7: KIND === 'reprise' ? reprise_cache_increment('count') : apcu_inc('count'); break;
            case 8:
                $kept = mt_rand(0, KEPT - 1);
                $value = fetch("kept$kept");
                if ($value === null) {
                    return "lost kept$kept";
                }
        }
        if ($value !== null && !is_right($value)) {
            return "wrong $key: " . substr(serialize($value), 0, 300);
        }
    }
    return 'right';
}

if (isset($_GET['keep'])) {
    for ($i = 0; $i < KEPT; $i++) {
        store("kept$i", make());
    }
    echo 'kept';
} else {
    mt_srand((int) $_GET['seed']);
    echo work((int) $_GET['steps']);
}
