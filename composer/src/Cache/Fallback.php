<?php

declare(strict_types=1);

namespace Reprise\Cache;

/**
 * The data cache under another server, and on the command line: the same functions over the Memcached that REPRISE_MEMCACHED names, else over APCu. With
 * neither nothing is kept, and the first value that a web server's worker computes says so in PHP's error log.
 *
 * An entry has its value, when it is to be computed anew and when it is gone, how long the computation took, and its tags with the generation that each had
 * when the computation began: a tag is invalidated by another generation. The tag '' is all values.
 *
 * @internal
 */
final class Fallback
{
    /** Seconds that a request waits for another's value; Reprise has an option for it. */
    private const WAIT = 10.0;
    /** Seconds after which another may compute the value, too. */
    private const LEASE = 60;
    private const MOST_REFUSED = 4;

    private static ?self $instance = null;

    private readonly string $prefix;
    private readonly object $none;
    /** @var array<string, string> what this request holds, by key: leases and locks */
    private array $held = [];
    private bool $endsWithRequest = false;
    private bool $isAtEnd = false;
    private bool $hasWarned = false;

    public function __construct(private readonly Backend $backend)
    {
        // Installations of the package do not share values.
        $this->prefix = 'reprise:' . substr(hash('sha256', __DIR__), 0, 12) . ':';
        $this->none = new \stdClass();
    }

    public static function of(): self
    {
        return self::$instance ??= new self(self::backend());
    }

    private static function backend(): Backend
    {
        $server = getenv('REPRISE_MEMCACHED');
        if (is_string($server) && $server !== '' && class_exists(\Memcached::class)) {
            return new Memcached($server);
        }

        return Apcu::isThere() ? new Apcu() : new Nothing();
    }

    /** @param array<mixed> $tags */
    public function compute(string $key, callable $compute, int $ttl, int $stale, array $tags, float $early): mixed
    {
        Arguments::key($key);
        Arguments::seconds($ttl);
        Arguments::seconds($stale);
        Arguments::tags($tags);
        Arguments::early($early);
        $make = fn (): mixed => $this->make($key, $compute, $ttl, $stale, $tags);
        if ($this->backend instanceof Nothing) {
            $this->warn();

            return $make();
        }
        $until = microtime(true) + self::WAIT;
        $refused = 0;
        for ($pause = 2000; ; $pause = min(50_000, 2 * $pause)) {
            $entry = $this->find($key);
            if ($entry !== null) {
                return $this->isDue($entry, $early) && $this->take('c', $key, self::LEASE) ? $this->renew($key, $entry, $stale > 0, $make) : $entry['value'];
            }
            if (isset($this->held['c' . $key])) {
                throw new \Error("reprise_cache(): the computation of \"$key\" asks for its own value");
            }
            if ($this->take('c', $key, self::LEASE)) {
                // Another may have stored it between the look-up and the lease.
                $entry = $this->find($key);
                if ($entry !== null) {
                    $this->giveBack('c', $key);

                    return $entry['value'];
                }

                return $make();
            }
            // A lease that is neither given nor another's, time and again: the server does not respond.
            $refused = $this->isTaken('c', $key) ? 0 : $refused + 1;
            if ($refused === self::MOST_REFUSED || microtime(true) >= $until) {
                return $make();
            }
            usleep($pause);
        }
    }

    /**
     * Computes and stores, and gives the lease back.
     *
     * @param list<string> $tags
     */
    private function make(string $key, callable $compute, int $ttl, int $stale, array $tags): mixed
    {
        $had = $this->held['c' . $key] ?? null;
        try {
            $generations = $this->generations($tags, true);
            $seconds = $ttl === 0 ? PHP_INT_MAX : $ttl;
            $began = microtime(true);
            $value = $compute($seconds);
            $cost = microtime(true) - $began;
            Arguments::value($value);
            // Who removes or stores the value meanwhile takes the lease away.
            $mayStore = $had === null || $this->backend->get($this->name('c', $key), null) === $had;
            if ($seconds > 0 && $mayStore) {
                $this->backend->set($this->name('v', $key), ...self::entry($value, $seconds === PHP_INT_MAX ? 0 : (int) $seconds, $stale, $cost, $generations));
            }

            return $value;
        } finally {
            $this->giveBack('c', $key);
        }
    }

