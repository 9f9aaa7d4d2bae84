<?php
// One turn of bench/cache-clients. argv[1], or the query in Reprise, names a unix socket, on which lines of JSON go to and fro: first the cell to
// measure; "ready" when all clients are connected and have seen the right values; "go"; "done"; "check"; the result.
// The clients are forked of one parent, as children of PHP-FPM are: APCu's segment is theirs together.

require __DIR__ . '/cache_adapters.php';
error_reporting(E_ALL & ~E_DEPRECATED); // Predis 1.1 was written for PHP 7
set_error_handler(function (int $level, string $text): bool {
    if (error_reporting() & $level) {
        throw new ErrorException($text);
    }
    return false;
});
const FAILURES_LIMIT = 20;
const NOTHING = ['operations' => 0, 'times' => [], 'user_us' => 0, 'system_us' => 0, 'elapsed_ns' => 1];

function processor_us(): array
{
    $used = getrusage();
    return [$used['ru_utime.tv_sec'] * 1e6 + $used['ru_utime.tv_usec'], $used['ru_stime.tv_sec'] * 1e6 + $used['ru_stime.tv_usec']];
}

// What was counted: failures are exceptions and refused writes, wrong values are answers that are not what was stored.
final class Count
{
    public int $failures = 0;
    public int $wrong = 0;
    public ?string $first = null;

    public function failed(string $what): void
    {
        $this->failures++;
        $this->first ??= $what;
    }

    public function wrong(string $what): void
    {
        $this->wrong++;
        $this->first ??= $what;
    }

    public function isOver(): bool
    {
        return $this->failures + $this->wrong >= FAILURES_LIMIT;
    }
}

// Points of a menu with some below each, as a content management system has them.
function menu(int $number, int $size): array
{
    $points = [];
    for ($i = 0; $i < $size; $i++) {
        $point = ['id' => $number * 1000 + $i, 'label' => "Point $i of menu $number", 'url' => "/area-" . intdiv($i, 10) . "/page-$i",
            'active' => $i % 7 === 0, 'classes' => ['menu-item', "level-" . ($i % 10 ? 2 : 1)], 'children' => []];
        if ($i % 10) {
            $points[intdiv($i, 10)]['children'][] = $point;
        } else {
            $points[intdiv($i, 10)] = $point;
        }
    }
    return $points;
}

// Routes as a framework compiles them.
function routes(int $number, int $size): array
{
    $routes = [];
    for ($i = 0; $i < $size; $i++) {
        $routes["app_area{$number}_action_$i"] = [['id', '_locale'], ['_controller' => "App\\Controller\\Area{$number}Controller::action$i", '_locale' => 'en'],
            ['id' => '\\d+', '_locale' => 'de|en|fr'], [['variable', '/', '\\d+', 'id', true], ['text', "/area-$number/action-$i"]], [], []];
    }
    return $routes;
}

// A small record, or one with the rows of a query's result or what a site has. Each value differs from all others.
function value(int $number, int $rows, string $kind): array
{
    $value = ['number' => $number, 'name' => "visitor $number", 'seen' => 1700000000 + $number];
    if ($kind !== 'rows') {
        return $value + [$kind => $kind($number, $rows)];
    }
    for ($i = 0; $i < $rows; $i++) {
        $id = $number * 1000 + $i;
        $value['rows'][] = ['id' => $id, 'title' => "Article $id of the shop", 'slug' => 'article-' . dechex($id * 2654435761 & 0xffffffff),
            'price' => $id % 997 + 0.25, 'stock' => $id % 41, 'updated' => date('Y-m-d H:i:s', 1700000000 + $id * 61)];
    }
    return $value;
}

final class Work
{
    public array $values = [];
    public array $keys;

    public function __construct(public readonly array $cell)
    {
        for ($i = 0; $i < $cell['keys']; $i++) {
            $this->values["cell:$i"] = value($i, $cell['rows'], $cell['kind']);
        }
        $this->keys = array_keys($this->values);
    }

    public function store(Client $client): void
    {
        $client->clear(); // what is found later is of this turn
        foreach ($this->values as $key => $value) {
            if (!$client->set($key, $value)) {
                throw new RuntimeException("$key cannot be stored");
            }
        }
    }

    // What a client process writes, nobody else does.
    private static function own(int $child, int $i): string
    {
        return "own:$child:$i";
    }

