<?php
// php through_cache.php SOURCE TARGET STEP FIRST DIRECTORY…   Writes each STEP-th of the tests of php-src below SOURCE to TARGET, twice: as they are (plain/), and with each literal
// array and string of their code fetched from the data cache (cache/). Prints their names. Tests that need more than code are left out.

/** The end of the literal that begins at a token, or null. */
function literal_end(array $tokens, int $at): ?int {
    $depth = 0;
    $is_array = false;
    for ($i = $at; $i < count($tokens); $i++) {
        [$id, $text] = $tokens[$i];
        if ($text === '[' || ($id === T_ARRAY && ($tokens[$i + 1][1] ?? '') === '(')) {
            $i += $id === T_ARRAY ? 1 : 0;
            $depth++;
            $is_array = true;
        } elseif ($text === ']' || $text === ')') {
            if (--$depth === 0) {
                return $i;
            }
        } elseif ($id === T_CONSTANT_ENCAPSED_STRING) {
            if ($depth === 0) {
                return $is_array ? null : $i;
            }
        } elseif ($depth === 0 || !in_array($id, [T_WHITESPACE, T_LNUMBER, T_DNUMBER, T_DOUBLE_ARROW, T_COMMENT], true) && !in_array($text, [',', '-'], true)
            && !($id === T_STRING && in_array(strtolower($text), ['true', 'false', 'null'], true))) {
            return null;
        }
    }
    return null;
}

function transform(string $code): string {
    $tokens = array_map(fn ($token) => [$token->id, $token->text], PhpToken::tokenize($code));
    $out = '';
    $constant = 0;      // in a declaration that takes constant expressions alone, until this depth ends or its semicolon comes
    $in_constant = false;
    $depth = 0;
    $before = [0, ';'];
    for ($i = 0; $i < count($tokens); $i++) {
        [$id, $text] = $tokens[$i];
        $next = $i + 1;
        while (in_array($tokens[$next][0] ?? 0, [T_WHITESPACE, T_COMMENT], true)) {
            $next++;
        }
        $is_static_variable = $id === T_STATIC && ($tokens[$next][0] ?? 0) === T_VARIABLE;
        $is_declaration = in_array($id, [T_CONST, T_VAR, T_PUBLIC, T_PROTECTED, T_PRIVATE, T_FUNCTION, T_FN, T_DECLARE, T_CASE, T_USE, T_NAMESPACE, T_ATTRIBUTE, T_READONLY, T_INCLUDE, T_REQUIRE], true);
        if (!$in_constant && ($is_static_variable || $is_declaration)) {
            $in_constant = true;
            $constant = $depth;
        }
        if (!$in_constant && ($id === T_CONSTANT_ENCAPSED_STRING || $id === T_ARRAY || $text === '[') && !in_array($before[1], [']', ')', '}', '->', '?->', '::', '&'], true)
            && !in_array($before[0], [T_VARIABLE, T_STRING, T_STRING_VARNAME, T_CONSTANT_ENCAPSED_STRING, T_ENCAPSED_AND_WHITESPACE, T_DOLLAR_OPEN_CURLY_BRACES], true) && $before[1] !== '"') {
            $end = literal_end($tokens, $i);
            $after = $end === null ? '' : ($tokens[$end + 1][1] ?? '');
            if ($end !== null && $after !== '[' && $after !== '->' && $after !== '(' && $after !== '::' && trim($after) !== '=') {
                $out .= (ctype_alpha(substr($out, -1)) ? ' ' : '') . '\\from_cache(' . implode('', array_column(array_slice($tokens, $i, $end - $i + 1), 1)) . ')';
                $i = $end;
                $before = [0, ')'];
                continue;
            }
        }
        $depth += in_array($text, ['(', '[', '{'], true) || in_array($id, [T_CURLY_OPEN, T_DOLLAR_OPEN_CURLY_BRACES, T_ATTRIBUTE], true) ? 1 : (in_array($text, [')', ']', '}'], true) ? -1 : 0);
        if ($in_constant && $depth <= $constant && (in_array($text, [';', '}', ':'], true) || $id === T_DOUBLE_ARROW) || $in_constant && $text === '{' && $depth === $constant + 1) {
            $in_constant = false;
        }
        $out .= $text;
        if (!in_array($id, [T_WHITESPACE, T_COMMENT, T_DOC_COMMENT], true)) {
            $before = [$id, $text];
        }
    }
    return $out;
}

[, $source, $target, $step, $first] = $argv;
$count = 0;
foreach (array_slice($argv, 5) as $directory) {
    foreach (glob("$source/$directory/*.phpt") as $test) {
        if ($count++ % $step != $first) {
            continue;
        }
        $sections = preg_split('/^--([A-Z_]+)--\r?\n/m', file_get_contents($test), -1, PREG_SPLIT_DELIM_CAPTURE);
        $named = [];
        for ($i = 1; $i + 1 < count($sections); $i += 2) {
            $named[$sections[$i]] = $sections[$i + 1];
        }
        $code = $named['FILE'] ?? '';
        $needs_more = array_diff(array_keys($named), ['TEST', 'FILE', 'EXPECT', 'EXPECTF', 'EXPECTREGEX', 'CREDITS', 'DESCRIPTION']);
        // They look at time, chance, memory, other programs their own text or the end of the process: two runs do not have these in common.
        if ($code === '' || $needs_more || preg_match('/rand|shuffle|uniqid|microtime|hrtime|memory_get|memory_limit|debug_zval|proc_open|exec\(|sleep\(|set_time_limit|__halt_compiler|getmypid|tempnam|STDIN|STDOUT|PHP_BINARY|show_source|highlight_|__COMPILER|__DIR__|__FILE__/', $code)) {
            continue;
        }
        $name = strtr(substr($test, strlen($source) + 1, -5), '/', '-') . '.php';
        $cached = transform($code);
        if ($cached === $code) {
            continue;
        }
        try {
            // Before the same line ends as it did: messages name lines.
            token_get_all($cached, TOKEN_PARSE);
        } catch (Throwable) {
            fwrite(STDERR, "$name: no code any more\n");
            continue;
        }
        file_put_contents("$target/plain/$name", $code);
        file_put_contents("$target/cache/$name", $cached);
        // What tests include.
        foreach (glob(dirname($test) . '/*.inc') as $file) {
            foreach (['plain', 'cache'] as $kind) {
                @copy($file, "$target/$kind/" . basename($file));
            }
        }
        echo "$name\n";
    }
}
