<?php
declare(strict_types=1);

namespace Guestbook;

/** What a page answers. Nothing is sent before send(), so an error on the way can still become an error page. */
final class Response
{
    // Nothing inline and nothing from elsewhere: an entry that slipped through unescaped could still not run a script.
    private const SECURITY = [
        'Content-Security-Policy' => "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; "
            . "base-uri 'none'; frame-ancestors 'none'",
        'X-Content-Type-Options' => 'nosniff',
        'Referrer-Policy' => 'same-origin',
    ];

    public function __construct(
        private int $status,
        private array $headers,
        private string $body = '',
        private ?string $file = null,
    ) {
    }

    public static function page(string $view, string $title, array $vars, int $status = 200, array $headers = []): self
    {
        $html = render('layout', ['title' => $title, 'content' => render($view, $vars)]);

        return new self($status, $headers + [
            'Content-Type' => 'text/html; charset=utf-8',
            'Cache-Control' => 'private, no-cache',
        ], $html);
    }

    public static function message(int $status, string $title, string $text, array $headers = []): self
    {
        return self::page('message', $title, ['status' => $status, 'title' => $title, 'text' => $text], $status, $headers);
    }

    public static function redirect(string $path): self
    {
        return new self(303, ['Location' => $path, 'Cache-Control' => 'no-store']);
    }

    public function send(): void
    {
        http_response_code($this->status);
        foreach ($this->headers + self::SECURITY as $name => $value) {
            header("$name: $value");
        }
        if ($this->file !== null) {
            readfile($this->file);
            return;
        }
        echo $this->body;
    }
}