    // [what is timed, what its answer is looked at with]. The look is short: it finds a wrong key, type or number.
    public function operation(Client $client, int $child): array
    {
        [$keys, $values, $count] = [$this->keys, array_values($this->values), count($this->keys)];
        $whole = $this->cell['verify'] === 'every';
        $fits = static fn(mixed $value, int $number): bool => $whole ? $value === $values[$number]
            : is_array($value) && ($value['number'] ?? null) === $number;
        if ($this->cell['operation'] === 'get') {
            return [static fn(int $i): mixed => $client->get($keys[$i % $count]),
                static fn(mixed $answer, int $i): bool => $fits($answer, $i % $count)];
        }
        if ($this->cell['operation'] === 'set') {
            $keys = array_map(static fn(int $i): string => self::own($child, $i), range(0, $count - 1));
            return [static fn(int $i): bool => $client->set($keys[$i % $count], $values[$i % $count]),
                static fn(mixed $answer): bool => $answer === true];
        }
        if ($this->cell['operation'] === 'miss') {
            return [static fn(int $i): mixed => $client->get("absent:$i"), static fn(mixed $answer): bool => $answer === null];
        }
        $size = $this->cell['size'];
        $wanted = array_slice($keys, 0, $size);
        $names = $client->named() ? $wanted : range(0, $size - 1);
        return [static fn(): array => $client->many($wanted), static function (array $answer, int $i) use ($names, $size, $fits, $whole): bool {
            if (count($answer) !== $size) {
                return false;
            }
            foreach ($whole ? range(0, $size - 1) : [0, $i % $size, $size - 1] as $number) {
                if (!$fits($answer[$names[$number]] ?? null, $number)) {
                    return false;
                }
            }
            return true;
        }];
    }

    // Compares every part of this client's share of the values; all clients together see each value.
    public function compare(Client $client, int $child, Count $count): void
    {
        $step = max(1, min($this->cell['processes'], count($this->keys)));
        for ($i = $child % $step; $i < count($this->keys) && !$count->isOver(); $i += $step) {
            $this->compareOne($client, $this->keys[$i], $this->values[$this->keys[$i]], $count);
        }
    }

    // What the timed sets have written.
    public function compareWritten(Client $client, int $child, int $operations, Count $count): void
    {
        $values = array_values($this->values);
        for ($i = 0; $i < min($operations, count($values)) && !$count->isOver(); $i++) {
            $this->compareOne($client, self::own($child, $i), $values[$i], $count);
        }
    }

    private function compareOne(Client $client, string $key, array $value, Count $count): void
    {
        try {
            if ($client->get($key) !== $value) {
                $count->wrong("$key is not the value that was stored");
            }
        } catch (Throwable $error) {
            $count->failed("$key: " . $error->getMessage());
        }
    }
}

// Until the deadline, but once at least, however late it comes to that; times are counted in steps of 16 ns below 65 µs and of about 1 µs above.
function run(Closure $operation, Closure $fits, int $deadline, Count $count): array
{
    [$times, $done] = [[], 0];
    while (($from = hrtime(true)) < $deadline || $done === 0) {
        try {
            $answer = $operation($done);
            $took = hrtime(true) - $from;
            if (!$fits($answer, $done)) {
                $count->wrong("operation $done: not what was stored");
            }
        } catch (Throwable $error) {
            $took = hrtime(true) - $from;
            $count->failed("operation $done: " . $error->getMessage());
        }
        if (($count->failures || $count->wrong) && $count->isOver()) {
            break;
        }
        $step = $took < 65536 ? $took >> 4 : 4096 + ($took >> 10);
        $times[$step] = ($times[$step] ?? 0) + 1;
        $done++;
        unset($answer);
    }
    return [$done, $times, hrtime(true)];
}

function child(Work $work, int $number, $line): void
{
    $count = new Count;
    $result = NOTHING;
    try {
        $client = connect($work->cell);
        if ($work->cell['operation'] !== 'set') { // who has read holds what it may have seen, and cannot write there again
            $work->compare($client, $number, $count);
        }
        [$operation, $fits] = $work->operation($client, $number);
        for ($i = 0; $i < 3 && !$count->isOver(); $i++) { // the first of its kind does what later ones find done
            $fits($operation($i), $i) || $count->wrong("operation $i before the start: not what was stored");
        }
        fwrite($line, "ready\n");
        [$start, $deadline] = json_decode(fgets($line));
        time_nanosleep(0, max(1, $start - hrtime(true)));
        $before = processor_us();
        [$result['operations'], $result['times'], $end] = run($operation, $fits, $deadline, $count);
        $after = processor_us();
        [$result['user_us'], $result['system_us']] = [$after[0] - $before[0], $after[1] - $before[1]];
        $result['elapsed_ns'] = max(1, $end - $start);
        fwrite($line, "done\n");
        fgets($line);
        $work->compare($client, $number, $count);
        if ($work->cell['operation'] === 'set') {
            $work->compareWritten($client, $number, $result['operations'], $count);
        }
    } catch (Throwable $error) {
        $count->failed($error->getMessage());
    }
    $result += ['failures' => $count->failures, 'wrong' => $count->wrong, 'first' => $count->first];
    fwrite($line, json_encode($result, JSON_INVALID_UTF8_SUBSTITUTE) . "\n");
}

