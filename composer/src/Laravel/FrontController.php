<?php

declare(strict_types=1);

namespace Reprise\Laravel;

/**
 * The text of public/index.php, and the same text with the call of serve() behind the statement that makes the application. It knows the forms of Laravel 8
 * to 13, told apart by PHP's tokens, and refuses every other.
 *
 * @internal
 */
final class FrontController
{
    private const CALL = '\Reprise\Laravel\serve($app);';
    private const BY_HAND = "\$app = require_once __DIR__.'/../bootstrap/app.php';\n" . self::CALL . "\n";
    private const OPENING = ['(', '[', '{', T_CURLY_OPEN, T_DOLLAR_OPEN_CURLY_BRACES, T_ATTRIBUTE];

    /** @var list<\PhpToken> */
    private array $tokens;

    /** @throws \RuntimeException if it is no text of PHP */
    public function __construct(private readonly string $text)
    {
        try {
            $this->tokens = \PhpToken::tokenize($text, TOKEN_PARSE);
        } catch (\ParseError $error) {
            throw new \RuntimeException("line {$error->getLine()} is no PHP: {$error->getMessage()}");
        }
    }

    /** @throws \RuntimeException if it has a form that is not known; the message says what to add by hand */
    public function withCall(): string
    {
        foreach ($this->tokens as $token) {
            if ($token->is([T_NAME_QUALIFIED, T_NAME_FULLY_QUALIFIED]) && strcasecmp(ltrim($token->text, '\\'), 'Reprise\Laravel\serve') === 0) {
                return $this->text;
            }
        }
        $require = $this->require();
        $start = $this->startOf($require);
        $end = $this->endOf($require);
        $this->checkBefore($start);
        $this->checkAfter($require);
        $begin = $this->meaningful($start, $end);
        $edited = match (true) {
            // $app = require_once …;
            $begin[0]->is(T_VARIABLE) && $begin[1]->text === '=' && $begin[2] === $this->tokens[$require] && $this->tokens[$end]->text === ';' =>
                $this->behind($end, str_replace('$app', $begin[0]->text, self::CALL)),
            // (require_once …)->handleRequest(…);
            $begin[0]->text === '(' && $begin[1] === $this->tokens[$require] && $this->tokens[$end]->text === ')' => $this->split($start, $end),
            default => throw $this->unknown("line {$this->tokens[$require]->line} does something else with bootstrap/app.php than Laravel's own index.php"),
        };
        \PhpToken::tokenize($edited, TOKEN_PARSE);

        return $edited;
    }

    /** The place of the one `require` of bootstrap/app.php. */
    private function require(): int
    {
        $found = [];
        $depth = 0;
        foreach ($this->tokens as $at => $token) {
            $depth += $this->step($token);
            if (!$token->is([T_REQUIRE, T_REQUIRE_ONCE, T_INCLUDE, T_INCLUDE_ONCE])) {
                continue;
            }
            foreach (array_slice($this->tokens, $at, $this->endOf($at) - $at) as $part) {
                if ($part->is(T_CONSTANT_ENCAPSED_STRING) && str_ends_with(substr($part->text, 1, -1), 'bootstrap/app.php')) {
                    $found[$at] = $depth;
                }
            }
        }
        $at = array_key_first($found);
        if (count($found) !== 1) {
            throw $this->unknown($at === null ? 'no line of it requires bootstrap/app.php' : 'several lines of it require bootstrap/app.php');
        }
        if ($found[$at] > 1 || $this->step($this->tokens[$this->startOf($at)]) !== $found[$at]) {
            throw $this->unknown("line {$this->tokens[$at]->line} requires bootstrap/app.php within something else");
        }

        return $at;
    }

