<?php
// What a file's tokens say, for `reprise doctor`: read.php asks. The tokenizer executes nothing.

namespace Reprise\Doctor;

use PhpToken;

final class File
{
    use Forms;
    use Guarded;
    use Missing;

    /** @var list<PhpToken> Without white space and comments. */
    private array $tokens = [];
    /** @var list<int|string> Their kinds; a single character is a kind of its own. */
    private array $kinds = [];
    private string $namespace = '';
    /** @var array<string, string> Imported classes, by alias in lower case. */
    private array $imports = [];
    /** @var array<string, true> Functions and constants that are imported. */
    private array $functions = [];
    /** @var list<string> What each open brace belongs to. */
    private array $braces = [];
    /** @var array<int, list<int>> Versions that the code asks for, by the number of open braces. */
    private array $guards = [];
    /** @var array<string, true> Names that the file asks for before it uses them. */
    private array $asked = [];
    private array $uses = [];
    private array $facts = [];
    private array $declared = [];
    /** The token that is looked at. */
    private int $at = 0;

    private const NAMES = [T_STRING, T_NAME_QUALIFIED, T_NAME_FULLY_QUALIFIED, T_NAME_RELATIVE];
    private const ASKING = ['function_exists', 'is_callable', 'defined', 'class_exists', 'interface_exists', 'trait_exists',
        'enum_exists', 'method_exists', 'extension_loaded'];
    private const CALLS = ['set_error_handler', 'set_exception_handler', 'restore_error_handler', 'restore_exception_handler',
        'register_shutdown_function', 'spl_autoload_register', 'spl_autoload_unregister', 'pcntl_signal', 'stream_wrapper_register',
        'stream_wrapper_unregister', 'stream_wrapper_restore', 'libxml_set_external_entity_loader', 'libxml_set_streams_context',
        'mysqli_report', 'assert_options', 'setlocale', 'date_default_timezone_set', 'mb_internal_encoding', 'mb_regex_encoding',
        'mb_language', 'mb_substitute_character', 'mb_detect_order', 'bcscale', 'libxml_disable_entity_loader',
        'mt_srand', 'srand', 'mysqli_connect', 'mysql_connect', 'pg_connect', 'pg_pconnect', 'mysqli_init', 'fsockopen', 'pfsockopen',
        'stream_socket_client', 'stream_socket_server', 'socket_create', 'session_start', 'sem_get', 'sem_acquire', 'flock', 'popen',
        'proc_open', 'pcntl_fork', 'tmpfile', 'ftp_connect', 'ldap_connect', 'imap_open', 'fopen', 'reprise_snapshot',
        'reprise_handle_request', 'frankenphp_handle_request', 'dl', 'set_time_limit', 'ignore_user_abort', 'ob_start',
        'reprise_warmup_requests'];
    private const CLASSES = ['pdo', 'mysqli', 'redis', 'rediscluster', 'memcached', 'memcache', 'amqpconnection', 'sqlite3', 'rdkafka\\producer',
        'mongodb\\driver\\manager', 'random\\randomizer', 'random\\engine\\mt19937', 'random\\engine\\pcgoneseq128xslrr64',
        'random\\engine\\xoshiro256starstar', 'random\\engine\\secure', 'parallel\\runtime', 'ffi'];

    /** Functions that are deprecated or fail with fewer or more arguments than these. */
    private const ARGUMENTS = ['get_class' => [1, 99], 'get_parent_class' => [1, 99], 'mb_check_encoding' => [1, 99], 'fputcsv' => [5, 99],
        'parse_str' => [2, 2], 'mb_parse_str' => [2, 2], 'mktime' => [1, 6], 'gmmktime' => [1, 6], 'crypt' => [2, 2],
        'fgetcsv' => [5, 99], 'str_getcsv' => [4, 99], 'session_set_save_handler' => [0, 2], 'get_defined_functions' => [0, 0]];

    /** @param ?array $has What PHP has, by kind and name; null if that is unknown. */
    public function __construct(private readonly string $source, private readonly array $names, private readonly ?array $has) {}

