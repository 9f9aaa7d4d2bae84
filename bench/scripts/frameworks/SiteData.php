<?php

namespace App;

/** What the page of bench/cache-frameworks shows, in Symfony and in Laravel: a menu, settings, a list of products, and ten fragments. */
final class SiteData
{
    /** How long making one takes, beside PHP's own time: a query, or the answer of another server. */
    private const WAIT_US = 20_000;

    /**
     * All values, each by $get, which has the key and the function that makes it.
     *
     * @param callable(string, callable): mixed $get
     *
     * @return array<string, mixed>
     */
    public static function all(callable $get): array
    {
        $data = ['menu' => $get('menu', self::making(self::menu(...))), 'products' => $get('products', self::making(self::products(...)))];
        $settings = $get('settings', self::making(self::settings(...)));
        foreach ([3, 150, 399] as $number) {
            $data['settings'][] = $settings["setting.$number"]['label'];
        }
        for ($number = 0; $number < 10; $number++) {
            $data['fragments'][] = $get("fragment$number", self::making(static fn (): string => str_repeat("<p>Fragment $number of the page.</p>", 30)));
        }

        return $data;
    }

    private static function making(callable $make): callable
    {
        return static function () use ($make): mixed {
            usleep(self::WAIT_US);

            return $make();
        };
    }

    /** 26 KB as PHP serializes them. */
    private static function menu(): array
    {
        $points = [];
        for ($i = 0; $i < 150; $i++) {
            $points[] = ['id' => $i, 'label' => "Point $i of the menu", 'url' => '/area-' . intdiv($i, 10) . "/page-$i", 'active' => $i % 7 === 0, 'classes' => ['menu-item', 'level-' . ($i % 10 ? 2 : 1)]];
        }

        return $points;
    }

    /** 4 KB. */
    private static function products(): array
    {
        $rows = [];
        for ($i = 0; $i < 25; $i++) {
            $rows[] = ['id' => 42000 + $i, 'name' => "Article $i of the list", 'price' => 9.99 + $i, 'stock' => $i % 5, 'updated_at' => '2026-11-25 10:00:00'];
        }

        return $rows;
    }

    /** 98 KB, of which a page needs little. */
    private static function settings(): array
    {
        $settings = [];
        for ($i = 0; $i < 400; $i++) {
            $settings["setting.$i"] = ['label' => "Setting $i", 'type' => ['text', 'choice', 'number'][$i % 3], 'default' => "value $i", 'help' => "What setting $i does, in one sentence of some length.", 'options' => ["a$i", "b$i", "c$i"]];
        }

        return $settings;
    }
}
