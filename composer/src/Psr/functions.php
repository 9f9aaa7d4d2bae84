<?php

declare(strict_types=1);

namespace Reprise\Psr;

use Psr\Http\Message\ResponseInterface;
use Psr\Http\Message\ServerRequestInterface;
use Psr\Http\Server\RequestHandlerInterface;

use function Reprise\run as runApplication;

/**
 * Runs a PSR-15 handler, or a function from PSR-7 request to PSR-7 response: from a snapshot, in a worker's loop, or once.
 *
 * @param RequestHandlerInterface|callable(ServerRequestInterface): ResponseInterface $handler
 * @param callable(): ServerRequestInterface                                            $request makes one of the superglobals
 * @param callable(ResponseInterface): void                                             $emit    sends an answer
 * @param bool                                                                          $survivesExit as of Reprise\run()
 */
function run(object|callable $handler, callable $request, ?callable $emit = null, bool $survivesExit = false): void
{
    $handle = $handler instanceof RequestHandlerInterface ? $handler->handle(...) : $handler;
    $emit ??= emit(...);
    $warmUp = static function (array $made) use ($handle, $request): int {
        $message = $request();
        // getallheaders(), which some implementations ask, knows only the boot's own.
        foreach ($made['headers'] as $name => $value) {
            $message = $message->withHeader($name, $value);
        }

        return $handle($message)->getStatusCode();
    };
    runApplication(static fn () => $emit($handle($request())), $warmUp, $survivesExit);
}

/** Sends an answer: head, then body in pieces of 8 KB. A body that has no size is made while it is read: each piece goes out by itself. */
function emit(ResponseInterface $response): void
{
    $status = $response->getStatusCode();
    if (!headers_sent()) {
        foreach ($response->getHeaders() as $name => $values) {
            $replace = 0 !== strcasecmp((string) $name, 'Set-Cookie');
            foreach ($values as $value) {
                header("$name: $value", $replace);
                $replace = false;
            }
        }
        // After the headers: Location sets a status of its own.
        header(rtrim("HTTP/{$response->getProtocolVersion()} $status {$response->getReasonPhrase()}"), true, $status);
    }
    if ('HEAD' === $_SERVER['REQUEST_METHOD'] || in_array($status, [204, 205, 304], true)) {
        return;
    }
    $body = $response->getBody();
    if ($body->isSeekable()) {
        $body->rewind();
    }
    $isMade = null === $body->getSize();
    while (!$body->eof() && CONNECTION_NORMAL === connection_status()) {
        echo $body->read(8192);
        if ($isMade) {
            if (ob_get_level() > 0) {
                ob_flush();
            }
            flush();
        }
    }
}
