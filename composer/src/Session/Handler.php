<?php

declare(strict_types=1);

namespace Reprise\Session;

/**
 * Sessions in the store that all nodes share (data_cache_store). One request of a session runs at a time, on whichever node. If the store is away, a
 * session cannot be opened, and an exception says so: nobody is logged out by that.
 */
final class Handler implements \SessionHandlerInterface, \SessionUpdateTimestampHandlerInterface
{
    /** Sessions of other names are others. */
    private string $name = '';
    private ?string $locked = null;

    /**
     * @param int $seconds How long a session lasts after its last request; 0: session.gc_maxlifetime.
     * @param int $wait    How many seconds a request waits for another one of its session.
     * @param int $lease   After so many seconds a request no longer keeps others of its session waiting.
     */
    public function __construct(private int $seconds = 0, private int $wait = 30, private int $lease = 60)
    {
    }

    /** Makes it the handler of this request's session. */
    public static function register(int $seconds = 0, int $wait = 30, int $lease = 60): bool
    {
        return session_set_save_handler(new self($seconds, $wait, $lease), true);
    }

    public function open(string $path, string $name): bool
    {
        if ((reprise_cache_stats()['store'] ?? null) === null) {
            throw new \LogicException('sessions in the store of all nodes take data_cache_store');
        }
        $this->name = $name;
        return true;
    }

    public function read(string $id): string
    {
        $this->lock($id);
        return $this->fetch($id) ?? '';
    }

    public function validateId(string $id): bool
    {
        return $this->fetch($id) !== null;
    }

    public function write(string $id, string $data): bool
    {
        return reprise_store_write($this->key($id), $data, $this->seconds());
    }

    public function updateTimestamp(string $id, string $data): bool
    {
        return $this->write($id, $data);
    }

    public function destroy(string $id): bool
    {
        return reprise_store_remove($this->key($id));
    }

    public function close(): bool
    {
        if ($this->locked !== null) {
            reprise_cache_unlock($this->locked);
            $this->locked = null;
        }
        return true;
    }

    public function gc(int $max_lifetime): int
    {
        // The store removes what is over.
        return 0;
    }

    private function key(string $id): string
    {
        return "session:{$this->name}:$id";
    }

    private function seconds(): int
    {
        return $this->seconds > 0 ? $this->seconds : max(1, (int) ini_get('session.gc_maxlifetime'));
    }

    private function fetch(string $id): ?string
    {
        $data = reprise_store_read($this->key($id));
        if ($data === false) {
            throw new \RuntimeException('the store with the sessions cannot be asked');
        }
        return $data;
    }

    private function lock(string $id): void
    {
        $key = $this->key($id);
        $until = microtime(true) + $this->wait;
        // Nobody is told when a lock of another node is free.
        for ($pause = 1000; !reprise_cache_lock($key, $this->lease); $pause = min(2 * $pause, 50000)) {
            if (microtime(true) >= $until) {
                throw new \RuntimeException("another request has kept this session for {$this->wait} seconds");
            }
            usleep($pause);
        }
        $this->locked = $key;
    }
}
