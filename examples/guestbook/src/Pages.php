<?php
declare(strict_types=1);

namespace Guestbook;

/** One method per page. */
final class Pages
{
    private const PER_PAGE = 8;
    // Nobody's visit changes these pages: Reprise may keep them until the next entry.
    private const SHARED = [
        'Reprise-Cache-Control' => 'max-age=3600, stale-while-revalidate=60',
        'Reprise-Cache-Tag' => 'book',
    ];

    private ?Book $book = null; // opened by the first page that reads it

    public function __construct(private string $data)
    {
        foreach (['', '/sessions', '/pictures'] as $part) {
            // Several processes may try at once; only the outcome counts.
            if (!is_dir($data . $part) && !@mkdir($data . $part, 0700, true) && !is_dir($data . $part)) {
                throw new \RuntimeException("cannot create $data$part");
            }
        }
    }

    public function home(mixed $page): Response
    {
        $number = is_string($page) && preg_match('/^[1-9]\d{0,5}$/D', $page) === 1 ? (int) $page : 0;
        if ($number < 1 || $number > self::pages($this->book()->count())) {
            return $this->notFound();
        }
        $session = new Session("$this->data/sessions");
        $flash = $session->takeFlash();
        $session->close();

        return $this->list($session, $number, ['flash' => $flash]);
    }

    public function sign(array $post, array $files): Response
    {
        // PHP drops a body larger than post_max_size, and the token with it.
        if ($post === [] && (int) ($_SERVER['CONTENT_LENGTH'] ?? 0) > Picture::MAX_BYTES) {
            return Response::message(413, 'Too much at once', 'A picture may have up to 2 MB. Nothing was stored.');
        }

        $session = new Session("$this->data/sessions");
        if (!$session->accepts($post['token'] ?? null)) {
            $session->close();
            return Response::message(403, 'This form has expired', 'It did not carry your visit’s token, so nothing was '
                . 'stored. Go back to the guestbook, let it load anew, and send your entry again.');
        }

        $name = self::clean($post['name'] ?? '');
        $message = self::clean($post['message'] ?? '');
        $upload = $files['picture'] ?? null;
        $upload = is_array($upload) && is_int($upload['error']) && $upload['error'] !== UPLOAD_ERR_NO_FILE ? $upload : null;

        $errors = array_filter([
            'name' => match (true) {
                $name === null || preg_match('/^[^\n]{0,60}$/Du', $name) !== 1 => 'A name has up to 60 characters, on one line.',
                $name === '' => 'Please tell us your name.',
                default => null,
            },
            'message' => match (true) {
                $message === null || preg_match('/^.{0,2000}$/Dsu', $message) !== 1 => 'A message has up to 2,000 characters.',
                $message === '' => 'Please write a few words.',
                default => null,
            },
            'picture' => $upload ? Picture::problem($upload) : null,
        ]);
        if ($errors) {
            $session->close();
            return $this->list($session, 1, ['errors' => $errors, 'name' => $name, 'message' => $message], 422);
        }

        $picture = $upload ? Picture::store($upload, "$this->data/pictures") : null;
        try {
            $this->book()->add($name, $message, $picture);
        } catch (\PDOException $error) {
            if ($picture) {
                unlink("$this->data/pictures/$picture->file");
            }
            throw $error;
        }
        // Servers with a cache of responses make the pages that show entries anew, the signer's first of all.
        if (function_exists('reprise_cache_purge')) {
            reprise_cache_purge(tags: ['book']);
        }
        $session->flash("Thank you, $name. Your entry is in the book.");
        $session->close();

        return Response::redirect('/');
    }

    public function entry(int $id): Response
    {
        $entry = $this->book()->entry($id);

        return $entry
            ? Response::page('entry', "$entry[name] wrote", ['entry' => $entry], headers: self::SHARED)
            : $this->notFound();
    }