    /** @param array<string, mixed> $entry */
    private function renew(string $key, array $entry, bool $mayWait, callable $make): mixed
    {
        $renew = static function (mixed $old) use ($make): mixed {
            try {
                return $make();
            } catch (\Throwable $thrown) {
                error_log("a value of the data cache could not be renewed, and the old one is used: $thrown");

                return $old;
            }
        };
        if (!$mayWait || $this->isAtEnd || !function_exists('fastcgi_finish_request')) {
            return $renew($entry['value']);
        }
        register_shutdown_function(function () use ($renew): void {
            $this->isAtEnd = true;
            fastcgi_finish_request();
            $renew(null);
        });

        return $entry['value'];
    }

    public function fetch(string $key, mixed $default): mixed
    {
        Arguments::key($key);
        $entry = $this->find($key);

        return $entry !== null && self::isFresh($entry) ? $entry['value'] : $default;
    }

    /** @param array<mixed> $tags */
    public function store(string $key, mixed $value, int $ttl, array $tags, ?string $onlyIf): bool
    {
        $new = $this->checked($key, $value, $ttl, $tags);
        if ($onlyIf === null) {
            $this->backend->delete($this->name('c', $key));

            return $this->backend->set($this->name('v', $key), ...$new);
        }

        return $this->backend->swap($this->name('v', $key), $this->none, fn (mixed $old): ?array => $this->has($old, $onlyIf) ? $new : null);
    }

    /** @param array<mixed> $tags */
    public function add(string $key, mixed $value, int $ttl, array $tags): bool
    {
        $new = $this->checked($key, $value, $ttl, $tags);

        return $this->backend->swap($this->name('v', $key), $this->none, fn (mixed $old): ?array => $this->isGood($old) ? null : $new);
    }

    public function delete(string $key, ?string $onlyIf): bool
    {
        Arguments::key($key);
        $wasGood = false;
        // What is there for a second is no entry.
        $removed = $this->backend->swap($this->name('v', $key), $this->none, function (mixed $old) use ($onlyIf, &$wasGood): ?array {
            $wasGood = $onlyIf === null ? $this->isGood($old) : $this->has($old, $onlyIf);

            return $wasGood || ($onlyIf === null && $old !== $this->none) ? ['', 1] : null;
        });
        if ($removed || $onlyIf === null) {
            $this->backend->delete($this->name('c', $key));
        }

        return $removed && $wasGood;
    }

    public function increment(string $key, int $by, int $ttl): int|false
    {
        $first = $this->checked($key, $by, $ttl, []);
        for ($attempt = 0; $attempt < 100; $attempt++) {
            $sum = false;
            $isNumber = true;
            $swapped = $this->backend->swap($this->name('v', $key), $this->none, function (mixed $old) use ($first, $by, &$sum, &$isNumber): ?array {
                if (!$this->isGood($old)) {
                    $sum = $by;

                    return $first;
                }
                $isNumber = is_int($old['value']);
                $sum = $old['value'] = $isNumber ? $old['value'] + $by : 0;

                return $isNumber ? [$old, $old['gone'] > 0 ? (int) max(1, ceil($old['gone'] - microtime(true))) : 0] : null;
            });
            if ($swapped || !$isNumber || $this->backend instanceof Nothing) {
                return $swapped ? $sum : false;
            }
        }

        return false;
    }

    /** @param array<mixed> $tags */
    public function invalidate(array $tags): bool
    {
        Arguments::tags(array_slice($tags, 0, 1));
        $all = true;
        foreach ($tags as $tag) {
            Arguments::tags([$tag]);
            $all = $this->backend->set($this->name('t', $tag), self::generation(), 0) && $all;
        }

        return $all && !$this->backend instanceof Nothing;
    }

    public function flush(): bool
    {
        return $this->backend->set($this->name('t', ''), self::generation(), 0);
    }

    public function lock(string $name, float $lease): bool
    {
        Arguments::key($name);
        Arguments::lease($lease);

        return $this->take('l', $name, (int) ceil($lease));
    }

    public function unlock(string $name): bool
    {
        Arguments::key($name);

        return $this->giveBack('l', $name);
    }

    // ---- leases and locks

    private function take(string $kind, string $key, int $seconds): bool
    {
        if (!$this->endsWithRequest) {
            $this->endsWithRequest = true;
            // Behind the computations that come at the end.
            register_shutdown_function(fn () => register_shutdown_function(function (): void {
                foreach (array_keys($this->held) as $held) {
                    $this->giveBack($held[0], substr($held, 1));
                }
            }));
        }
        $token = bin2hex(random_bytes(8));
        if (!$this->backend->add($this->name($kind, $key), $token, $seconds)) {
            return false;
        }
        $this->held[$kind . $key] = $token;

        return true;
    }