    public function look(): array
    {
        foreach (PhpToken::tokenize($this->source) as $token) {
            if (!$token->is([T_WHITESPACE, T_COMMENT, T_DOC_COMMENT, T_INLINE_HTML, T_OPEN_TAG])) {
                $this->tokens[] = $token;
                $this->kinds[] = $token->id < 256 ? $token->text : $token->id;
            }
        }
        $pending = null;
        foreach ($this->tokens as $at => $token) {
            $this->at = $at;
            $this->lists($at);
            $this->quote($token);
            switch ($token->id) {
                case T_NAMESPACE:
                    $this->namespace = $this->is($at + 1, [T_STRING, T_NAME_QUALIFIED]) ? $this->tokens[$at + 1]->text : '';
                    $this->imports = $this->functions = [];
                    break;
                case T_USE:
                    if (!$this->braces || end($this->braces) === 'namespace') {
                        $this->import($at + 1);
                    }
                    break;
                case T_CLASS:
                case T_INTERFACE:
                case T_TRAIT:
                case T_ENUM:
                    if (!$this->is($at - 1, [T_DOUBLE_COLON])) {
                        $pending = 'class';
                        if ($this->is($at + 1, [T_STRING])) {
                            $this->declared[] = ['c', ltrim($this->namespace . '\\' . $this->tokens[$at + 1]->text, '\\')];
                            $this->constructor($at + 1);
                        }
                    }
                    break;
                case T_FN:
                    $this->parameters($at);
                    break;
                case T_FUNCTION:
                    if (!$this->is($at - 1, [T_USE])) {
                        $pending = 'function';
                        $name = $this->is($at + 1, ['&']) ? $at + 2 : $at + 1;
                        if ($this->in() !== 'class' && $this->is($name, [T_STRING])) {
                            $this->declared[] = ['f', ltrim($this->namespace . '\\' . $this->tokens[$name]->text, '\\')];
                            if ($this->namespace === '' && strtolower($this->tokens[$name]->text) === '__autoload') {
                                $this->use('language', 'autoload', $token->line);
                            }
                        }
                        $this->parameters($at);
                    }
                    break;
                case T_CONST:
                    if (end($this->braces) !== 'class' && $this->is($at + 1, [T_STRING])) {
                        $this->declared[] = ['k', $this->tokens[$at + 1]->text];
                    }
                    break;
                case T_TRY:
                    $this->catching($at);
                    break;
                case T_CONSTANT_ENCAPSED_STRING:
                case T_ENCAPSED_AND_WHITESPACE:
                    $this->inText($token->text);
                    break;
                case T_INCLUDE:
                case T_INCLUDE_ONCE:
                case T_REQUIRE:
                case T_REQUIRE_ONCE:
                    $this->included($at);
                    break;
                case T_CURLY_OPEN:
                case T_DOLLAR_OPEN_CURLY_BRACES:
                    $this->braces[] = 'string';
                    break;
            }
            // A part of a string may be a single brace, too.
            switch ($token->id < 256 ? $token->text : '') {
                case '{':
                    $isSpace = $pending === null && !$this->braces && $this->isNamespace($at);
                    $this->braces[] = $isSpace ? 'namespace' : ($pending ?? 'block');
                    $pending = null;
                    break;
                case '}':
                    unset($this->guards[count($this->braces)]);
                    array_pop($this->braces);
                    break;
                case ';':
                    if ($pending === 'function') {
                        $pending = null;
                    }
                    break;
            }
            if ($this->is($at, self::NAMES)) {
                $this->version($at);
                $this->name($at);
            }
            $this->language($at);
        }
        $this->ask();
        $this->variables();
        $this->shown();
        $isAsked = fn ($use) => isset($this->asked[strtolower($use[1])]);
        $uses = array_values(array_filter($this->uses, fn ($use) => !$isAsked($use)));
        $missing = array_values(array_filter($this->missing, fn ($use) => !$isAsked($use)));
        $declared = array_values(array_unique($this->declared, SORT_REGULAR));
        return ['uses' => $uses, 'facts' => $this->facts, 'declared' => $declared, 'missing' => $missing, 'asked' => array_map(strval(...), array_keys($this->asked))];
    }

