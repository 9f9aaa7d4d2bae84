<?php
declare(strict_types=1);

namespace Guestbook;

/** What the server remembers of one visitor: the form's token and a message for the next page. */
final class Session
{
    public function __construct(string $directory)
    {
        session_start([
            'name' => 'guestbook',
            'save_path' => $directory,
            'use_strict_mode' => '1',
            'cookie_httponly' => '1',
            'cookie_samesite' => 'Lax',
            'cookie_secure' => ($_SERVER['HTTPS'] ?? 'off') !== 'off' ? '1' : '0',
            'cache_limiter' => '',
            'gc_probability' => '1', // Debian's default of 0 relies on a cron job that knows nothing of this directory
            'gc_divisor' => '1000',
            'gc_maxlifetime' => '86400',
        ]);
        $_SESSION['token'] ??= bin2hex(random_bytes(16));
    }

    public function token(): string
    {
        return $_SESSION['token'];
    }

    public function accepts(mixed $token): bool
    {
        return is_string($token) && hash_equals($_SESSION['token'], $token);
    }

    public function flash(string $message): void
    {
        $_SESSION['flash'] = $message;
    }

    public function takeFlash(): ?string
    {
        $message = $_SESSION['flash'] ?? null;
        unset($_SESSION['flash']);

        return $message;
    }

    /** Let the visitor's next request in: until here, this one holds the session's lock. */
    public function close(): void
    {
        session_write_close();
    }
}