    private function isTaken(string $kind, string $key): bool
    {
        return $this->backend->get($this->name($kind, $key), null) !== null;
    }

    private function giveBack(string $kind, string $key): bool
    {
        $token = $this->held[$kind . $key] ?? null;
        unset($this->held[$kind . $key]);

        return $token !== null
            && $this->backend->get($this->name($kind, $key), null) === $token
            && $this->backend->delete($this->name($kind, $key));
    }

    // ---- entries

    /** @return null|array<string, mixed> also an entry that is to be computed anew */
    private function find(string $key): ?array
    {
        $entry = $this->backend->get($this->name('v', $key), null);

        return $this->isGood($entry) ? $entry : null;
    }

    private function isGood(mixed $entry): bool
    {
        return is_array($entry)
            && ($entry['gone'] === 0.0 || $entry['gone'] > microtime(true))
            && $this->generations(array_keys($entry['tags']), false) == $entry['tags'];
    }

    /** @param array<string, mixed> $entry */
    private static function isFresh(array $entry): bool
    {
        return $entry['due'] === 0.0 || $entry['due'] > microtime(true);
    }

    private function has(mixed $entry, string $text): bool
    {
        return $this->isGood($entry) && self::isFresh($entry) && $entry['value'] === $text;
    }

    /**
     * Whether it is to be computed anew: its time is over, or nearly so; the nearer, and the longer that takes, the likelier.
     *
     * @param array<string, mixed> $entry
     */
    private function isDue(array $entry, float $early): bool
    {
        if ($entry['due'] === 0.0) {
            return false;
        }
        $chance = random_int(1, PHP_INT_MAX) / PHP_INT_MAX;

        return microtime(true) - $entry['cost'] * $early * log($chance) >= $entry['due'];
    }

    /**
     * An entry, and how many seconds the backend keeps it.
     *
     * @param array<string, int> $generations
     *
     * @return array{array<string, mixed>, int}
     */
    private static function entry(mixed $value, int $ttl, int $stale, float $cost, array $generations): array
    {
        $now = microtime(true);
        $due = $ttl === 0 ? 0.0 : $now + $ttl;
        $gone = $ttl === 0 ? 0.0 : $due + $stale;
        $entry = ['value' => $value, 'due' => $due, 'gone' => $gone, 'cost' => $cost, 'tags' => $generations];

        return [$entry, $ttl === 0 ? 0 : $ttl + $stale + 1];
    }

    /**
     * @param array<mixed> $tags
     *
     * @return array{array<string, mixed>, int}
     */
    private function checked(string $key, mixed $value, int $ttl, array $tags): array
    {
        Arguments::key($key);
        Arguments::seconds($ttl);
        Arguments::tags($tags);
        Arguments::value($value);

        return self::entry($value, $ttl, 0, 0.0, $this->generations($tags, true));
    }

    /**
     * The generations of tags now. One that nobody has, or that was evicted, has none, and gets a new one if it is wanted.
     *
     * @param array<mixed> $tags
     *
     * @return array<string, int>
     */
    private function generations(array $tags, bool $makes): array
    {
        $names = [];
        foreach (['', ...$tags] as $tag) {
            $names[$this->name('t', (string) $tag)] = (string) $tag;
        }
        $generations = [];
        $found = $this->backend->getAll(array_keys($names));
        foreach ($names as $name => $tag) {
            $generation = $found[$name] ?? null;
            if ($generation === null && $makes) {
                $this->backend->add($name, self::generation(), 0);
                $generation = $this->backend->get($name, null);
            }
            if ($generation !== null) {
                $generations[$tag] = $generation;
            }
        }

        return $generations;
    }

    private static function generation(): int
    {
        return random_int(1, PHP_INT_MAX);
    }

    /** The backend's key: Memcached takes 250 bytes, without spaces. */
    private function name(string $kind, string $key): string
    {
        $short = strlen($key) <= 120 && preg_match('/^[!-~]*$/D', $key) === 1;

        return $this->prefix . $kind . ($short ? ':' . $key : '#' . hash('sha256', $key));
    }

    private function warn(): void
    {
        if (!$this->hasWarned && PHP_SAPI !== 'cli') {
            $this->hasWarned = true;
            error_log('reprise_cache() keeps nothing: there is no APCu, and REPRISE_MEMCACHED names no server that php-memcached could ask');
        }
    }
}
