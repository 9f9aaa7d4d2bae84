<?php
// What code names and PHP does not have, for `reprise doctor`: part of what tokens.php finds. Which of it the application itself declares is
// known when all of its files have been read.

namespace Reprise\Doctor;

trait Missing
{
    /** @var array<string, array> Kind, name and line of what PHP lacks, once a file. */
    private array $missing = [];
    /** @var array<int, true> Tokens of types and lists of classes: no constants. */
    private array $types = [];
    /** Up to here an error is caught. */
    private int $caughtUntil = -1;
    /** @var list<int> For each open string, the number of open braces. */
    private array $quotes = [];

    /** A name that code uses: what versions have changed, and what PHP lacks. */
    private function meet(string $kind, string $name, int $line, ?string $shown = null): void
    {
        $family = strstr($name, '_', true) . '_*';
        if (isset($this->names[$kind][$name]) || isset($this->names[$kind][$family])) {
            $this->use($kind, $name, $line);
        } elseif ($this->has !== null && !isset($this->has[$kind][$name]) && !$this->isCaught()) {
            $this->missing["$kind $name"] ??= [$kind, $shown ?? $name, $line];
        }
    }

    private function isCaught(): bool
    {
        return $this->at <= $this->caughtUntil;
    }

    /** At `try`: how far an error that is thrown there is caught. */
    private function catching(int $at): void
    {
        $end = $at = $this->closing($at + 1);
        while ($this->is($at + 1, [T_CATCH])) {
            for ($at += 2; isset($this->tokens[$at]) && $this->tokens[$at]->text !== '{'; $at++) {
                if (preg_match('/(?:^|\\\\)(?:error|throwable)$/i', $this->tokens[$at]->text)) {
                    $this->caughtUntil = max($this->caughtUntil, $end);
                    return;
                }
            }
            $at = $this->closing($at);
        }
    }

    /** The token that closes the brace, bracket or parenthesis at a token. */
    private function closing(int $at): int
    {
        $depth = 0;
        for (; isset($this->kinds[$at]); $at++) {
            $kind = $this->kinds[$at];
            if (in_array($kind, ['(', '[', '{', T_CURLY_OPEN, T_DOLLAR_OPEN_CURLY_BRACES, T_ATTRIBUTE], true)) {
                $depth++;
            } elseif (in_array($kind, [')', ']', '}'], true) && --$depth <= 0) {
                return $at;
            }
        }
        return count($this->tokens);
    }

    private function markTypes(int $from, int $to): void
    {
        for ($at = $from; $at <= $to; $at++) {
            $this->types[$at] = true;
        }
    }

    private function until(int $at, array $ends): int
    {
        while (isset($this->kinds[$at]) && !in_array($this->kinds[$at], $ends, true)) {
            $at++;
        }
        return $at;
    }

    /** Where the types of a declaration are, and other lists of names that are no constants. */
    private function lists(int $at): void
    {
        switch ($this->tokens[$at]->id) {
            case T_FUNCTION:
            case T_FN:
                $open = $this->until($at, ['(', ';', '}']);
                if (!$this->is($open, ['('])) {
                    return;
                }
                $close = $this->closing($open);
                // What stands behind `=` is an expression.
                for ($next = $open + 1; $next < $close; $next++) {
                    if ($this->is($next, ['='])) {
                        for ($next++; $next < $close && !$this->is($next, [',']); $next++) {
                            $next = $this->is($next, ['(', '[']) ? $this->closing($next) : $next;
                        }
                    }
                    $this->types[$next] = true;
                }
                if ($this->is($close + 1, [T_USE])) {
                    $close = $this->closing($close + 2);
                }
                if ($this->is($close + 1, [':'])) {
                    $this->markTypes($close + 1, $this->until($close, ['{', ';', T_DOUBLE_ARROW]));
                }
                return;
            case T_EXTENDS:
            case T_IMPLEMENTS:
                $this->markTypes($at, $this->until($at, ['{']));
                return;
            case T_CATCH:
            case T_DECLARE:
                $this->markTypes($at, $this->closing($at + 1));
                return;
            case T_ATTRIBUTE:
                $this->markTypes($at, $this->closing($at));
                return;
            case T_USE:
            case T_INSTEADOF:
            case T_NAMESPACE:
                if (!$this->is($at + 1, ['('])) {
                    $this->markTypes($at, $this->until($at, [';', '{']));
                }
                return;
            case T_PUBLIC:
            case T_PROTECTED:
            case T_PRIVATE:
            case T_VAR:
            case T_READONLY:
            case T_CONST:
                $this->markTypes($at, $this->until($at, [T_VARIABLE, T_FUNCTION, T_CONST, '=', ';', ')']) - 1);
                return;
        }
    }

    /** Strings are open: in "$a[key]" the key is a text. In "{$a[key]}" it is a constant. */
    private function quote(\PhpToken $token): void
    {
        $depth = count($this->braces);
        $isOpen = $this->quotes && end($this->quotes) === $depth;
        if ($token->id === T_START_HEREDOC || (!$isOpen && ($token->text === '"' || $token->text === '`'))) {
            $this->quotes[] = $depth;
        } elseif ($token->id === T_END_HEREDOC || ($isOpen && ($token->text === '"' || $token->text === '`'))) {
            array_pop($this->quotes);
        }
    }

