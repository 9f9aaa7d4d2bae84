<?php

/* What the functions of WordPress' object cache return, one after the other: the same with its own cache and with the package's. */

declare(strict_types=1);

$_SERVER += ['HTTP_HOST' => 'a', 'REQUEST_METHOD' => 'GET', 'REQUEST_URI' => '/', 'SERVER_PROTOCOL' => 'HTTP/1.1'];
require ($argv[1] ?? __DIR__) . '/wp-load.php';
error_reporting(0);
remove_all_actions('doing_it_wrong_run');
wp_cache_flush();
$object = (object) ['a' => 1];
$said = [];
$say = static function (string $what, mixed ...$values) use (&$said): void {
    $said[] = $what . ' ' . json_encode($values);
};
$say('nothing', wp_cache_get('k', 'g', false, $found), $found);
$say('set', wp_cache_set('k', ['x' => 1], 'g'), wp_cache_get('k', 'g', false, $found), $found, wp_cache_get('k'), wp_cache_get('k', 'g', true));
$say('add', wp_cache_add('k', 2, 'g'), wp_cache_add('k2', 2, 'g'), wp_cache_get('k2', 'g'));
$say('replace', wp_cache_replace('k', 3, 'g'), wp_cache_replace('no', 3, 'g'), wp_cache_get('k', 'g'), wp_cache_get('no', 'g'));
$say('delete', wp_cache_delete('k', 'g'), wp_cache_delete('k', 'g'), wp_cache_get('k', 'g'));
foreach ([false, null, '', 0, 'text', 1.5] as $value) {
    $say('value', wp_cache_set('v', $value, 'g'), wp_cache_get('v', 'g', false, $found), $found, wp_cache_get('v', 'g', true));
}
$say('keys', wp_cache_set(5, 'five', 'g'), wp_cache_get('5', 'g'), wp_cache_set('', 1), wp_cache_get(' '), wp_cache_set(null, 1), wp_cache_get(1.5), wp_cache_add(false, 1));
$say('group', wp_cache_set('d', 1), wp_cache_get('d', 'default'), wp_cache_get('d', ''), wp_cache_set('d', 2, 0), wp_cache_get('d'));
wp_cache_set('o', $object, 'g');
$object->a = 2;
$got = wp_cache_get('o', 'g');
$say('object', $got);
$got->a = 3;
$say('object again', wp_cache_get('o', 'g'), wp_cache_get('o', 'g') === wp_cache_get('o', 'g'));
$say('incr', wp_cache_incr('n', 1, 'g'), wp_cache_set('n', 5, 'g'), wp_cache_incr('n', 2, 'g'), wp_cache_decr('n', 3, 'g'), wp_cache_decr('n', 30, 'g'), wp_cache_get('n', 'g'), wp_cache_incr('n', 4, 'g'), wp_cache_get('n', 'g', true));
$say('incr text', wp_cache_set('n', 'text', 'g'), wp_cache_incr('n', 2, 'g'), wp_cache_set('n', '7', 'g'), wp_cache_incr('n', 2, 'g'));
$say('multiple', wp_cache_set_multiple(['m1' => 1, 'm2' => 2], 'g'), wp_cache_add_multiple(['m2' => 3, 'm3' => 3], 'g'), wp_cache_get_multiple(['m1', 'm2', 'm3', 'm4'], 'g'), wp_cache_delete_multiple(['m1', 'm4'], 'g'), wp_cache_get_multiple(['m1', 'm2'], 'g', true));
$say('suspended', wp_suspend_cache_addition(true), wp_cache_add('s', 1), wp_cache_set('s', 2), wp_suspend_cache_addition(false), wp_cache_get('s'));
wp_cache_add_non_persistent_groups('own');
$say('own', wp_cache_set('k', 1, 'own'), wp_cache_get('k', 'own'), wp_cache_get('k', 'own', true), wp_cache_incr('k', 4, 'own'), wp_cache_add('k', 1, 'own'), wp_cache_delete('k', 'own'), wp_cache_get('k', 'own'));
$say('expired', wp_cache_set('e', 1, 'g', 3600), wp_cache_get('e', 'g'));
$say('flush group', wp_cache_set('k', 1, 'h'), wp_cache_flush_group('g'), wp_cache_get('e', 'g'), wp_cache_get('k', 'h'));
foreach (['add_multiple', 'set_multiple', 'get_multiple', 'delete_multiple', 'flush_runtime', 'flush_group', 'nothing'] as $feature) {
    $say('supports', wp_cache_supports($feature));
}
$say('closure', wp_cache_set('c', fn () => 1, 'h') !== null, wp_cache_get('c', 'h')());
$say('flush', wp_cache_flush(), wp_cache_get('k', 'h'), wp_cache_close());
echo implode("\n", $said), "\n";
