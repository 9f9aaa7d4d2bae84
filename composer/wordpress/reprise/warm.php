<?php

declare(strict_types=1);

namespace Reprise\WordPress;

if (!defined('ABSPATH')) {
    exit;
}

/**
 * A page is rendered in a child process of the boot, as a request of a visitor who is nobody. The child runs on to the end of the
 * page and ends; what the page has left in variables, statics and hooks goes with it. What `Page` lists comes back as a value, and
 * becomes a part of the snapshot as `Kept` says.
 */
final class Warm
{
    /** The time that a page has, in seconds. */
    private const SECONDS = 30;

    public readonly Kept $kept;

    /** @param list<array{path: string, host: string}> $requests */
    private function __construct(private readonly array $requests)
    {
        $this->kept = new Kept();
    }

    /** While the boot still has its connection. */
    public static function prepare(): ?self
    {
        // An object cache that others share keeps the like, and forgets it when it changes.
        $requests = wp_using_ext_object_cache() ? [] : self::requests();
        if ($requests !== [] && !(function_exists('pcntl_fork') && function_exists('posix_kill'))) {
            reprise_log('no page is rendered before the snapshot: PHP has no pcntl, or no posix', LOG_NOTICE);
            $requests = [];
        }

        return $requests === [] ? null : new self($requests);
    }

    /**
     * Renders the pages, when what the boot holds of its own is forgotten. It returns false in the boot, and true in each child, where
     * the page is still to be rendered.
     *
     * @param callable(): void $begin what a request does first
     */
    public function render(callable $begin): bool
    {
        foreach ($this->requests as $request) {
            $said = self::inChild();
            if ($said === null) {
                self::beVisitor($request);
                $begin();
                Page::begin();

                return true;
            }
            $this->add($request['path'], $said);
        }
        $this->kept->keep();

        return false;
    }

    /** @return list<array{path: string, host: string}> those of the warm-up requests, and of REPRISE_WARMUP, that a visitor who is nobody could have made of this host */
    private static function requests(): array
    {
        $perHost = (reprise_info()['hosts'] ?? []) !== [];
        $home = (array) parse_url(home_url());
        $own = $perHost ? (string) $_SERVER['HTTP_HOST'] : ($home['host'] ?? '') . (isset($home['port']) ? ":$home[port]" : '');
        $asked = reprise_warmup_requests();
        $paths = (string) ($_SERVER['REPRISE_WARMUP'] ?? (getenv('REPRISE_WARMUP') ?: ''));
        foreach (preg_split('/\s+/', $paths, -1, PREG_SPLIT_NO_EMPTY) ?: [] as $path) {
            $asked[] = ['method' => 'GET', 'path' => $path, 'headers' => []];
        }
        $requests = [];
        foreach ($asked as $request) {
            $headers = array_change_key_case($request['headers']);
            $host = $headers['host'] ?? $own;
            $isNobody = $request['method'] === 'GET' && !isset($headers['cookie']) && !isset($headers['authorization']) && !str_contains($request['path'], '?');
            if ($isNobody && ($host === $own || !$perHost)) {
                $requests["$host$request[path]"] = ['path' => $request['path'], 'host' => $host];
            }
        }

        return array_values((array) apply_filters('reprise_warm_pages', $requests));
    }

    /** What a child says at its end; an empty text if it says nothing. In the child: null. */
    private static function inChild(): ?string
    {
        $ends = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
        $process = $ends === false ? -1 : pcntl_fork();
        if ($process === -1) {
            return '';
        }
        if ($process === 0) {
            fclose($ends[0]);
            register_shutdown_function(static function () use ($ends): void {
                try {
                    fwrite($ends[1], Page::end());
                } finally {
                    // Nothing of the boot is ended here.
                    posix_kill(getmypid(), SIGKILL);
                }
            });

            return null;
        }
        fclose($ends[1]);
        $said = self::read($ends[0], hrtime(true) + self::seconds() * 1_000_000_000);
        fclose($ends[0]);
        posix_kill($process, SIGKILL);
        pcntl_waitpid($process, $status);

        return $said;
    }

    private static function seconds(): int
    {
        return max(1, (int) apply_filters('reprise_warm_seconds', self::SECONDS));
    }

    /** @param resource $end */
    private static function read($end, int $deadline): string
    {
        $said = '';
        stream_set_blocking($end, false);
        while (!feof($end) && ($left = $deadline - hrtime(true)) > 0) {
            [$readable, $none, $others] = [[$end], null, null];
            if (stream_select($readable, $none, $others, intdiv($left, 1_000_000_000), intdiv($left % 1_000_000_000, 1000)) > 0) {
                $said .= (string) fread($end, 1 << 16);
            }
        }

        return feof($end) ? $said : '';
    }

    /** @param array{path: string, host: string} $request */
    private static function beVisitor(array $request): void
    {
        $_SERVER['REQUEST_METHOD'] = 'GET';
        $_SERVER['HTTP_HOST'] = $request['host'];
        $_SERVER['REQUEST_URI'] = $request['path'];
        $_SERVER['QUERY_STRING'] = '';
        [$_GET, $_POST, $_COOKIE, $_FILES, $_REQUEST] = [[], [], [], [], []];
        unset($_SERVER['PATH_INFO'], $_SERVER['REPRISE_BOOT']);
    }

    private function add(string $path, string $said): void
    {
        $page = $said === '' ? false : unserialize($said);
        if (!$page instanceof Page || $page->sum === DesignPosts::NO_SUM) {
            $why = $page instanceof Page ? 'the database has no sum of its design' : 'it has failed, or took longer than ' . self::seconds() . ' s';
            reprise_log("nothing is kept of the page $path, which was to be rendered before the snapshot: $why", LOG_WARNING);

            return;
        }
        if ($page->status !== 200) {
            reprise_log("the page $path, rendered before the snapshot, answers $page->status", LOG_NOTICE);
        }
        $this->kept->add($page);
    }
}