    private function is(int $at, array $kinds): bool
    {
        return in_array($this->kinds[$at] ?? null, $kinds, true);
    }

    /** Whether an opening brace belongs to `namespace x {`. */
    private function isNamespace(int $at): bool
    {
        return $this->is($at - 1, [T_NAMESPACE]) || ($this->is($at - 2, [T_NAMESPACE]) && $this->is($at - 1, [T_STRING, T_NAME_QUALIFIED]));
    }

    /** The innermost function or class. */
    private function in(): ?string
    {
        for ($at = count($this->braces) - 1; $at >= 0; $at--) {
            if ($this->braces[$at] === 'function' || $this->braces[$at] === 'class') {
                return $this->braces[$at];
            }
        }
        return null;
    }

    /** Names that stand in function_exists('…') and its like, anywhere in the file. */
    private function ask(): void
    {
        foreach ($this->tokens as $at => $token) {
            if (!$this->is($at, [T_STRING, T_NAME_FULLY_QUALIFIED]) || !$this->is($at + 1, ['('])) {
                continue;
            }
            $called = strtolower(ltrim($token->text, '\\'));
            if (!in_array($called, self::ASKING, true)) {
                continue;
            }
            $last = null;
            for ($next = $at + 2; $next < $at + 8 && isset($this->tokens[$next]) && $this->tokens[$next]->text !== ')'; $next++) {
                $argument = $this->tokens[$next];
                if ($argument->id === T_CONSTANT_ENCAPSED_STRING) {
                    $text = strtolower(str_replace('\\\\', '\\', trim($argument->text, '\'"')));
                    $this->asked[ltrim($text, '\\')] = true;
                    if ($last !== null && $called === 'method_exists') {
                        $this->asked["$last::$text"] = true;
                    }
                    if ($called === 'defined' && str_contains($text, '::')) {
                        $this->asked[strtolower(ltrim($text, '\\'))] = true;
                    }
                    if ($called === 'extension_loaded') {
                        $this->asked["ext-$text"] = true;
                    }
                    $last = ltrim($text, '\\');
                } elseif ($argument->is([T_STRING, T_NAME_QUALIFIED, T_NAME_FULLY_QUALIFIED]) && $this->is($next + 1, [T_DOUBLE_COLON])) {
                    $last = strtolower($this->resolve($argument));
                    $this->asked[$last] = true;
                }
            }
        }
    }

    /** A `use` at the top of a file. */
    private function import(int $at): void
    {
        if ($this->is($at, [T_FUNCTION, T_CONST])) {
            for (; isset($this->tokens[$at]) && $this->tokens[$at]->text !== ';'; $at++) {
                if ($this->is($at, [T_STRING, T_NAME_QUALIFIED, T_NAME_FULLY_QUALIFIED])) {
                    $path = ltrim($this->tokens[$at]->text, '\\');
                    $parts = explode('\\', $path);
                    if (count($parts) > 1) {
                        $this->functions[strtolower(end($parts))] = true;
                    }
                }
            }
            return;
        }
        $prefix = '';
        for (; isset($this->tokens[$at]) && $this->tokens[$at]->text !== ';'; $at++) {
            if (!$this->is($at, [T_STRING, T_NAME_QUALIFIED, T_NAME_FULLY_QUALIFIED])) {
                continue;
            }
            $path = ltrim($this->tokens[$at]->text, '\\');
            if ($this->is($at + 1, [T_NS_SEPARATOR])) {
                $prefix = $path . '\\';
                continue;
            }
            $parts = explode('\\', $path);
            $alias = end($parts);
            if ($this->is($at + 1, [T_AS])) {
                $alias = $this->tokens[$at + 2]->text ?? $alias;
                $at += 2;
            }
            $this->imports[strtolower($alias)] = $prefix . $path;
        }
    }