    /** What the script reads of its request before the call, it would read once, of the boot's. */
    private function checkBefore(int $start): void
    {
        foreach (array_slice($this->tokens, 0, $start) as $token) {
            if ($token->is(['$_SERVER', '$_GET', '$_POST', '$_COOKIE', '$_FILES', '$_REQUEST', 'capture', 'createFromGlobals'])) {
                throw $this->unknown("line $token->line reads the request ($token->text) before the application is made: from a snapshot that is the request of the boot, for all visitors. Move it below");
            }
        }
    }

    /** Lumen, say, has the same line, and no kernel. */
    private function checkAfter(int $require): void
    {
        $names = array_map(static fn (\PhpToken $token): string => $token->text, array_slice($this->tokens, $require));
        if (!in_array('handleRequest', $names, true) && !(in_array('handle', $names, true) && preg_grep('/(^|\\\\)Kernel$/', $names))) {
            throw $this->unknown('it gives no request to a kernel of Laravel');
        }
    }

    /** The text with a line behind that of the token. */
    private function behind(int $end, string $line): string
    {
        // A comment stays on its line.
        while (($next = $this->tokens[$end + 1] ?? null) && (str_starts_with($next->text, '//') || $next->is(T_WHITESPACE) && !str_contains($next->text, "\n"))) {
            ++$end;
        }

        return $this->before($end + 1) . $this->newline() . $line . $this->from($end + 1);
    }

    /** The text with a variable for what is between the parentheses. */
    private function split(int $start, int $end): string
    {
        foreach ($this->tokens as $token) {
            if ($token->is(T_VARIABLE) && $token->text === '$app') {
                throw $this->unknown("line $token->line uses \$app for something else");
            }
        }
        $next = $end + 1;
        if ($this->tokens[$next]->is(T_WHITESPACE)) {
            ++$next;
        }
        $newline = $this->newline();
        $made = substr($this->text, $this->tokens[$start]->pos + 1, $this->tokens[$end]->pos - $this->tokens[$start]->pos - 1);

        return $this->before($start) . '$app = ' . trim($made) . ';' . $newline . self::CALL . $newline . $newline . '$app' . $this->from($next);
    }

    /** Where the statement begins that has the token. */
    private function startOf(int $at): int
    {
        $start = $at;
        while ($start > 0 && !$this->tokens[$start - 1]->is([';', '{', '}', T_OPEN_TAG, T_CLOSE_TAG])) {
            --$start;
        }
        while ($start < $at && $this->tokens[$start]->isIgnorable()) {
            ++$start;
        }

        return $start;
    }

    /** Where the expression ends that begins there: at what closes it. */
    private function endOf(int $at): int
    {
        for ($depth = 0, $end = $at; $end < count($this->tokens) - 1; ++$end) {
            $depth += $this->step($this->tokens[$end]);
            if ($depth < 0 || $depth === 0 && $this->tokens[$end]->is([';', ',', T_CLOSE_TAG])) {
                break;
            }
        }

        return $end;
    }

    private function step(\PhpToken $token): int
    {
        return $token->is(self::OPENING) ? 1 : ($token->is([')', ']', '}']) ? -1 : 0);
    }

    /** @return list<\PhpToken> the first three of these tokens that are no space and no comment */
    private function meaningful(int $start, int $end): array
    {
        $all = array_filter(array_slice($this->tokens, $start, $end - $start + 1), static fn (\PhpToken $token): bool => !$token->isIgnorable());

        return array_slice($all, 0, 3);
    }

    private function before(int $at): string
    {
        return substr($this->text, 0, $this->tokens[$at]->pos ?? strlen($this->text));
    }

    private function from(int $at): string
    {
        return isset($this->tokens[$at]) ? substr($this->text, $this->tokens[$at]->pos) : '';
    }

    private function newline(): string
    {
        return str_contains($this->text, "\r\n") ? "\r\n" : "\n";
    }

    private function unknown(string $why): \RuntimeException
    {
        return new \RuntimeException("$why\nhint: have it make the application by these two lines, and use \$app below them:\n" . self::BY_HAND);
    }
}
