<?php
// Forms of the language that a version of PHP has changed, for `reprise doctor`: part of what tokens.php finds.

namespace Reprise\Doctor;

trait Forms
{
    private function language(int $at): void
    {
        $token = $this->tokens[$at];
        switch ($token->id) {
            case T_DOLLAR_OPEN_CURLY_BRACES:
                $this->use('language', 'dollar-brace', $token->line);
                return;
            case T_BOOL_CAST:
            case T_INT_CAST:
            case T_DOUBLE_CAST:
            case T_STRING_CAST:
                $cast = strtolower(preg_replace('/\s/', '', $token->text));
                if (in_array($cast, ['(boolean)', '(integer)', '(double)', '(binary)'], true)) {
                    $this->use('language', 'cast ' . trim($cast, '()'), $token->line);
                }
                return;
            case T_STATIC:
                if ($this->is($at + 1, [T_VARIABLE]) && $this->in() === 'function' && $this->is($at - 1, [';', '{', '}', ':', ')', T_ELSE])) {
                    $this->fact('static', $token->line, $this->tokens[$at + 1]->text);
                }
                return;
            case T_GLOBAL:
                if (in_array('function', $this->braces, true)) {
                    $this->fact('global', $token->line, $this->tokens[$at + 1]->text ?? '');
                }
                return;
            case T_EXIT:
                if (!$this->is($at - 1, [T_OBJECT_OPERATOR, T_NULLSAFE_OBJECT_OPERATOR, T_DOUBLE_COLON, T_FUNCTION])) {
                    $this->fact('exit', $token->line, strtolower($token->text));
                }
                return;
            case T_VARIABLE:
                $this->variable($at);
                return;
        }
        if ($token->id === ord('`')) {
            $this->isInShell = !$this->isInShell;
            if ($this->isInShell) {
                $this->use('language', 'backticks', $token->line);
            }
        }
    }

    private bool $isInShell = false;

    /** What a request alone brings; of the host, only the boot itself can tell whether all visitors have the same. */
    private const OF_REQUEST = ['REQUEST_TIME', 'REQUEST_TIME_FLOAT', 'REQUEST_METHOD', 'REQUEST_URI', 'QUERY_STRING', 'REMOTE_ADDR', 'REMOTE_USER',
        'PHP_AUTH_USER', 'HTTP_COOKIE', 'HTTP_X_FORWARDED_FOR', 'HTTP_USER_AGENT', 'HTTP_REFERER', 'HTTP_ACCEPT_LANGUAGE'];

    /** A constant or variable of the file itself that is made of the request: `$now = $_SERVER['REQUEST_TIME'];`. */
    private function request(int $at): void
    {
        $name = $this->tokens[$at]->text;
        $key = trim($this->tokens[$at + 2]->text ?? '', '\'"');
        if (!($name === '$_COOKIE' || ($name === '$_SERVER' && in_array($key, self::OF_REQUEST, true))) || !$this->is($at + 1, ['['])) {
            return;
        }
        $start = $at;
        while ($start > 0 && !$this->is($start - 1, [';', '{', '}', ':', T_OPEN_TAG])) {
            $start--;
        }
        $isConstant = strtolower($this->tokens[$start]->text) === 'define';
        $isVariable = $this->is($start, [T_VARIABLE]) && !str_starts_with($this->tokens[$start]->text, '$_') && $this->is($start + 1, ['=']);
        $isProperty = $this->is($start + 1, [T_DOUBLE_COLON]) && $this->is($start + 2, [T_VARIABLE]) && $this->is($start + 3, ['=']);
        if ($isConstant || $isVariable || $isProperty) {
            $this->fact('request', $this->tokens[$at]->line, $name === '$_COOKIE' ? $name : "{$name}['$key']");
        }
    }

    /** A static property or a global variable that is written. */
    private function variable(int $at): void
    {
        $token = $this->tokens[$at];
        if ($token->text === '$http_response_header') {
            $this->use('language', 'response-header', $token->line);
        }
        if (in_array($token->text, self::OLD, true) && !$this->is($at - 1, [T_DOUBLE_COLON])) {
            $this->old($at);
        }
        $this->request($at);
        $isProperty = $this->is($at - 1, [T_DOUBLE_COLON]) && $this->is($at - 2, [T_STRING, T_STATIC, T_NAME_QUALIFIED, T_NAME_FULLY_QUALIFIED]);
        $isGlobal = $token->text === '$GLOBALS' && $this->is($at + 1, ['[']);
        if ((!$isProperty && !$isGlobal) || !in_array('function', $this->braces, true)) {
            return;
        }
        $next = $at + 1;
        while ($this->is($next, ['['])) {
            $depth = 0;
            do {
                $depth += match ($this->tokens[$next]->text ?? null) { '[' => 1, ']' => -1, null => -$depth, default => 0 };
                $next++;
            } while ($depth > 0);
        }
        if ($this->is($next, ['=', T_PLUS_EQUAL, T_MINUS_EQUAL, T_CONCAT_EQUAL, T_COALESCE_EQUAL, T_OR_EQUAL, T_AND_EQUAL, T_INC, T_DEC])) {
            $name = $isProperty ? $this->tokens[$at - 2]->text . '::' . $token->text : '$GLOBALS';
            $this->fact($isProperty ? 'static-property' : 'globals', $token->line, $name);
        }
    }

