<?php

declare(strict_types=1);

namespace Reprise;

/**
 * Pages that the boot renders in child processes, each as an anonymous visitor: what a page leaves in variables, statics and hooks ends
 * with its process, and only the values that it is asked for come back.
 *
 * @internal
 */
final class Warm
{
    /** What is written first and last, so that a part of it is no answer. */
    private const MARK = "reprise\n";

    /** @var resource of the child's, to the boot */
    private $end;

    /**
     * @param array{method: string, path: string, headers: array<string, string>}                            $request
     * @param null|callable(array{method: string, path: string, headers: array<string, string>}): mixed $after
     */
    private function __construct(private readonly array $request, private readonly mixed $after, mixed $end)
    {
        $this->end = $end;
    }

    /** Whether this is a boot that can start processes. */
    public static function canRender(): bool
    {
        $can = function_exists('pcntl_fork') && function_exists('posix_kill');
        if (isBoot() && !$can) {
            reprise_log('no page is rendered before the snapshot: PHP has no pcntl, or no posix', LOG_NOTICE);
        }

        return isBoot() && $can;
    }

    /** @param array{method: string, path: string, headers: array<string, string>} $request */
    public static function complain(array $request, string $why): void
    {
        reprise_log("nothing is kept of the page $request[path], which was to be rendered before the snapshot: $why", LOG_WARNING);
    }

    /** @param array<string> $names those that no file has, such as anonymous ones, are left out */
    public static function load(array $names): void
    {
        foreach ($names as $name) {
            str_contains($name, '@anonymous') || class_exists($name) || interface_exists($name) || trait_exists($name);
        }
    }

    /** @return list<array{method: string, path: string, headers: array<string, string>}> those that an anonymous visitor could make of this host */
    public static function requests(): array
    {
        $hosts = reprise_info()['hosts'] ?? [];
        $own = (string) ($_SERVER['HTTP_HOST'] ?? '');
        $requests = [];
        foreach (WarmUp::requests() as $request) {
            $headers = array_change_key_case($request['headers']);
            $isAnonymous = $request['method'] === 'GET' && !isset($headers['cookie']) && !isset($headers['authorization']);
            if ($isAnonymous && ($hosts === [] || ($headers['host'] ?? $own) === $own)) {
                $requests[$request['path']] ??= $request;
            }
        }

        return array_values($requests);
    }

    /**
     * Renders a page in a child process.
     *
     * @param array{method: string, path: string, headers: array<string, string>} $request
     *
     * @return array{mixed}|string what `$after` has returned there, or why there is nothing
     */
    public static function render(array $request, callable $render, ?callable $before, ?callable $after, int $seconds): array|string
    {
        $said = self::inChild($request, $after, $seconds);
        if ($said instanceof self) {
            $said->run($render, $before);
        }

        return $said;
    }

    /**
     * The same, where the child renders by going on.
     *
     * @param array{method: string, path: string, headers: array<string, string>} $request
     *
     * @return array{mixed}|string|self in the child: itself
     */
    public static function inChild(array $request, ?callable $after, int $seconds): array|string|self
    {
        $ends = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
        $process = $ends === false ? -1 : pcntl_fork();
        if ($process === -1) {
            return 'no process could be started for it';
        }
        if ($process === 0) {
            fclose($ends[0]);
            $child = new self($request, $after, $ends[1]);
            $child->begin();

            return $child;
        }
        fclose($ends[1]);
        $said = self::read($ends[0], hrtime(true) + $seconds * 1_000_000_000);
        fclose($ends[0]);
        posix_kill($process, SIGKILL);
        pcntl_waitpid($process, $status);
        if ($said === null) {
            return "it took longer than $seconds s";
        }
        if (!str_starts_with($said, self::MARK) || !str_ends_with($said, self::MARK)) {
            return $said === '' ? 'it has failed' : $said;
        }

        return [unserialize(substr($said, strlen(self::MARK), -strlen(self::MARK)))];
    }

    private function begin(): void
    {
        // A page may end by exit(), or by an error that nobody catches.
        register_shutdown_function($this->end(...));
        WarmUp::pretend($this->request);
        unset($_SERVER['REPRISE_BOOT']);
        while (ob_get_level() > 0) {
            ob_end_clean();
        }
        ob_start(static fn () => '');
    }

    /** In the child. */
    private function run(callable $render, ?callable $before): never
    {
        try {
            $before !== null && $before($this->request);
            $render($this->request);
        } catch (\Throwable $thrown) {
            $this->say('it has thrown ' . $thrown::class . ': ' . $thrown->getMessage());
        }
        exit;
    }

    private function end(): void
    {
        $fatal = (error_get_last()['type'] ?? 0) & (E_ERROR | E_PARSE | E_CORE_ERROR | E_COMPILE_ERROR | E_USER_ERROR | E_RECOVERABLE_ERROR);
        $status = (int) http_response_code();
        if ($fatal || $status >= 400) {
            $this->say($fatal ? 'it has failed: ' . error_get_last()['message'] : "its status is $status");
        }
        try {
            $this->say(self::MARK . serialize($this->after === null ? null : ($this->after)($this->request)) . self::MARK);
        } catch (\Throwable $thrown) {
            $this->say('what is to be kept of it: ' . $thrown::class . ': ' . $thrown->getMessage());
        }
    }

    /** The last thing that a child does: nothing of the boot is ended here, such as its connections. */
    private function say(string $text): never
    {
        for ($written = 0; $written < strlen($text); $written += $now) {
            $now = (int) fwrite($this->end, substr($text, $written));
            if ($now === 0) {
                break;
            }
        }
        posix_kill(getmypid(), SIGKILL);
        exit;
    }

    /**
     * @param resource $end
     *
     * @return ?string null: it took too long
     */
    private static function read($end, int $deadline): ?string
    {
        $said = '';
        stream_set_blocking($end, false);
        while (!feof($end)) {
            $left = $deadline - hrtime(true);
            if ($left <= 0) {
                return null;
            }
            [$readable, $none, $others] = [[$end], null, null];
            if (stream_select($readable, $none, $others, intdiv($left, 1_000_000_000), intdiv($left % 1_000_000_000, 1000)) > 0) {
                $said .= (string) fread($end, 1 << 16);
            }
        }

        return $said;
    }
}
