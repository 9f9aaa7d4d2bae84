<?php
// The page of a fatal error under `reprise dev`: PHP evaluates what follows `return`, in the process that had the error
// (csrc/engine/error_page.c), and calls it behind the application's own shutdown functions. It defines no name.
return static function (array $error): void {
    $escape = static fn (string $text): string => htmlspecialchars($text, ENT_QUOTES | ENT_SUBSTITUTE | ENT_HTML5, 'UTF-8');
    $root = rtrim(dirname($_SERVER['DOCUMENT_ROOT'] ?? '') ?: '', '/') . '/';
    $short = static fn (string $file): string => str_starts_with($file, $root) ? substr($file, strlen($root)) : $file;

    // What happened, the cause first: an exception's text has all that led to it.
    $kinds = [E_PARSE => 'Parse error', E_COMPILE_ERROR => 'Compile error', E_USER_ERROR => 'Error'];
    $kind = $kinds[$error['type']] ?? 'Fatal error';
    $calls = static function (string $trace): array {
        $found = [];
        foreach (preg_split('/^#\d+ /m', $trace, -1, PREG_SPLIT_NO_EMPTY) ?: [] as $call) {
            if (preg_match('/^(.+?)\((\d+)\): (.*)$/s', rtrim($call), $part)) {
                $found[] = ['file' => $part[1], 'line' => (int) $part[2], 'call' => $part[3]];
            } else {
                $found[] = ['file' => '', 'line' => 0, 'call' => rtrim($call)];
            }
        }
        return $found;
    };
    $causes = [];
    if (str_starts_with($error['message'], 'Uncaught ')) {
        $text = preg_replace('/\n  thrown$/', '', substr($error['message'], 9));
        foreach (explode("\n\nNext ", $text) as $one) {
            if (preg_match('/^([\w\\\\]+)(?:@anonymous\S*)?(?:: (.*))? in (.+):(\d+)\nStack trace:\n(.*)$/s', $one, $part)) {
                $causes[] = ['kind' => $part[1], 'message' => $part[2], 'file' => $part[3], 'line' => (int) $part[4], 'calls' => $calls($part[5])];
            }
        }
    }
    if (!$causes) {
        $list = [];
        foreach ($error['trace'] ?? [] as $call) {
            $name = ($call['class'] ?? '') . ($call['type'] ?? '') . ($call['function'] ?? '') . '()';
            $list[] = ['file' => $call['file'] ?? '', 'line' => $call['line'] ?? 0, 'call' => $name];
        }
        $causes[] = ['kind' => $kind, 'message' => $error['message'], 'file' => $error['file'], 'line' => $error['line'], 'calls' => $list];
    }
    // The exception that nobody caught comes last in its text, and first here.
    $causes = array_reverse($causes);

    $method = (string) ($_SERVER['REQUEST_METHOD'] ?? '');
    $url = (isset($_SERVER['HTTPS']) ? 'https' : 'http') . '://' . ($_SERVER['HTTP_HOST'] ?? '') . ($_SERVER['REQUEST_URI'] ?? '');
    $plain = '';
    foreach ($causes as $number => $cause) {
        $plain .= ($number ? "\nCaused by " : '') . "{$cause['kind']}: {$cause['message']}\n  at {$cause['file']}:{$cause['line']}\n";
        foreach ($cause['calls'] as $index => $call) {
            $plain .= "  #$index " . ($call['file'] === '' ? '' : "{$call['file']}:{$call['line']} ") . "{$call['call']}\n";
        }
    }
    $plain .= "\n$method $url\nPHP " . PHP_VERSION . ', ' . date('Y-m-d H:i:s P') . "\n";

    $is_html = str_contains($_SERVER['HTTP_ACCEPT'] ?? '', 'text/html');
    foreach ($error['is_sent'] ? headers_list() : [] as $header) {
        $is_html = $is_html && (stripos($header, 'content-type:') !== 0 || stripos($header, 'text/html') !== false);
    }
    if (!$error['is_sent']) {
        while (ob_get_level() > 0 && @ob_end_clean());
        foreach (['Content-Encoding', 'Content-Length', 'Content-Security-Policy', 'Content-Disposition', 'ETag', 'Last-Modified', 'Location'] as $name) {
            header_remove($name);
        }
        http_response_code(500);
        header('Cache-Control: no-store');
        header('X-Content-Type-Options: nosniff');
        header('Content-Type: text/' . ($is_html ? 'html' : 'plain') . '; charset=UTF-8');
    }
    if (!$is_html) {
        echo "\n", $plain;
        return;
    }

    $link = static function (string $file, int $line) use ($escape, $short): string {
        $text = $escape($short($file)) . ($line ? ":$line" : '');
        if ('EDITOR_URL' === '' || !str_starts_with($file, '/')) {
            return "<span class=file>$text</span>";
        }
        $path = implode('/', array_map('rawurlencode', explode('/', $file)));
        return '<a class=file title="Open in the editor" href="' . $escape(str_replace(['%f', '%l'], [$path, (string) $line], 'EDITOR_URL')) . "\">$text</a>";
    };
    $source = static function (string $file, int $line) use ($escape): string {
        $text = $line > 0 && @is_file($file) ? @file_get_contents($file, false, null, 0, 4 << 20) : false;
        $lines = $text === false ? [] : preg_split('/\r\n|\n|\r/', $text);
        if (!isset($lines[$line - 1])) {
            return '';
        }
        $html = '';
        for ($at = max(1, $line - 7); $at <= min(count($lines), $line + 7); $at++) {
            $code = $escape(substr($lines[$at - 1], 0, 1000));
            $html .= '<div class="row' . ($at === $line ? ' here' : '') . "\"><b>$at</b><code>" . ($code === '' ? ' ' : $code) . '</code></div>';
        }
        return "<div class=source>$html</div>";
    };
    $table = static function (string $title, array $rows) use ($escape): string {
        if (!$rows) {
            return '';
        }
        $html = '';
        foreach ($rows as $name => $value) {
            // What is copied from here into a report is nobody's password.
            $is_secret = preg_match('/pass|secret|token|auth|key|cookie|sess|csrf/i', (string) $name) && $value !== '';
            $text = is_scalar($value) ? (string) $value : (json_encode($value, JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE | JSON_PARTIAL_OUTPUT_ON_ERROR, 5) ?: '');
            $text = $is_secret ? '(hidden)' : (strlen($text) > 500 ? substr($text, 0, 500) . ' …' : $text);
            $html .= '<tr><th>' . $escape((string) $name) . '</th><td>' . $escape($text) . '</td></tr>';
        }
        return "<h3>$title</h3><table>$html</table>";
    };
    $headers = [];
    foreach ($_SERVER as $name => $value) {
        if (str_starts_with((string) $name, 'HTTP_') && is_string($value)) {
            $headers[ucwords(strtolower(strtr(substr($name, 5), '_', '-')), '-')] = $value;
        }
    }

    $body = '';
    foreach ($causes as $number => $cause) {
        $body .= '<section>' . ($number ? '<h2>Caused by</h2>' : '') . '<p class=kind>' . $escape($cause['kind']) . '</p>';
        $body .= '<h1>' . nl2br($escape($cause['message'] === '' ? $cause['kind'] : $cause['message'])) . '</h1>';
        $body .= '<p>' . $link($cause['file'], $cause['line']) . '</p>' . $source($cause['file'], $cause['line']);
        $stack = '';
        foreach ($cause['calls'] as $call) {
            $excerpt = $call['file'] === '' ? '' : $source($call['file'], $call['line']);
            $is_foreign = $call['file'] === '' || str_contains($call['file'], '/vendor/') || !str_starts_with($call['file'], $root);
            $name = '<code class=call>' . $escape($call['call']) . '</code> ' . ($call['file'] === '' ? '' : $link($call['file'], $call['line']));
            $class = $is_foreign ? ' class=foreign' : '';
            $stack .= $excerpt === '' ? "<li$class><div class=bare>$name</div></li>" : "<li$class><details><summary>$name</summary>$excerpt</details></li>";
        }
        $body .= ($stack === '' ? '' : "<h2>Stack</h2><ol start=0>$stack</ol>") . '</section>';
    }
    $body .= '<section><h2>Request</h2><p class=request><b>' . $escape($method) . '</b> ' . $escape($url) . '</p>';
    $body .= $table('Query', $_GET) . $table('Form', $_POST) . $table('Files', array_map(static fn ($file) => $file['name'] ?? '', $_FILES));
    $body .= $table('Headers', $headers) . $table('Cookies', array_map(static fn () => '(hidden)', $_COOKIE)) . '</section>';
    $body .= '<footer>PHP ' . PHP_VERSION . ' · reprise dev · only here, never with reprise serve</footer>';

    $style = <<<'CSS'
        .reprise { all: initial; display: block; box-sizing: border-box; color-scheme: light dark; min-height: 100vh; padding: 2.5rem 1.25rem 2rem;
          --ink: #1d2129; --soft: #626b79; --paper: #f6f7f9; --card: #fff; --line: #e2e5ea; --accent: #c8322b; --mark: #fdecea; --link: #1a5fb4;
          color: var(--ink); background: var(--paper); font: 15px/1.55 system-ui, "Segoe UI", Roboto, "Noto Sans", sans-serif; }
        @media (prefers-color-scheme: dark) { .reprise { --ink: #e5e8ee; --soft: #9aa3b2; --paper: #15181d; --card: #1c2027; --line: #2d333d; --accent: #ff7066; --mark: #43211f; --link: #7fb3ff; } }
        .reprise * { box-sizing: border-box; }
        .reprise main { max-width: 62rem; margin: 0 auto; }
        .reprise section { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 1.5rem 1.75rem; margin: 0 0 1.25rem; }
        .reprise section:first-of-type { border-top: 4px solid var(--accent); }
        .reprise .kind { margin: 0; color: var(--accent); font-weight: 600; overflow-wrap: anywhere; }
        .reprise h1 { margin: .15rem 0 .75rem; font-size: 1.5rem; line-height: 1.3; font-weight: 650; overflow-wrap: anywhere; }
        .reprise h2 { margin: 1.75rem 0 .6rem; font-size: .8rem; letter-spacing: .06em; text-transform: uppercase; color: var(--soft); }
        .reprise section > h2:first-child { margin-top: 0; }
        .reprise h3 { margin: 1.25rem 0 .35rem; font-size: .95rem; }
        .reprise p { margin: 0 0 .75rem; }
        .reprise .file { color: var(--link); text-decoration: none; font: .86rem/1.5 ui-monospace, "SF Mono", Menlo, "DejaVu Sans Mono", monospace; overflow-wrap: anywhere; }
        .reprise a.file:hover { text-decoration: underline; }
        .reprise span.file { color: var(--soft); }
        .reprise .source { margin: .5rem 0; border: 1px solid var(--line); border-radius: 8px; overflow-x: auto; padding: .5rem 0; font: .84rem/1.6 ui-monospace, "SF Mono", Menlo, "DejaVu Sans Mono", monospace; background: var(--paper); }
        .reprise .row { display: flex; min-width: max-content; padding-right: 1rem; border-left: 3px solid transparent; }
        .reprise .row b { flex: none; width: 3.6rem; padding-right: 1rem; text-align: right; font-weight: 400; color: var(--soft); user-select: none; }
        .reprise .row code { white-space: pre; font: inherit; tab-size: 4; }
        .reprise .here { background: var(--mark); border-left-color: var(--accent); }
        .reprise .here b { color: var(--accent); font-weight: 700; }
        .reprise ol { margin: 0; padding: 0 0 0 2.1rem; color: var(--soft); font-size: .86rem; }
        .reprise li { padding: .22rem 0; border-bottom: 1px solid var(--line); }
        .reprise li:last-child { border-bottom: 0; }
        .reprise summary { cursor: pointer; }
        .reprise .bare { padding-left: 1.05em; }
        .reprise .call { color: var(--ink); font: .86rem/1.5 ui-monospace, "SF Mono", Menlo, "DejaVu Sans Mono", monospace; overflow-wrap: anywhere; margin-right: .5rem; }
        .reprise .foreign { opacity: .65; }
        .reprise table { border-collapse: collapse; width: 100%; font-size: .88rem; }
        .reprise th, .reprise td { text-align: left; vertical-align: top; padding: .3rem .75rem .3rem 0; border-top: 1px solid var(--line); overflow-wrap: anywhere; }
        .reprise th { width: 13rem; font-weight: 500; color: var(--soft); }
        .reprise .request { overflow-wrap: anywhere; }
        .reprise button { float: right; font: inherit; font-size: .85rem; color: var(--ink); background: var(--paper); border: 1px solid var(--line); border-radius: 6px; padding: .3rem .8rem; cursor: pointer; }
        .reprise button:hover { border-color: var(--soft); }
        .reprise footer { color: var(--soft); font-size: .82rem; text-align: center; }
        .reprise textarea { position: absolute; left: -200vw; }
        CSS;
    $script = <<<'JS'
        document.querySelector('.reprise button').onclick = async (event) => {
          const text = document.querySelector('.reprise textarea');
          try { await navigator.clipboard.writeText(text.value); } catch { text.select(); document.execCommand('copy'); }
          event.target.textContent = 'Copied';
        };
        JS;
    $title = $escape($causes[0]['kind'] . ': ' . substr($causes[0]['message'], 0, 200));
    $button = '<button type=button>Copy as text</button><textarea readonly tabindex=-1 aria-hidden=true>' . $escape($plain) . '</textarea>';
    $body = "<style>$style</style><div class=reprise><main>" . substr_replace($body, $button, strlen('<section>'), 0) . "</main></div><script>$script</script>";
    if ($error['is_sent']) {
        // The page has begun: whatever it was in the middle of ends, and this lies above it.
        echo "\n--></script></style></textarea></select></title></noscript><div style=\"position:fixed;inset:0;overflow:auto;z-index:2147483647\">$body</div>";
        return;
    }
    echo "<!DOCTYPE html>\n<html lang=en>\n<head><meta charset=utf-8><meta name=viewport content=\"width=device-width, initial-scale=1\"><title>$title</title><style>body { margin: 0 }</style></head>\n<body>$body</body>\n</html>\n";
};
