<?php
$status = function_exists('opcache_get_status') ? opcache_get_status(false) : false;
$stats = $status['opcache_statistics'] ?? [];
header('Content-Type: application/json');
echo json_encode([
    'enabled' => $status['opcache_enabled'] ?? false,
    'cached' => $status !== false && opcache_is_script_cached(__FILE__),
    'full' => $status['cache_full'] ?? null, 'jit' => $status['jit']['on'] ?? null,
    'restart_pending' => $status['restart_pending'] ?? null,
    'scripts' => $stats['num_cached_scripts'] ?? null, 'hits' => $stats['hits'] ?? null,
    'misses' => $stats['misses'] ?? null, 'started' => $stats['start_time'] ?? null,
    'used_memory' => $status['memory_usage']['used_memory'] ?? null,
]), "\n";