function fork(Work $work, int $number): array
{
    [$ours, $theirs] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
    stream_set_timeout($ours, 3600);
    stream_set_timeout($theirs, 3600);
    $pid = pcntl_fork();
    if ($pid === -1) {
        throw new RuntimeException('cannot fork: ' . pcntl_strerror(pcntl_get_last_error()));
    }
    if ($pid === 0) {
        fclose($ours);
        child($work, $number, $theirs);
        exit(0);
    }
    fclose($theirs);
    return ['pid' => $pid, 'line' => $ours, 'result' => null];
}

// The children's next word; one that says something else has its result ready, or has died.
function await(array &$children, string $word): void
{
    foreach ($children as $number => &$child) {
        if ($child['result'] !== null) {
            continue;
        }
        $said = fgets($child['line']);
        if ($said === "$word\n") {
            continue;
        }
        $died = NOTHING + ['failures' => 1, 'wrong' => 0, 'first' => "client process $number ended without a result"];
        $child['result'] = is_string($said) ? json_decode($said, true) ?? $died : $died;
    }
}

function tell(array $children, string $text): void
{
    foreach ($children as $child) {
        if ($child['result'] === null) {
            @fwrite($child['line'], "$text\n");
        }
    }
}

// The share of a time at or below which are $part of all.
function percentile(array $times, float $part): float
{
    ksort($times);
    $wanted = $part * array_sum($times);
    foreach ($times as $step => $count) {
        if (($wanted -= $count) <= 0) {
            return ($step < 4096 ? ($step + 0.5) * 16 : ($step - 4096 + 0.5) * 1024) / 1000;
        }
    }
    return 0.0;
}

function summary(array $results): array
{
    $sum = ['operations' => 0, 'user_us' => 0, 'system_us' => 0, 'failures' => 0, 'wrong' => 0];
    [$times, $rate, $first] = [[], 0.0, null];
    foreach ($results as $result) {
        foreach (array_keys($sum) as $name) {
            $sum[$name] += $result[$name];
        }
        foreach ($result['times'] as $step => $count) {
            $times[$step] = ($times[$step] ?? 0) + $count;
        }
        $rate += $result['operations'] / $result['elapsed_ns'] * 1e9;
        $first ??= $result['first'];
    }
    return $sum + ['per_s' => $rate, 'p50_us' => percentile($times, 0.5), 'p99_us' => percentile($times, 0.99), 'first' => $first];
}

// What the loop itself costs per operation: the same without a cache.
function overhead_ns(Work $work): float
{
    $values = array_values($work->values);
    $count = new Count;
    $from = hrtime(true);
    $fits = static fn(mixed $value, int $i): bool => is_array($value) && ($value['number'] ?? null) === $i % 10;
    [$done] = run(static fn(int $i): mixed => $values[$i % 10], $fits, $from + 2_000_000, $count);
    return (hrtime(true) - $from) / max(1, $done);
}

function turn(Work $work, $control): array
{
    $client = connect($work->cell);
    $work->store($client);
    $client->close(); // a connection is nothing to share with children
    $overhead = overhead_ns($work);
    $children = [];
    for ($i = 0; $i < $work->cell['processes']; $i++) {
        $children[] = fork($work, $i);
    }
    await($children, 'ready');
    fwrite($control, "{\"state\": \"ready\"}\n");
    fgets($control);
    $start = hrtime(true) + 2_000_000 + 20_000 * count($children);
    tell($children, json_encode([$start, $start + (int) ($work->cell['seconds'] * 1e9)]));
    await($children, 'done');
    fwrite($control, "{\"state\": \"done\"}\n");
    fgets($control);
    tell($children, 'check');
    await($children, 'result');
    foreach ($children as $child) {
        pcntl_waitpid($child['pid'], $status);
    }
    return summary(array_column($children, 'result')) + ['overhead_ns' => $overhead, 'bytes' => stored_bytes($work->cell, reset($work->values))];
}

$control = stream_socket_client('unix://' . ($argv[1] ?? $_GET['control']));
stream_set_timeout($control, 3600);
try {
    $result = turn(new Work(json_decode(fgets($control), true)), $control);
} catch (Throwable $error) {
    $result = ['failures' => 1, 'wrong' => 0, 'first' => $error->getMessage()];
}
fwrite($control, json_encode(['state' => 'result'] + $result, JSON_INVALID_UTF8_SUBSTITUTE) . "\n");
