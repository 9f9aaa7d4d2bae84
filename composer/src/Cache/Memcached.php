<?php

declare(strict_types=1);

namespace Reprise\Cache;

/**
 * The server that REPRISE_MEMCACHED names: HOST, HOST:PORT or the path of a socket. A server that does not respond is an empty cache.
 *
 * @internal
 */
final class Memcached implements Backend
{
    /** More is a time since 1970 for the server. */
    private const MOST_RELATIVE = 2_592_000;
    private const WAIT_MS = 200;

    private readonly \Memcached $client;

    public function __construct(string $server)
    {
        $this->client = new \Memcached();
        $this->client->setOptions([
            \Memcached::OPT_CONNECT_TIMEOUT => self::WAIT_MS,
            \Memcached::OPT_POLL_TIMEOUT => self::WAIT_MS,
            \Memcached::OPT_TCP_NODELAY => true,
            \Memcached::OPT_RETRY_TIMEOUT => 1,
        ]);
        if (str_starts_with($server, '/')) {
            $this->client->addServer($server, 0);
        } else {
            [$host, $port] = explode(':', $server, 2) + [1 => '11211'];
            $this->client->addServer($host, (int) $port);
        }
    }

    public function get(string $key, mixed $none): mixed
    {
        $value = $this->client->get($key);

        return $this->client->getResultCode() === \Memcached::RES_SUCCESS ? $value : $none;
    }

    public function getAll(array $keys): array
    {
        return $this->client->getMulti($keys) ?: [];
    }

    public function set(string $key, mixed $value, int $seconds): bool
    {
        return $this->client->set($key, $value, self::end($seconds));
    }

    public function add(string $key, mixed $value, int $seconds): bool
    {
        return $this->client->add($key, $value, self::end($seconds));
    }

    public function delete(string $key): bool
    {
        return $this->client->delete($key);
    }

    public function swap(string $key, mixed $none, callable $change): bool
    {
        $found = $this->client->get($key, null, \Memcached::GET_EXTENDED);
        $there = is_array($found) && $this->client->getResultCode() === \Memcached::RES_SUCCESS;
        $to = $change($there ? $found['value'] : $none);
        if ($to === null) {
            return false;
        }
        [$value, $seconds] = $to;

        return $there ? $this->client->cas($found['cas'], $key, $value, self::end($seconds)) : $this->add($key, $value, $seconds);
    }

    private static function end(int $seconds): int
    {
        return $seconds > self::MOST_RELATIVE ? time() + $seconds : $seconds;
    }
}