    public function picture(int $id): Response
    {
        $entry = $this->book()->entry($id);
        $file = "$this->data/pictures/" . ($entry['picture'] ?? '');
        if (!isset($entry['picture']) || !is_file($file)) {
            return $this->notFound();
        }
        // A stored picture never changes, and no two share a name.
        $tag = '"' . pathinfo($entry['picture'], PATHINFO_FILENAME) . '"';
        $headers = ['ETag' => $tag, 'Cache-Control' => 'public, max-age=86400'];
        $known = preg_split('/\s*,\s*/', trim($_SERVER['HTTP_IF_NONE_MATCH'] ?? ''));
        if (array_intersect(['*', $tag, "W/$tag"], $known)) {
            return new Response(304, $headers);
        }

        return new Response(200, $headers + [
            'Content-Type' => $entry['picture_type'],
            'Content-Length' => (string) filesize($file),
        ], file: $file);
    }

    public function feed(): Response
    {
        $host = $_SERVER['HTTP_HOST'] ?? '';
        $host = preg_match('/^[\w.:\[\]-]+$/D', $host) === 1 ? $host : 'localhost';
        $scheme = ($_SERVER['HTTPS'] ?? 'off') !== 'off' ? 'https' : 'http';

        return new Response(200, [
            'Content-Type' => 'application/atom+xml; charset=utf-8',
            'Cache-Control' => 'public, max-age=60',
        ] + self::SHARED, render('feed', ['base' => "$scheme://$host", 'entries' => $this->book()->entries(20)]));
    }

    public function about(): Response
    {
        $opcache = function_exists('opcache_get_status') ? @opcache_get_status(false) : false;
        $facts = [
            'PHP' => PHP_VERSION . (PHP_ZTS ? ' (thread safe)' : ' (not thread safe)'),
            'Interface (SAPI)' => PHP_SAPI,
            'Process' => (string) getmypid(),
            'Server' => $_SERVER['SERVER_SOFTWARE'] ?? 'not told',
            'Protocol' => $_SERVER['SERVER_PROTOCOL'] ?? 'not told',
            'OPcache' => match (true) {
                $opcache === false => 'off',
                default => "on, {$opcache['opcache_statistics']['num_cached_scripts']} scripts, "
                    . number_format($opcache['opcache_statistics']['opcache_hit_rate'], 1) . ' % hits',
            },
            'JIT' => ($opcache['jit']['on'] ?? false) ? 'on' : 'off',
            'Memory of this request' => number_format(memory_get_peak_usage() / 1024) . ' KiB at most',
        ];

        return Response::page('about', 'About this page', [
            'facts' => $facts,
            'reprise' => function_exists('reprise_info') ? reprise_info() : null,
        ]);
    }

    public function notFound(): Response
    {
        return Response::message(404, 'No such page', 'There is nothing at this address.');
    }

    public function methodNotAllowed(string $allow): Response
    {
        return Response::message(405, 'Not that way', "This address answers to $allow.", ['Allow' => $allow]);
    }

    /** The entries and the form, with what was typed and what was wrong with it. */
    private function list(Session $session, int $page, array $vars, int $status = 200): Response
    {
        $book = $this->book();
        $total = $book->count();

        return Response::page('home', 'Guestbook', $vars + [
            'token' => $session->token(),
            'total' => $total,
            'entries' => $book->entries(self::PER_PAGE, ($page - 1) * self::PER_PAGE),
            'page' => $page,
            'pages' => self::pages($total),
            'flash' => null, 'errors' => [], 'name' => '', 'message' => '',
        ], $status);
    }

    private static function pages(int $entries): int
    {
        return max(1, (int) ceil($entries / self::PER_PAGE));
    }

    private function book(): Book
    {
        return $this->book ??= new Book($this->data);
    }

    /** Typed text without surrounding space and control characters; null if it is not text. */
    private static function clean(mixed $text): ?string
    {
        if (!is_string($text) || preg_match('//u', $text) !== 1) {
            return null;
        }

        return trim(preg_replace(['/\R/u', '/[^\P{Cc}\n\t]|\x{FFFE}|\x{FFFF}/u'], ["\n", ''], $text));
    }
}
