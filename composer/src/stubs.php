<?php

/**
 * The server's functions where there is no such server (PHP-FPM, the command line), so that the same code runs there.
 * Under Reprise they are there already, and nothing here is declared.
 */

declare(strict_types=1);

if (!function_exists('reprise_snapshot')) {
    /** There is nothing to come back to: the script just goes on. */
    function reprise_snapshot(bool $per_host = false): void
    {
    }
}

if (!function_exists('reprise_handle_request')) {
    /** Runs the handler for the one request that the script was started for. */
    function reprise_handle_request(callable $handler, bool $survives_exit = false): bool
    {
        $handler();

        return false;
    }
}

if (!function_exists('reprise_finish_request')) {
    /** PHP-FPM's function where it is; elsewhere nothing is sent before the end. */
    function reprise_finish_request(): bool
    {
        return function_exists('fastcgi_finish_request') && fastcgi_finish_request();
    }
}

if (!function_exists('reprise_log')) {
    /** @param array<mixed> $context */
    function reprise_log(string $message, int $level = 6, array $context = []): void
    {
        error_log($context === [] ? $message : $message . ' ' . json_encode($context, JSON_PARTIAL_OUTPUT_ON_ERROR));
    }
}

if (!function_exists('reprise_info')) {
    /** @return array<string, mixed> */
    function reprise_info(): array
    {
        return ['mode' => 'none'];
    }
}

if (!function_exists('reprise_warmup_requests')) {
    /** @return list<array{method: string, path: string, headers: array<string, string>}> */
    function reprise_warmup_requests(): array
    {
        return [];
    }
}