    /** Whether a bare word is a constant in an expression. */
    private function isConstant(int $at): bool
    {
        static $before = null, $behind = null;
        $before ??= array_flip(['(', ',', '=', '[', '.', '+', '-', '*', '/', '%', '|', '&', '^', '~', '!', '<', '>', '?', ':', '@', T_DOUBLE_ARROW,
            T_RETURN, T_ECHO, T_PRINT, T_OPEN_TAG_WITH_ECHO, T_CASE, T_BOOLEAN_AND, T_BOOLEAN_OR, T_LOGICAL_AND, T_LOGICAL_OR, T_LOGICAL_XOR,
            T_IS_EQUAL, T_IS_NOT_EQUAL, T_IS_IDENTICAL, T_IS_NOT_IDENTICAL, T_IS_SMALLER_OR_EQUAL, T_IS_GREATER_OR_EQUAL, T_SPACESHIP,
            T_COALESCE, T_COALESCE_EQUAL, T_PLUS_EQUAL, T_MINUS_EQUAL, T_CONCAT_EQUAL, T_OR_EQUAL, T_AND_EQUAL, T_SL, T_SR, T_POW, T_INT_CAST,
            T_STRING_CAST, T_BOOL_CAST, T_REQUIRE, T_REQUIRE_ONCE, T_INCLUDE, T_INCLUDE_ONCE, T_EXIT, T_AMPERSAND_NOT_FOLLOWED_BY_VAR_OR_VARARG]);
        $behind ??= array_flip([')', ',', ';', ']', '.', '+', '-', '*', '/', '%', '|', '&', '^', '<', '>', '?', ':', T_DOUBLE_ARROW, T_CLOSE_TAG,
            T_BOOLEAN_AND, T_BOOLEAN_OR, T_LOGICAL_AND, T_LOGICAL_OR, T_LOGICAL_XOR, T_IS_EQUAL, T_IS_NOT_EQUAL, T_IS_IDENTICAL,
            T_IS_NOT_IDENTICAL, T_IS_SMALLER_OR_EQUAL, T_IS_GREATER_OR_EQUAL, T_SPACESHIP, T_COALESCE, T_SL, T_SR, T_POW,
            T_AMPERSAND_NOT_FOLLOWED_BY_VAR_OR_VARARG, T_AMPERSAND_FOLLOWED_BY_VAR_OR_VARARG]);
        if (isset($this->types[$at]) || !isset($before[$this->kinds[$at - 1] ?? '']) || !isset($behind[$this->kinds[$at + 1] ?? ''])) {
            return false;
        }
        if ($this->quotes && end($this->quotes) === count($this->braces)) {
            return false;
        }
        // An argument's name; a case of an enumeration.
        $isName = $this->is($at + 1, [':']) && $this->is($at - 1, ['(', ',']);
        $isCase = $this->is($at - 1, [T_CASE]) && end($this->braces) === 'class';
        return !$isName && !$isCase && !in_array(strtolower($this->tokens[$at]->text), ['true', 'false', 'null', 'self', 'parent'], true);
    }

    /** The text of a whole argument that is one literal. */
    private function literal(int $at): ?string
    {
        $isWhole = $this->is($at, [T_CONSTANT_ENCAPSED_STRING]) && $this->is($at + 1, [',', ')']);
        return $isWhole ? $this->unquoted($at) : null;
    }

    private function unquoted(int $at): string
    {
        return str_replace(['\\\\', "\\'"], ['\\', "'"], substr($this->tokens[$at]->text, 1, -1));
    }

    /** What a call declares: constants by define(), classes by class_alias(). `p` is the beginning of a computed name. */
    private function declaring(string $called, int $at): void
    {
        if ($called === 'define') {
            $name = $this->literal($at);
            $start = $this->is($at, ['"']) ? $at + 1 : $at;
            $begin = $this->is($start, [T_CONSTANT_ENCAPSED_STRING]) ? $this->unquoted($start) : '';
            $begin = $this->is($start, [T_ENCAPSED_AND_WHITESPACE]) ? $this->tokens[$start]->text : $begin;
            $this->declared[] = $name !== null ? ['k', ltrim($name, '\\')] : ['p', $begin];
        } elseif ($called === 'class_alias') {
            $at = $this->until($at, [',', ';']) + 1;
            $name = $this->literal($at);
            if ($name === null && $this->is($at + 1, [T_DOUBLE_COLON])) {
                $name = $this->resolve($this->tokens[$at]);
            }
            if ($name !== null) {
                $this->declared[] = ['c', ltrim($name, '\\')];
            }
        }
    }

    /** What PHP code in a text declares: what eval() runs, and files that an installer writes. */
    private function inText(string $text): void
    {
        if (strlen($text) < 12 || !preg_match('/define|function|class/i', $text)) {
            return;
        }
        $pattern = '/\bdefine\(\s*\\\\*[\'"](\w+)|\bfunction\s+&?(\w+)\s*\(|\bclass\s+(\w+)[^{};]*\{/i';
        preg_match_all($pattern, $text, $found, PREG_SET_ORDER | PREG_UNMATCHED_AS_NULL);
        foreach ($found as [, $constant, $function, $class]) {
            $this->declared[] = $constant !== null ? ['k', $constant] : ($function !== null ? ['f', $function] : ['c', $class]);
        }
    }

    /** The last part of the path of a file that is included. */
    private function included(int $at): void
    {
        $end = $this->until($at, [';', T_CLOSE_TAG]);
        for ($last = $end - 1; $last > $at; $last--) {
            if ($this->is($last, [T_CONSTANT_ENCAPSED_STRING])) {
                // An absolute path is the whole of it.
                $path = $this->is($last - 1, ['.']) ? ltrim($this->unquoted($last), '/') : $this->unquoted($last);
                if (preg_match('/\.\w+$/', $path)) {
                    $this->fact('include', $this->tokens[$at]->line, $path);
                }
                return;
            }
            if (!$this->is($last, [')'])) {
                return;
            }
        }
    }
}
