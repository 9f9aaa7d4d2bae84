<?php

use Illuminate\Contracts\Routing\UrlRoutable;
use Illuminate\Routing\Route as DrawnRoute;
use Illuminate\Routing\RouteCollection;
use Illuminate\Routing\UrlGenerator;
use Illuminate\Support\Str;
use Reprise\Laravel\RouteUrls;

/** What only a request's route asks of a model. */
trait DrawnUnbound
{
    public function getRouteKeyName()
    {
        return 'id';
    }

    public function resolveRouteBinding($value, $field = null)
    {
        return null;
    }

    public function resolveChildRouteBinding($childType, $value, $field)
    {
        return null;
    }
}

enum DrawnCase: string
{
    case One = 'one';
}

enum DrawnRoutable: string implements UrlRoutable
{
    use DrawnUnbound;

    case Two = 'two';

    public function getRouteKey()
    {
        return 'key';
    }
}

final class DrawnModel implements UrlRoutable
{
    use DrawnUnbound;

    public string $slug = 'a-slug';

    public function __construct(private mixed $key)
    {
    }

    public function getRouteKey()
    {
        DrawnUrls::$calls += is_string($this->key);

        return $this->key;
    }
}

/** Makes URLs of routes and parameters that are drawn by lot, with the generator of the request and with one that is Laravel's alone. */
final class DrawnUrls
{
    public static int $calls = 0;

    private const LITERALS = ['post', 'a', 'a-b', 'x.y', 'a/b', '~', 'ü', 'a b', '%41', '{', '}', '?', '#', '//', ':', '@', "a'b", '', ' '];
    private const NAMES = ['{a}', '{b}', '{c}', '{c_1}', '{a?}', '{b?}', '{0}', '{1a}', '{a:slug}', '{b:slug}', '{ü}', '{a-b}', '{}'];
    private const ROOTS = ['http://h', 'https://www.example.org', 'http://h:8080', 'http://h:99999', 'http://h/base', 'http://h/base/', 'http://h/{a}',
        'http://h/{a?}', 'http://[::1]:80', 'http://h#f', 'http://h?q', 'ftp://h', '//h', 'h', '', 'http://h%41', 'http://H.ü', 'https:///h', 'http://u:p@h'];
    private const TEXTS = ['5', '0', 'word', 'a-b_c.d~e', 'a/b', '/a/', '//', '', 'a b', 'ü', 'a%2Fb', '{a}', '{a?}', '{', '}', '?q=1', '#f', '&', "\n", '$1', '\\1', ':', '..'];

    /** @return array<string, mixed> how many were compared, how many were made plainly, and those that differ */
    public static function compare(int $seed, int $count): array
    {
        mt_srand($seed);
        $routes = new RouteCollection();
        [$differ, $plain, $thrown] = [[], 0, 0];
        for ($i = 0; $i < $count; $i++) {
            $generator = new UrlGenerator($routes, request());
            $route = self::route();
            $parameters = self::parameters($route);
            $arrange = self::arrangement();
            // A generator that is of this request, and replaced as the application's own is.
            [$ours, $theirs] = [clone $generator, clone $generator];
            Closure::bind(fn () => self::replaceIn($ours), null, RouteUrls::class)();
            $copied = mt_rand(0, 5);
            $copies = array_map(static fn ($one) => self::copy($one, $copied), [$ours, $theirs]);
            array_map($arrange, $copies);
            // Relative ones are Laravel's; two absolute ones find what the first has remembered.
            foreach ([[$copies, true], [$copies, true], [$copies, false], [[$ours, $theirs], true]] as [$pair, $absolute]) {
                $results = array_map(fn ($one) => self::result($one, $route, $parameters, $absolute), $pair);
                $thrown += $results[1][0] === '!';
                if ($results[0] !== $results[1]) {
                    $differ[] = [$route->uri(), print_r($parameters, true), "copied: $copied", ...$results];
                }
            }
            $plain += self::isPlain($copies[0], $route, $parameters);
        }

        $own = Closure::bind(fn () => app('url')->routeUrl()::class, null, UrlGenerator::class)();

        return ['own' => $own, 'compared' => $count, 'plain' => $plain, 'thrown' => $thrown, 'differ' => array_slice($differ, 0, 5)];
    }

    /** The generator itself, or a copy that was made before or after its first use. */
    private static function copy(UrlGenerator $urls, int $how): UrlGenerator
    {
        if ($how === 1) {
            $urls->toRoute(new DrawnRoute('GET', 'first', ['uses' => fn () => '']), [], true);
        } elseif ($how === 2) {
            $urls->defaults(['c' => 'three']);
        }

        return $how < 4 ? clone $urls : $urls;
    }