    /** A class by its name in the code, resolved. */
    private function resolve(PhpToken $token): string
    {
        if ($token->id === T_NAME_FULLY_QUALIFIED) {
            return substr($token->text, 1);
        }
        $parts = explode('\\', $token->text, 2);
        $first = strtolower($parts[0]);
        if ($token->id === T_NAME_RELATIVE) {
            return ltrim($this->namespace . '\\' . ($parts[1] ?? ''), '\\');
        }
        if (isset($this->imports[$first])) {
            return $this->imports[$first] . (isset($parts[1]) ? '\\' . $parts[1] : '');
        }
        return ltrim($this->namespace . '\\' . $token->text, '\\');
    }

    /** PHP_VERSION_ID < 80400, version_compare(PHP_VERSION, '8.4', '<') and the like hold for what follows in the same block. */
    private function version(int $at): void
    {
        $token = $this->tokens[$at];
        if (!in_array(ltrim($token->text, '\\'), ['PHP_VERSION_ID', 'PHP_VERSION', 'PHP_MAJOR_VERSION'], true)) {
            return;
        }
        $version = 0;
        for ($next = max(0, $at - 3); $next < $at + 5 && isset($this->tokens[$next]); $next++) {
            $near = $this->tokens[$next];
            if ($near->id === T_LNUMBER && (int) str_replace('_', '', $near->text) >= 50000) {
                $version = intdiv((int) str_replace('_', '', $near->text), 100);
            } elseif ($near->id === T_CONSTANT_ENCAPSED_STRING && preg_match('/^.(\d+)(?:\.(\d+))?/', $near->text, $found)) {
                $version = 100 * (int) $found[1] + (int) ($found[2] ?? 0);
            } elseif ($near->id === T_LNUMBER && ltrim($token->text, '\\') === 'PHP_MAJOR_VERSION') {
                $version = 100 * (int) $near->text;
            }
        }
        // Asked without a comparison, such as for a message, it holds for nothing.
        if ($version > 0) {
            $this->guards[count($this->braces)][] = $version;
        }
    }

    private function use(string $kind, string $name, int $line): void
    {
        if ($kind !== 'language' && $this->isCaught()) {
            return;
        }
        $guards = $this->guards ? array_values(array_unique(array_merge(...array_values($this->guards)))) : [];
        $this->uses[] = [$kind, $name, $line, $guards];
    }

    private function fact(string $what, int $line, string $detail = ''): void
    {
        $this->facts[] = [$what, $line, in_array('function', $this->braces, true) ? 1 : 0, $detail];
    }

