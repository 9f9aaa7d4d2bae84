<?php
declare(strict_types=1);

namespace Guestbook;

/** Text for HTML, Atom and their attributes. */
function h(string|int $text): string
{
    return htmlspecialchars((string) $text, ENT_QUOTES | ENT_SUBSTITUTE | ENT_XML1, 'UTF-8');
}

/** The views see $vars as their variables and nothing else. */
function render(string $view, array $vars): string
{
    return (static function (string $__view, array $__vars): string {
        extract($__vars);
        ob_start();
        require __DIR__ . "/views/$__view.php";
        return ob_get_clean();
    })($view, $vars);
}

/** One of six colours, always the same for the same name. */
function hue(string $name): string
{
    return 'hue-' . crc32($name) % 6;
}

function initial(string $name): string
{
    return preg_match('/[\p{L}\p{N}]/u', $name, $match) === 1 ? $match[0] : '·';
}

function when(int $time): string
{
    return gmdate('j F Y, H:i', $time) . ' UTC';
}
