<?php
// The cache clients behind one interface. An absent key is null; a failure is an exception.

interface Client
{
    public function get(string $key): mixed;
    public function set(string $key, mixed $value): bool;
    // By key if named(), else in the order of the keys.
    public function many(array $keys): array;
    public function named(): bool;
    public function close(): void;
    public function clear(): void; // all keys of the server
}

// Compression is off, as no other client has it by itself.
final class MemcachedClient implements Client
{
    private Memcached $server;

    public function __construct(array $cell)
    {
        $this->server = new Memcached;
        $ms = 1000 * $cell['timeout'];
        $this->server->setOptions([
            Memcached::OPT_COMPRESSION => false, Memcached::OPT_TCP_NODELAY => true,
            Memcached::OPT_SERIALIZER => $cell['serializer'] === 'igbinary' ? Memcached::SERIALIZER_IGBINARY : Memcached::SERIALIZER_PHP,
            Memcached::OPT_CONNECT_TIMEOUT => $ms, Memcached::OPT_POLL_TIMEOUT => $ms,
            Memcached::OPT_SEND_TIMEOUT => 1000 * $ms, Memcached::OPT_RECV_TIMEOUT => 1000 * $ms,
        ]);
        $this->server->addServer($cell['socket'] ?: '127.0.0.1', $cell['port']);
    }

    public function get(string $key): mixed
    {
        $value = $this->server->get($key);
        return $value === false ? $this->absent() : $value;
    }

    public function set(string $key, mixed $value): bool
    {
        return $this->server->set($key, $value) || throw new RuntimeException($this->server->getResultMessage());
    }

    public function many(array $keys): array
    {
        $values = $this->server->getMulti($keys);
        return $values === false ? throw new RuntimeException($this->server->getResultMessage()) : $values;
    }

    private function absent(): mixed
    {
        return $this->server->getResultCode() === Memcached::RES_NOTFOUND ? null
            : throw new RuntimeException($this->server->getResultMessage());
    }

    public function named(): bool
    {
        return true;
    }

    public function clear(): void
    {
        $this->server->flush();
    }

    public function close(): void
    {
        $this->server->quit();
    }
}

// A failure is a notice, and so an exception.
final class MemcacheClient implements Client
{
    private Memcache $server;

    public function __construct(array $cell)
    {
        $this->server = new Memcache;
        $this->server->connect($cell['socket'] ? 'unix://' . $cell['socket'] : '127.0.0.1', $cell['port'], $cell['timeout']);
    }

    public function get(string $key): mixed
    {
        $value = $this->server->get($key);
        return $value === false ? null : $value;
    }

    public function set(string $key, mixed $value): bool
    {
        return $this->server->set($key, $value);
    }

    public function many(array $keys): array
    {
        return $this->server->get($keys) ?: [];
    }

    public function named(): bool
    {
        return true;
    }

    public function clear(): void
    {
        $this->server->flush();
    }

    public function close(): void
    {
        $this->server->close();
    }
}

final class PhpRedisClient implements Client
{
    private Redis $server;

    public function __construct(array $cell)
    {
        $this->server = new Redis;
        $this->server->connect($cell['socket'] ?: '127.0.0.1', $cell['port'], $cell['timeout']);
        $this->server->setOption(Redis::OPT_READ_TIMEOUT, $cell['timeout']);
        $this->server->setOption(Redis::OPT_SERIALIZER, match ($cell['serializer']) {
            'php' => Redis::SERIALIZER_PHP, 'igbinary' => Redis::SERIALIZER_IGBINARY, 'by-hand' => Redis::SERIALIZER_NONE,
        });
    }

    public function get(string $key): mixed
    {
        $value = $this->server->get($key);
        return $value === false ? null : $value;
    }

    public function set(string $key, mixed $value): bool
    {
        return $this->server->set($key, $value);
    }

    public function many(array $keys): array
    {
        return $this->server->mget($keys);
    }

    public function named(): bool
    {
        return false;
    }

    public function clear(): void
    {
        $this->server->flushAll();
    }

    public function close(): void
    {
        $this->server->close();
    }
}

final class PredisClient implements Client
{
    private Predis\Client $server;

    public function __construct(array $cell)
    {
        require_once 'Predis/autoload.php';
        $place = $cell['socket'] ? ['scheme' => 'unix', 'path' => $cell['socket']]
            : ['scheme' => 'tcp', 'host' => '127.0.0.1', 'port' => $cell['port'], 'tcp_nodelay' => true];
        $this->server = new Predis\Client($place + ['timeout' => $cell['timeout'], 'read_write_timeout' => $cell['timeout']]);
    }

    public function get(string $key): mixed
    {
        return $this->server->get($key);
    }

    public function set(string $key, mixed $value): bool
    {
        return $this->server->set($key, $value)->getPayload() === 'OK';
    }

    public function many(array $keys): array
    {
        return $this->server->mget($keys);
    }

    public function named(): bool
    {
        return false;
    }

    public function clear(): void
    {
        $this->server->flushall();
    }

    public function close(): void
    {
        $this->server->disconnect();
    }
}

// Its serializer is a setting, apc.serializer.
final class ApcuClient implements Client
{
    public function get(string $key): mixed
    {
        $value = apcu_fetch($key);
        return $value === false ? null : $value;
    }

    public function set(string $key, mixed $value): bool
    {
        return apcu_store($key, $value);
    }

    public function many(array $keys): array
    {
        return apcu_fetch($keys);
    }

    public function named(): bool
    {
        return true;
    }

    public function clear(): void
    {
        apcu_clear_cache();
    }

    public function close(): void
    {
    }
}

// The values of Reprise's data cache are read as they lie there.
final class RepriseClient implements Client
{
    public function get(string $key): mixed
    {
        return reprise_cache_fetch($key);
    }

    public function set(string $key, mixed $value): bool
    {
        return reprise_cache_store($key, $value);
    }

    public function many(array $keys): array
    {
        return reprise_cache_fetch_many($keys);
    }

    public function named(): bool
    {
        return true;
    }

    public function clear(): void
    {
        reprise_cache_flush();
    }

    public function close(): void
    {
    }
}

// A client that stores the strings which PHP code makes of values.
final class Serialized implements Client
{
    public function __construct(private Client $client, private Closure $encode, private Closure $decode)
    {
    }

    public function get(string $key): mixed
    {
        $text = $this->client->get($key);
        return $text === null ? null : ($this->decode)($text);
    }

    public function set(string $key, mixed $value): bool
    {
        return $this->client->set($key, ($this->encode)($value));
    }

    public function many(array $keys): array
    {
        return array_map($this->decode, $this->client->many($keys));
    }

    public function named(): bool
    {
        return $this->client->named();
    }

    public function clear(): void
    {
        $this->client->clear();
    }

    public function close(): void
    {
        $this->client->close();
    }
}

function connect(array $cell): Client
{
    $client = match ($cell['client']) {
        'memcached' => new MemcachedClient($cell),
        'memcache' => new MemcacheClient($cell),
        'phpredis' => new PhpRedisClient($cell),
        'predis' => new PredisClient($cell),
        'apcu' => new ApcuClient,
        'reprise' => new RepriseClient,
    };
    if ($cell['serializer'] === 'by-hand') {
        return new Serialized($client, igbinary_serialize(...), igbinary_unserialize(...));
    }
    // Predis has no serializer.
    return $cell['client'] === 'predis' ? new Serialized($client, serialize(...), unserialize(...)) : $client;
}

function stored_bytes(array $cell, mixed $value): int
{
    return strlen($cell['serializer'] === 'php' ? serialize($value) : igbinary_serialize($value));
}