    private function name(int $at): void
    {
        $token = $this->tokens[$at];
        $isObject = $this->is($at - 1, [T_OBJECT_OPERATOR, T_NULLSAFE_OBJECT_OPERATOR]);
        $isCall = $this->is($at + 1, ['(']);
        if ($isObject) {
            $lower = strtolower($token->text);
            if ($isCall && isset($this->names['method'][$lower])) {
                $this->use('method', $lower, $token->line);
            }
            return;
        }
        if ($this->is($at - 1, [T_DOUBLE_COLON])) {
            $of = $this->tokens[$at - 2] ?? null;
            if ($of?->is(self::NAMES)) {
                $member = strtolower($this->resolve($of)) . '::' . ($isCall ? strtolower($token->text) : $token->text);
                if (isset($this->names['member'][$member])) {
                    $this->use('member', $member, $token->line);
                }
            }
            return;
        }
        if ($this->is($at - 1, [T_FUNCTION, T_CLASS, T_INTERFACE, T_TRAIT, T_ENUM, T_CONST, T_NAMESPACE, T_USE, T_AS, T_GOTO, T_INSTEADOF])) {
            return;
        }
        if ($this->is($at - 1, ['&']) && $this->is($at - 2, [T_FUNCTION])) {
            return;
        }
        $isNew = $this->is($at - 1, [T_NEW]);
        if ($isNew || $this->is($at + 1, [T_DOUBLE_COLON]) || $this->is($at - 1, [T_EXTENDS, T_IMPLEMENTS])) {
            $class = $this->resolve($token);
            $lower = strtolower($class);
            $isName = $this->is($at + 1, [T_DOUBLE_COLON]) && $this->is($at + 2, [T_CLASS]);
            if (!$isName && !in_array($lower, ['self', 'parent'], true) && !in_array(strtolower($token->text), ['self', 'parent'], true)) {
                $this->meet('class', $lower, $token->line, $class);
            }
            if ($isNew && (in_array($lower, self::CLASSES, true))) {
                $this->fact('new', $token->line, $class);
            }
            if ($lower === 'ffi') {
                $this->fact('ffi', $token->line, $class);
            }
            return;
        }
        if ($token->id === T_NAME_QUALIFIED || $token->id === T_NAME_RELATIVE) {
            return;
        }
        $name = ltrim($token->text, '\\');
        $lower = strtolower($name);
        if (str_contains($name, '\\') || ($token->id === T_STRING && isset($this->functions[$lower]))) {
            return;
        }
        if ($isCall) {
            // An attribute's arguments look like a call.
            if (!isset($this->types[$at])) {
                $this->meet('function', $lower, $token->line, $name);
            }
            match ($lower) {
                'define', 'class_alias' => $this->declaring($lower, $at + 2),
                'preg_replace', 'preg_filter' => $this->pattern($at + 1),
                'ini_set', 'ini_alter' => ($setting = $this->literal($at + 2)) !== null && $this->meet('setting', $setting, $token->line),
                default => null,
            };
            if (isset(self::ARGUMENTS[$lower])) {
                [$least, $most] = self::ARGUMENTS[$lower];
                $count = $this->arguments($at + 1);
                if ($count !== null && ($count < $least || $count > $most)) {
                    $this->use('language', "arguments $lower", $token->line);
                }
            }
            if (in_array($lower, self::CALLS, true)) {
                $detail = $lower;
                if ($lower === 'fopen') {
                    $detail = $this->mode($at + 1);
                    if ($detail === null) {
                        return;
                    }
                }
                $this->fact('call', $token->line, $detail);
            }
        } elseif ($this->isConstant($at)) {
            $this->meet('constant', $name, $token->line);
        }
    }

    /** The number of arguments of a call; null if the tokens do not say. */
    private function arguments(int $at): ?int
    {
        $depth = $count = 0;
        $isEmpty = true;
        for (; isset($this->tokens[$at]); $at++) {
            $token = $this->tokens[$at];
            $text = $token->id < 256 ? $token->text : '';
            if ($text === '(' || $text === '[' || $text === '{' || $token->is([T_CURLY_OPEN, T_ATTRIBUTE])) {
                $isEmpty = $isEmpty && $depth === 0;
                $depth++;
            } elseif ($text === ')' || $text === ']' || $text === '}') {
                if (--$depth === 0) {
                    return $isEmpty ? $count : $count + 1;
                }
            } elseif ($depth === 1 && $text === ',') {
                $count++;
                $isEmpty = true;
                continue;
            } elseif ($token->id === T_ELLIPSIS || ($depth === 1 && $text === ':' && $this->is($at - 1, [T_STRING]) && $this->is($at - 2, ['(', ',']))) {
                // Unpacked or named arguments, or the function itself as a closure.
                return null;
            }
            if ($depth > 1 || $text !== '(') {
                $isEmpty = false;
            }
        }
        return null;
    }

    /** That a file is opened for writing, if the second argument of fopen() says so. */
    private function mode(int $at): ?string
    {
        $depth = 0;
        for (; isset($this->tokens[$at]); $at++) {
            $text = $this->tokens[$at]->text;
            if ($text === '(' || $text === '[') {
                $depth++;
            } elseif ($text === ')' || $text === ']') {
                if (--$depth === 0) {
                    return null;
                }
            } elseif ($text === ',' && $depth === 1) {
                $mode = $this->tokens[$at + 1]->text ?? '';
                return preg_match('/^[\'"](?:[waxc]|r\+|rb\+|r\+b)/', $mode) ? 'fopen for writing' : null;
            }
        }
        return null;
    }
}
