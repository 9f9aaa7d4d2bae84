<?php
// What `reprise doctor` has each PHP do: read files, compile them without executing any, and say what is in them.
//
// The standard input has a JSON object, then the files' paths, all of them ended by a zero byte. `compile` asks for syntax, `look` for
// what the tokens say, with the names that matter in `names`, and all names that the application's PHP has in `has`. For each file a line of JSON is written, in order; so of a process that
// ends early it is known at which file.
//
// Nothing of the application runs: opcache_compile_file() compiles and executes nothing, and the tokenizer only reads.

namespace Reprise\Doctor;

// The names are in a namespace, because the compiler links the classes of the application with what is declared here.
use PhpToken;
use Throwable;

/** Compiles a file. What is wrong, as line and text, and what the compiler calls deprecated. */
function compile(string $path, string $source, bool $canCompile): array
{
    $deprecated = [];
    error_clear_last();
    // Some of the compiler's messages come here, and some are only displayed.
    set_error_handler(function (int $level, string $text, string $file, int $line) use (&$deprecated) {
        if ($level === E_DEPRECATED || $level === E_USER_DEPRECATED) {
            $deprecated[] = [$line, $text];
        }
        return true;
    });
    $error = null;
    $level = ob_get_level();
    ob_start();
    try {
        if ($canCompile) {
            if (!opcache_compile_file($path)) {
                $last = error_get_last();
                $error = [$last['line'] ?? 0, $last['message'] ?? 'PHP does not compile it and does not say why'];
            }
        } else {
            PhpToken::tokenize($source, TOKEN_PARSE);
        }
    } catch (Throwable $thrown) {
        $error = [$thrown->getLine(), $thrown->getMessage()];
    }
    restore_error_handler();
    $displayed = '';
    while (ob_get_level() > $level) {
        $displayed = ob_get_clean() . $displayed;
    }
    preg_match_all('/^Deprecated: (.*) in .* on line (\d+)$/m', $displayed, $found, PREG_SET_ORDER);
    foreach ($found as [, $text, $line]) {
        $deprecated[] = [(int) $line, $text];
    }
    return [$error, $deprecated];
}

$settings = json_decode((string) stream_get_line(STDIN, 1 << 24, "\0"), true, 16, JSON_THROW_ON_ERROR);
$canCompile = function_exists('opcache_compile_file') && (bool) ini_get('opcache.enable_cli');
if (!class_exists(PhpToken::class)) {
    fwrite(STDERR, 'PHP ' . PHP_VERSION . " has no extension tokenizer\n");
    exit(3);
}
echo "ready\n";
while (($path = stream_get_line(STDIN, 1 << 16, "\0")) !== false && $path !== '') {
    $found = [];
    $source = @file_get_contents($path);
    if ($source === false) {
        $found = ['unreadable' => preg_replace('/^.*: /', '', error_get_last()['message'] ?? 'it cannot be read')];
    } elseif (!preg_match('/<\?(?:php|=)/i', $source)) {
        $found = ['isText' => true];
    } else {
        if ($settings['compile']) {
            [$error, $deprecated] = compile($path, $source, $canCompile);
            $found = array_filter(['error' => $error, 'deprecated' => $deprecated]);
            $isBinary = $error && str_contains(substr($source, 0, 8192), "\0");
            $found += $isBinary ? ['isBinary' => true] : [];
        }
        if ($settings['look']) {
            $found += (new File($source, $settings['names'], $settings['has']))->look();
        }
    }
    echo json_encode($found, JSON_INVALID_UTF8_SUBSTITUTE | JSON_UNESCAPED_SLASHES), "\n";
}