    /** With the defaults of the generator, what the route has remembered, and how often a model was asked for its key, or a host or path formatted. */
    private static function result(UrlGenerator $urls, DrawnRoute $route, mixed $parameters, bool $absolute): string
    {
        [$route, self::$calls] = [clone $route, 0];
        try {
            $result = '=' . $urls->toRoute($route, $parameters, $absolute);
        } catch (Throwable $error) {
            $result = '!' . $error::class . ': ' . $error->getMessage();
        }

        return $result . json_encode([$urls->getDefaultParameters(), $route->parameterNames, self::$calls], JSON_INVALID_UTF8_SUBSTITUTE);
    }

    private static function isPlain(UrlGenerator $urls, DrawnRoute $route, mixed $parameters): bool
    {
        try {
            $maker = Closure::bind(fn () => $urls->routeUrl(), null, UrlGenerator::class)();
            $values = $urls->formatParameters($parameters);

            return Closure::bind(fn () => $maker->plain($route, $values) !== null, null, RouteUrls::class)();
        } catch (Throwable) {
            return false;
        }
    }

    private static function one(array $of): mixed
    {
        return $of[mt_rand(0, count($of) - 1)];
    }

    /** Most are plain in most of what they have: else hardly one would be plain in all. */
    private static function mostly(mixed $plain, array $others): mixed
    {
        return mt_rand(0, 19) < 18 ? $plain : self::one($others);
    }

    private static function route(): DrawnRoute
    {
        $parts = [];
        for ($i = mt_rand(0, 4); $i > 0; $i--) {
            $parts[] = mt_rand(0, 1) ? self::mostly('post', self::LITERALS) : self::mostly(self::one(['{a}', '{b}', '{c_1}']), self::NAMES);
        }
        $uri = implode(self::mostly('/', ['', '-', '//']), $parts);
        $action = self::mostly([], [['domain' => 'x.test'], ['domain' => '{a}.test'], ['http'], ['https']]);
        $route = new DrawnRoute('GET', $uri, ['uses' => fn () => ''] + $action);
        if (mt_rand(0, 9) === 0) {
            // It keeps the names that it had.
            $route->parameterNames();
            $route->setUri(self::one(['{b}/{a}', 'post/{d}', '{a}', 'post']));
        }

        return $route;
    }

    private static function value(): mixed
    {
        return self::mostly(self::one([5, '17', 'word', 'a-b.c', new DrawnModel(7)]), [...self::TEXTS, -1, 0, 1.5, true, false, null, ['x'], DrawnCase::One, DrawnRoutable::Two,
            new DrawnModel('a b'), new DrawnModel(null), new DrawnModel('{b}'), Str::of('text'), new DateTime('@0')]);
    }

    private static function parameters(DrawnRoute $route): mixed
    {
        preg_match_all('/\{(\w+)\??\}/', $route->uri(), $found);
        $names = self::mostly($found[1], [['a'], ['b', 'a'], ['a', 'x']]);
        if (count($names) === 1 && mt_rand(0, 1)) {
            return self::value();
        }
        $parameters = [];
        $isNamed = mt_rand(0, 1);
        foreach ($names as $at => $name) {
            $key = self::mostly($isNamed ? $name : $at, ['a', 'b', 'c', 'd', '0', 1, 7, 'a:slug', 'ü', '']);
            $parameters[$key] = self::value();
        }

        return self::mostly($parameters, [array_reverse($parameters, true), $parameters + ['x' => 'y'], [...array_values($parameters), 8], []]);
    }

    /** Something done to a generator, the same for each. */
    private static function arrangement(): Closure
    {
        $root = self::mostly(null, self::ROOTS);
        $scheme = self::mostly(null, ['https', 'http']);
        $defaults = self::mostly([], [['a' => 'one'], ['b' => ''], ['d' => 'four'], ['a:slug' => 'of-slug']]);
        $hosts = self::mostly(null, [fn ($root) => $root, fn ($root) => $root . '.more', fn () => 'http://h/{a}']);
        $paths = self::mostly(null, [fn ($path) => $path, fn ($path) => "/en$path", fn ($path) => "$path?x", fn ($path) => "$path{a}"]);

        return function (UrlGenerator $urls) use ($root, $scheme, $defaults, $hosts, $paths): void {
            $root === null || $urls->forceRootUrl($root);
            $scheme === null || $urls->forceScheme($scheme);
            $defaults === [] || $urls->defaults($defaults);
            $counted = static fn (Closure $format) => static fn ($text) => $format($text) . substr('', ++self::$calls);
            $hosts === null || $urls->formatHostUsing($counted($hosts));
            $paths === null || $urls->formatPathUsing($counted($paths));
        };
    }
}