    /** Parameters with a type and the default null, whose type does not say null. */
    private function parameters(int $at): void
    {
        while (isset($this->tokens[$at]) && $this->tokens[$at]->text !== '(') {
            if (in_array($this->tokens[$at]->text, ['{', ';', '}'], true)) {
                return;
            }
            $at++;
        }
        $depth = 0;
        $type = [];
        for (; isset($this->tokens[$at]); $at++) {
            $token = $this->tokens[$at];
            if ($token->text === '(' || $token->text === '[' || $token->id === T_ATTRIBUTE) {
                $depth++;
                continue;
            }
            if ($token->text === ')' || $token->text === ']') {
                if (--$depth === 0) {
                    return;
                }
                continue;
            }
            if ($token->text === '{' || $token->text === ';') {
                return;
            }
            if ($depth !== 1) {
                continue;
            }
            if ($token->text === ',') {
                $type = [];
            } elseif ($token->id === T_VARIABLE) {
                $isNull = $this->is($at + 1, ['=']) && strtolower(ltrim($this->tokens[$at + 2]->text ?? '', '\\')) === 'null' && !$this->is($at + 3, [T_DOUBLE_COLON]);
                if ($isNull && $type && !array_intersect($type, ['?', 'null', 'mixed'])) {
                    $this->use('language', 'implicit-null', $token->line);
                }
                $type = [];
            } elseif ($token->text === '?' || $token->is([T_STRING, T_NAME_QUALIFIED, T_NAME_FULLY_QUALIFIED, T_NAME_RELATIVE, T_ARRAY, T_CALLABLE])) {
                $type[] = strtolower($token->text);
            }
        }
    }

    /** Variables that older PHPs filled. */
    private const OLD = ['$HTTP_RAW_POST_DATA', '$HTTP_GET_VARS', '$HTTP_POST_VARS', '$HTTP_COOKIE_VARS', '$HTTP_SERVER_VARS', '$HTTP_ENV_VARS',
        '$HTTP_SESSION_VARS', '$HTTP_POST_FILES', '$php_errormsg'];
    /** @var array<string, array> Lines where they are read, the versions that code asks for, and whether the file fills or asks for them. */
    private array $old = [];

    private function old(int $at): void
    {
        $name = substr($this->tokens[$at]->text, 1);
        $this->old[$name] ??= [];
        $isAsked = $this->is($at - 1, ['(']) && $this->is($at - 2, [T_ISSET, T_EMPTY]);
        if ($this->is($at + 1, ['='])) {
            $this->declared[] = ['v', $name];
        } elseif ($isAsked || $this->is($at + 1, [T_COALESCE])) {
            $this->asked["variable $name"] = true;
        } else {
            $this->old[$name][] = $this->tokens[$at]->line;
        }
    }

    private function variables(): void
    {
        foreach ($this->old as $name => $lines) {
            if (!isset($this->asked["variable $name"])) {
                array_map(fn ($line) => $this->use('language', "variable $name", $line), $lines);
            }
        }
    }

    /** A method that has its class's name, as constructors had before `__construct`. One that gives a value is none, nor is a static one. */
    private function constructor(int $class): void
    {
        $name = $this->tokens[$class]->text;
        $open = $this->until($class, ['{', ';']);
        $end = $this->closing($open);
        if ($this->namespace !== '' || !$this->is($class - 1, [T_CLASS])) {
            return;
        }
        $found = null;
        for ($at = $open + 1; $at < $end; $at++) {
            if ($this->is($at, ['{', T_CURLY_OPEN])) {
                $at = $this->closing($at);
            } elseif ($this->is($at, [T_FUNCTION])) {
                $method = $this->is($at + 1, ['&']) ? $at + 2 : $at + 1;
                if (strtolower($this->tokens[$method]->text ?? '') === '__construct') {
                    return;
                }
                $isStatic = $this->is($at - 1, [T_STATIC]) || $this->is($at - 2, [T_STATIC]);
                if (($this->tokens[$method]->text ?? '') === $name && !$isStatic && !$this->givesValue($method)) {
                    $found = $this->tokens[$at]->line;
                }
            }
        }
        if ($found !== null) {
            $this->use('language', 'old-constructor', $found);
        }
    }

    private function givesValue(int $method): bool
    {
        $next = $this->closing($method + 1) + 1;
        $end = $this->is($next, ['{']) ? $this->closing($next) : $next;
        for ($at = $next; $at < $end; $at++) {
            if ($this->is($at, [T_FUNCTION])) {
                $at = $this->closing($this->until($at, ['{']));
            } elseif ($this->is($at, [T_RETURN]) && !$this->is($at + 1, [';'])) {
                return true;
            }
        }
        return $this->is($next, [':']);
    }

    /** A pattern with the modifier e, which executed the replacement as code. A pattern that is put together has a byte for each other part. */
    private function pattern(int $open): void
    {
        $close = $this->closing($open);
        $pattern = '';
        for ($at = $open + 1; $at <= $close; $at++) {
            $token = $this->tokens[$at] ?? null;
            if ($at === $close || $token?->text === ',') {
                if (preg_match('/^([^\\w\\s\\\\\\0])(.*)([^\\w\\s\\\\\\0])([a-zA-Z]*)$/s', $pattern, $found)) {
                    $ends = ['(' => ')', '{' => '}', '[' => ']', '<' => '>'][$found[1]] ?? $found[1];
                    if ($found[3] === $ends && str_contains($found[4], 'e')) {
                        $this->use('language', 'modifier-e', $this->tokens[$open]->line);
                        return;
                    }
                }
                $pattern = '';
                $isList = $this->is($open + 1, ['[', T_ARRAY]);
                if (!$isList) {
                    return;
                }
            } elseif ($token?->id === T_CONSTANT_ENCAPSED_STRING) {
                $pattern .= substr($token->text, 1, -1);
            } elseif ($token?->id === T_ENCAPSED_AND_WHITESPACE) {
                $pattern .= $token->text;
            } elseif (!$token?->is(['.', '"', '[', ']', '(', ')', T_ARRAY])) {
                $pattern .= "\0";
            }
        }
    }
}
