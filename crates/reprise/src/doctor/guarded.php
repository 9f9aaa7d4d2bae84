<?php
// Whether a call at the top of a file runs for anybody who asks for the file, for `reprise doctor`: part of what tokens.php finds.

namespace Reprise\Doctor;

trait Guarded
{
    /** What conditions may name besides literals and what the client sends, and still guard nothing. */
    private const NO_GUARD = ['$_GET', '$_POST', '$_REQUEST', 'isset', 'empty', 'true', 'false', 'null', 'defined', 'function_exists',
        'extension_loaded', 'phpversion', 'version_compare', 'php_version', 'php_version_id', 'ini_get', 'in_array', 'strtolower', 'trim',
        'phpinfo'];
    private const GUARD = '/auth|login|logged|admin|permission|privilege|access|guard|session|user|allow|restrict|protect|require|check|token|can$/i';

    /** @var list<array{int, int}> The bodies of functions and classes. */
    private ?array $bodies = null;

    /** The calls of phpinfo() that anybody reaches who asks for this file: at its top, or in a function that is called there, without a guard. */
    private function shown(): void
    {
        if (stripos($this->source, 'phpinfo') === false) {
            return;
        }
        foreach ($this->tokens as $at => $token) {
            if (strtolower(ltrim($token->text, '\\')) !== 'phpinfo' || !$this->is($at + 1, ['('])) {
                continue;
            }
            $body = $this->body($at);
            $calls = $body === null ? [$at] : $this->callsOf($body);
            foreach ($calls as $call) {
                if (!$this->isGuarded($call) && ($body === null || !$this->isGuarded($at, $body[0]))) {
                    $this->facts[] = ['call', $token->line, 0, 'phpinfo'];
                    return;
                }
            }
        }
    }

    /** The function or class around a token, from its head to its end: the outermost one. */
    private function body(int $at): ?array
    {
        if ($this->bodies === null) {
            $this->bodies = [];
            for ($next = 0; $next < count($this->tokens); $next++) {
                $isClass = $this->is($next, [T_CLASS, T_TRAIT, T_INTERFACE, T_ENUM]) && !$this->is($next - 1, [T_DOUBLE_COLON]);
                if ($isClass || ($this->is($next, [T_FUNCTION]) && !$this->is($next - 1, [T_USE]))) {
                    $open = $this->until($next, ['{', ';']);
                    $end = $this->is($open, ['{']) ? $this->closing($open) : $open;
                    $this->bodies[] = [$next, $end];
                    $next = $end;
                }
            }
        }
        foreach ($this->bodies as $body) {
            if ($body[0] <= $at && $at <= $body[1]) {
                return $body;
            }
        }
        return null;
    }

    /** Where the file itself calls a function of its own. */
    private function callsOf(array $body): array
    {
        $name = $this->tokens[$body[0] + 1] ?? null;
        if (!$this->is($body[0], [T_FUNCTION]) || !$name?->is([T_STRING])) {
            return [];
        }
        $isCall = fn ($at) => strcasecmp($this->tokens[$at]->text, $name->text) === 0 && $this->is($at + 1, ['(']) && $this->body($at) === null;
        return array_values(array_filter(array_keys($this->tokens), $isCall));
    }

    /** Whether something between a place and a call may keep strangers from it: a condition of who they are, or a call that may end the request. */
    private function isGuarded(int $call, int $from = -1): bool
    {
        for ($at = $from + 1; $at < $call; $at++) {
            $body = $from < 0 ? $this->body($at) : null;
            if ($body !== null) {
                $at = $body[1];
                continue;
            }
            if ($this->is($at, [T_IF, T_ELSEIF, T_SWITCH, T_MATCH, T_WHILE]) && $this->is($at + 1, ['('])) {
                $close = $this->closing($at + 1);
                $next = $close + 1;
                $end = $this->is($next, ['{']) ? $this->closing($next) : $this->until($next, [';', T_ENDIF]);
                $ends = $next <= $call && $call <= $end;
                for ($inside = $next; !$ends && $inside < $end; $inside++) {
                    $ends = $this->is($inside, [T_EXIT, T_RETURN, T_THROW]);
                }
                if ($ends && $this->isAboutWho($at + 2, $close)) {
                    return true;
                }
                // What ends the request within a block ends it there alone.
                $at = $call > $end ? $end : $close;
            } elseif ($this->is($at, [T_EXIT, T_RETURN, T_THROW])) {
                // `$user or die;` and `defined('X') || exit;` are of what is not asked for by a URL.
                return true;
            } elseif ($this->is($at, [T_STRING]) && $this->is($at + 1, ['(']) && preg_match(self::GUARD, $this->tokens[$at]->text) && !$this->is($at - 1, [T_NEW])) {
                return true;
            }
        }
        return false;
    }

    /** Whether a condition asks for more than what any client may send. */
    private function isAboutWho(int $from, int $to): bool
    {
        for ($at = $from; $at < $to; $at++) {
            $isName = $this->is($at, [T_VARIABLE, T_STRING, T_NAME_FULLY_QUALIFIED, T_NAME_QUALIFIED, T_ISSET, T_EMPTY]);
            if ($isName && !in_array($this->tokens[$at]->text, self::NO_GUARD, true) && !in_array(strtolower(ltrim($this->tokens[$at]->text, '\\')), self::NO_GUARD, true)) {
                return true;
            }
        }
        return false;
    }
}
